// Connect Four on bitboards: seven columns, six rows.
//
// A board is six bytes, the top row in the most significant one; within a row, column 0 is bit 7 and bit 0 stays empty,
// so that no line wraps around an edge.  Read from the top bit down, a board is the plane that the network sees.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "errors.hpp"

namespace zerofleet {

namespace detail {

struct OpenColumns {
  std::uint16_t columns[8] = {};  // the columns with room, ascending
  std::uint16_t count = 0;
};

// For each set of columns with room (bit 6 - c stands for column c): which they are, in order.
constexpr std::array<OpenColumns, 128> list_open_columns() {
  std::array<OpenColumns, 128> table{};
  for (unsigned open = 0; open < 128; ++open)
    for (int column = 0; column < 7; ++column)
      if (open >> (6 - column) & 1) table[open].columns[table[open].count++] = static_cast<std::uint16_t>(column);
  return table;
}

inline constexpr std::array<OpenColumns, 128> kOpenColumns = list_open_columns();

}  // namespace detail

struct Connect4 {
  static constexpr const char* name = "connect4";
  static constexpr int num_actions = 7;
  static constexpr int max_moves = 7;
  static constexpr int packed_size = 11;  // 2 planes of 42 squares, in bits
  static constexpr bool alternates = true;

  struct State {
    std::uint64_t own = 0;       // stones of the player to move
    std::uint64_t opponent = 0;  // stones of the player who moved last

    bool operator==(const State&) const = default;
    std::uint64_t occupied() const { return own | opponent; }
    int num_moves() const { return std::popcount(occupied()); }
  };

  static constexpr std::uint64_t kBoard = 0xFEFEFEFEFEFEULL;
  static constexpr std::uint64_t kBottom = 0xFEULL;

  static State initial() { return {}; }
  static int to_play(const State& s) { return s.num_moves() & 1; }

  // Has `stones` four in a row?
  [[gnu::always_inline]] static bool has_line(std::uint64_t stones) {
    const std::uint64_t across = stones & (stones >> 1);
    const std::uint64_t up = stones & (stones >> 8);
    const std::uint64_t rising = stones & (stones >> 7);
    const std::uint64_t falling = stones & (stones >> 9);
    return ((across & (across >> 2)) | (up & (up >> 16)) | (rising & (rising >> 14)) | (falling & (falling >> 18))) != 0;
  }

  static bool is_terminal(const State& s) { return s.occupied() == kBoard || has_line(s.opponent); }
  static int terminal_value(const State& s) { return has_line(s.opponent) ? -1 : 0; }
  static const char* termination(const State& s) { return has_line(s.opponent) ? "line" : "full board"; }

  // Bit 6 - c is set where column c has room.
  static unsigned open_columns(const State& s) { return ~static_cast<unsigned>(s.occupied() >> 41) & 0x7F; }
  static int num_legal(const State& s) { return detail::kOpenColumns[open_columns(s)].count; }
  static int legal_action(const State& s, int ordinal) { return detail::kOpenColumns[open_columns(s)].columns[ordinal]; }

  static int legal_actions(const State& s, std::uint16_t* out) {
    const detail::OpenColumns& open = detail::kOpenColumns[open_columns(s)];
    for (int i = 0; i < max_moves; ++i) out[i] = open.columns[i];  // the caller has room for all; `count` of them hold
    return open.count;
  }

  static bool is_legal_action(const State& s, int column) {
    return column >= 0 && column < num_actions && (open_columns(s) >> (6 - column) & 1) != 0;
  }

  static State play_action(const State& s, int column) {
    const std::uint64_t occupied = s.occupied();
    const std::uint64_t landing = ((occupied << 8) | kBottom) & ~occupied;
    const std::uint64_t stone = landing & (0x808080808080ULL >> column);
    return {s.opponent, s.own | stone};
  }

  static State play(const State& s, int ordinal) { return play_action(s, legal_action(s, ordinal)); }

  // Write both planes as packed bits, most significant first.
  static void pack(const State& s, std::uint8_t* out) {
    const std::uint64_t own = squeeze(s.own);
    const std::uint64_t opponent = squeeze(s.opponent);
    const std::uint64_t head = (own << 22) | (opponent >> 20);
    const auto tail = static_cast<std::uint32_t>(opponent << 4);
    for (int i = 0; i < 8; ++i) out[i] = static_cast<std::uint8_t>(head >> (56 - 8 * i));
    out[8] = static_cast<std::uint8_t>(tail >> 16);
    out[9] = static_cast<std::uint8_t>(tail >> 8);
    out[10] = static_cast<std::uint8_t>(tail);
  }

  // Six rows from the top, "x" the first player's stones, "o" the second's, "." free.
  static std::string text(const State& s) {
    const bool second = to_play(s) == 1;
    std::string out;
    for (int row = 0; row < 6; ++row) {
      if (row != 0) out += '/';
      for (int column = 0; column < 7; ++column) {
        const std::uint64_t bit = 1ULL << (47 - 8 * row - column);
        const bool own = (s.own & bit) != 0, other = (s.opponent & bit) != 0;
        out += !own && !other ? '.' : own != second ? 'x' : 'o';
      }
    }
    return out;
  }

  // Can these stones stand on a board: apart, none in the air, as many as turns allow?
  static bool is_valid(const State& s) {
    const std::uint64_t occupied = s.occupied();
    const int moves = std::popcount(occupied);
    return (s.own & s.opponent) == 0 && (occupied & ~kBoard) == 0 && (occupied & ~((occupied << 8) | kBottom)) == 0 &&
           std::popcount(s.own) == moves / 2 && !has_line(s.own);
  }

  static std::array<std::uint64_t, 2> bits(const State& s) { return {s.own, s.opponent}; }
  static State from_bits(const std::array<std::uint64_t, 2>& b) { return {b[0], b[1]}; }

 private:
  // Close the gaps that bit 0 of every row leaves: 6 x 8 bits become 42.
  static std::uint64_t squeeze(std::uint64_t board) {
    std::uint64_t x = board >> 1;
    x = (x & 0x007F007F007FULL) | ((x & 0x7F007F007F00ULL) >> 1);
    return (x & 0x3FFFULL) | ((x & 0x3FFF0000ULL) >> 2) | ((x & 0x3FFF00000000ULL) >> 4);
  }
};

}  // namespace zerofleet
