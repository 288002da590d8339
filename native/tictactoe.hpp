// Tic-tac-toe on bitboards: cell 0 (top left) is bit 8, cell 8 is bit 0.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "errors.hpp"

namespace zerofleet {

struct TicTacToe {
  static constexpr const char* name = "tictactoe";
  static constexpr int num_actions = 9;
  static constexpr int max_moves = 9;
  static constexpr int packed_size = 3;  // 2 planes of 9 squares, in bits
  static constexpr bool alternates = true;

  struct State {
    std::uint16_t own = 0;
    std::uint16_t opponent = 0;

    bool operator==(const State&) const = default;
    unsigned occupied() const { return own | opponent; }
    int num_moves() const { return std::popcount(occupied()); }
  };

  static constexpr unsigned kBoard = 0x1FF;

  static State initial() { return {}; }
  static int to_play(const State& s) { return s.num_moves() & 1; }

  static bool has_line(unsigned stones) {
    constexpr unsigned lines[] = {0x1C0, 0x038, 0x007, 0x124, 0x092, 0x049, 0x111, 0x054};
    for (const unsigned line : lines)
      if ((stones & line) == line) return true;
    return false;
  }

  static bool is_terminal(const State& s) { return s.occupied() == kBoard || has_line(s.opponent); }
  static int terminal_value(const State& s) { return has_line(s.opponent) ? -1 : 0; }
  static const char* termination(const State& s) { return has_line(s.opponent) ? "line" : "full board"; }

  static int num_legal(const State& s) { return 9 - s.num_moves(); }

  static int legal_action(const State& s, int ordinal) {
    unsigned open = ~s.occupied() & kBoard;
    for (; ordinal > 0; --ordinal) open &= ~std::bit_floor(open);
    return 9 - std::bit_width(open);
  }

  static int legal_actions(const State& s, std::uint16_t* out) {
    int count = 0;
    for (int cell = 0; cell < 9; ++cell)
      if (is_legal_action(s, cell)) out[count++] = static_cast<std::uint16_t>(cell);
    return count;
  }

  static bool is_legal_action(const State& s, int cell) {
    return cell >= 0 && cell < num_actions && (s.occupied() >> (8 - cell) & 1) == 0;
  }

  static State play_action(const State& s, int cell) {
    return {s.opponent, static_cast<std::uint16_t>(s.own | (1U << (8 - cell)))};
  }

  static State play(const State& s, int ordinal) { return play_action(s, legal_action(s, ordinal)); }

  static void pack(const State& s, std::uint8_t* out) {
    const unsigned planes = (static_cast<unsigned>(s.own) << 15) | (static_cast<unsigned>(s.opponent) << 6);
    out[0] = static_cast<std::uint8_t>(planes >> 16);
    out[1] = static_cast<std::uint8_t>(planes >> 8);
    out[2] = static_cast<std::uint8_t>(planes);
  }

  static std::string text(const State& s) {
    const bool second = to_play(s) == 1;
    std::string out;
    for (int cell = 0; cell < 9; ++cell) {
      if (cell != 0 && cell % 3 == 0) out += '/';
      const bool own = (s.own >> (8 - cell) & 1) != 0, other = (s.opponent >> (8 - cell) & 1) != 0;
      out += !own && !other ? '.' : own != second ? 'x' : 'o';
    }
    return out;
  }

  static bool is_valid(const State& s) {
    return (s.own & s.opponent) == 0 && s.occupied() <= kBoard && std::popcount(s.own) == s.num_moves() / 2 &&
           !has_line(s.own);
  }

  static std::array<std::uint64_t, 2> bits(const State& s) { return {s.own, s.opponent}; }
  static State from_bits(const std::array<std::uint64_t, 2>& b) {
    return {static_cast<std::uint16_t>(b[0]), static_cast<std::uint16_t>(b[1])};
  }
};

}  // namespace zerofleet
