// Perfect play of Connect Four: alpha-beta over bitboards with a table of bounds.
//
// Scores count stones, for the player to move: s > 0 wins with s - 1 stones in hand, s < 0 loses with the winner having
// -s - 1 in hand, 0 draws; of 21 stones each.  So a quick win scores more.  The signs alone are found sooner.
// A solver belongs to one thread.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "connect4.hpp"

namespace zerofleet {

class Connect4Solver {
 public:
  using State = Connect4::State;
  static constexpr int kSquares = 42;

  // A table of 2^table_bits bounds of 8 bytes.
  explicit Connect4Solver(int table_bits) : table_(std::size_t{1} << table_bits, 0), shift_(64 - table_bits) {}

  // Positions searched since the solver was made.
  std::uint64_t num_nodes() const { return num_nodes_; }

  // The exact score of any position, finished ones included.
  int score(const State& s) { return solve(s, false); }

  // The score's sign.
  int sign(const State& s) {
    const int bound = solve(s, true);
    return (bound > 0) - (bound < 0);
  }

  // Whether the score is `least` or more: one search, where the sign of a position that is not won takes two.
  bool at_least(const State& s, int least) {
    if (const std::optional<int> known = known_at_once(s)) return *known >= least;
    return search(s, least - 1, least) >= least;
  }

  // The score, if perfect play ends the game within so many moves: the fewer, the sooner that is known.
  std::optional<int> score_within(const State& s, int plies) {
    if (const std::optional<int> known = known_at_once(s)) return known;
    const int moves = s.num_moves();
    if (kSquares - moves <= plies) return solve(s, false);
    const int won = kStones + 1 - (moves / 2 + (plies + 1) / 2);  // the least score of a win that is soon enough
    const int lost = -(kStones + 1 - (moves - moves / 2 + plies / 2));
    if (search(s, won - 1, won) >= won) return narrow(s, won, most_of(moves), false);
    if (search(s, lost, lost + 1) <= lost) return narrow(s, least_of(moves), lost, false);
    return std::nullopt;
  }

 private:
  static constexpr int kStones = kSquares / 2;
  static constexpr int kLowest = -kStones;    // no score is less
  static constexpr int kSpan = kSquares + 1;  // scores less kLowest are below this
  static constexpr std::uint64_t kColumns[7] = {  // the centre belongs to most lines
      0x101010101010ULL, 0x202020202020ULL, 0x080808080808ULL, 0x404040404040ULL,
      0x040404040404ULL, 0x808080808080ULL, 0x020202020202ULL};

  static std::uint64_t landing(std::uint64_t occupied) {
    return ((occupied << 8) | Connect4::kBottom) & ~occupied & Connect4::kBoard;
  }

  // The free squares that would complete a line of `stones`, reachable now or not.
  static std::uint64_t completing(std::uint64_t stones, std::uint64_t occupied) {
    std::uint64_t found = (stones << 8) & (stones << 16) & (stones << 24);
    for (const int step : {1, 7, 9}) {
      const std::uint64_t two_below = (stones << step) & (stones << 2 * step);
      const std::uint64_t two_above = (stones >> step) & (stones >> 2 * step);
      found |= two_below & ((stones << 3 * step) | (stones >> step));
      found |= two_above & ((stones >> 3 * step) | (stones << step));
    }
    return found & ~occupied & Connect4::kBoard;
  }

  static std::uint64_t mirrored(std::uint64_t rows) {
    rows = ((rows & 0xF0F0F0F0F0F0F0F0ULL) >> 4) | ((rows & 0x0F0F0F0F0F0F0F0FULL) << 4);
    rows = ((rows & 0xCCCCCCCCCCCCCCCCULL) >> 2) | ((rows & 0x3333333333333333ULL) << 2);
    rows = ((rows & 0xAAAAAAAAAAAAAAAAULL) >> 1) | ((rows & 0x5555555555555555ULL) << 1);
    return rows << 1;  // column 0 back to bit 7, bit 0 empty; nothing is in the topmost byte's bit 7
  }

  // One number for a position and its mirror image: own stones, and a mark on top of each column.
  static std::uint64_t key_of(const State& s) {
    const std::uint64_t occupied = s.occupied();
    const std::uint64_t key = s.own | (((occupied << 8) | Connect4::kBottom) & ~occupied);
    return std::min(key, mirrored(key));
  }

  static int least_of(int moves) { return -(kSquares - moves) / 2; }
  static int most_of(int moves) { return (kSquares + 1 - moves) / 2; }

  // The score of a position that is over, or won with the next stone.
  static std::optional<int> known_at_once(const State& s) {
    const int moves = s.num_moves();
    if (Connect4::has_line(s.opponent)) return -(kSquares + 2 - moves) / 2;
    if (moves == kSquares) return 0;
    if ((completing(s.own, s.occupied()) & landing(s.occupied())) != 0) return most_of(moves);
    return std::nullopt;
  }

  // The score of a position, or any number of its sign.
  int solve(const State& s, bool sign_alone) {
    if (const std::optional<int> known = known_at_once(s)) return *known;
    return narrow(s, least_of(s.num_moves()), most_of(s.num_moves()), sign_alone);
  }

  // The score, known to lie in [least, most], or any number of its sign.
  int narrow(const State& s, int least, int most, bool sign_alone) {
    // Is the score more than `middle`?  First 0, which tells who wins, then from the quick wins inwards: the quicker a
    // win must be, the sooner a search for it ends.
    while (least < most && !(sign_alone && (least > 0 || most < 0))) {
      int middle = least + (most - least) / 2;
      if (middle <= 0 && least / 2 < middle) middle = least / 2;
      else if (middle >= 0 && most / 2 > middle) middle = most / 2;
      const int bound = search(s, middle, middle + 1);
      if (bound <= middle) most = bound;
      else least = bound;
    }
    return least > 0 ? least : most;
  }

  // Score of an unfinished position in which no move wins at once: exact within (alpha, beta), a bound outside.
  int search(const State& s, int alpha, int beta) {
    ++num_nodes_;
    const int moves = s.num_moves();
    const std::uint64_t occupied = s.occupied();
    const int lost = -(kSquares - moves) / 2;  // the opponent's next stone wins
    const std::uint64_t threats = completing(s.opponent, occupied);
    std::uint64_t open = landing(occupied);
    if (const std::uint64_t forced = open & threats; forced != 0) {
      if ((forced & (forced - 1)) != 0) return lost;
      open = forced;
    }
    open &= ~(threats >> 8);  // a stone right below a threat hands it over
    if (open == 0) return lost;
    if (moves >= kSquares - 2) return 0;  // neither of the last two stones completes a line

    alpha = std::max(alpha, -(kSquares - 2 - moves) / 2);
    beta = std::min(beta, (kSquares - 1 - moves) / 2);
    if (alpha >= beta) return alpha;
    const std::uint64_t key = key_of(s);
    const std::uint64_t packed = table_[slot(key)];
    if (packed >> 8 == key) {
      const int code = static_cast<int>(packed & 0xFF);
      if (code > kSpan) alpha = std::max(alpha, code - kSpan - 1 + kLowest);
      else beta = std::min(beta, code + kLowest);
      if (alpha >= beta) return code > kSpan ? alpha : beta;
    }

    std::array<std::uint64_t, 7> order;
    std::array<int, 7> merit;
    int count = 0;
    for (const std::uint64_t column : kColumns) {  // insertion sort by the threats that a stone makes
      const std::uint64_t stone = open & column;
      if (stone == 0) continue;
      const int threats_made = std::popcount(completing(s.own | stone, occupied | stone));
      int place = count++;
      for (; place > 0 && merit[place - 1] < threats_made; --place) {
        merit[place] = merit[place - 1];
        order[place] = order[place - 1];
      }
      merit[place] = threats_made;
      order[place] = stone;
    }
    for (int i = 0; i < count; ++i) {
      const int score = -search({s.opponent, s.own | order[i]}, -beta, -alpha);
      if (score >= beta) {
        table_[slot(key)] = key << 8 | static_cast<std::uint64_t>(score - kLowest + kSpan + 1);
        return score;
      }
      alpha = std::max(alpha, score);
    }
    table_[slot(key)] = key << 8 | static_cast<std::uint64_t>(alpha - kLowest);
    return alpha;
  }

  std::size_t slot(std::uint64_t key) const { return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15ULL >> shift_); }

  std::vector<std::uint64_t> table_;
  int shift_;
  std::uint64_t num_nodes_ = 0;
};

}  // namespace zerofleet
