// A game with any number of moves and positions on the heap, as Python objects are: leaks and double frees show.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "native_rules.hpp"

namespace zerofleet {

// Players take 1 to `limit` stones; player 1 always moves twice in a row.  Who takes the last stone wins.
class ToyRules {
 public:
  struct Position {
    int stones;
    int ply;
  };
  struct State {
    Position* position;
  };
  static constexpr int max_moves = 0;
  static constexpr bool alternates = false;

  explicit ToyRules(int limit) : limit_(limit) {}

  static State make(int stones, int ply) {
    ++live;
    return {new Position{stones, ply}};
  }

  static void drop(State& s) {
    if (s.position != nullptr) --live;
    delete s.position;
    s.position = nullptr;
  }

  static std::uint8_t to_play(int ply) { return ply % 3 == 0 ? 0 : 1; }
  int num_legal(const State& s) const { return s.position->stones < limit_ ? s.position->stones : limit_; }

  Played<State> play(const State& s, std::uint8_t to_play_before, int ordinal) const {
    if (throw_in != 0 && --throw_in == 0) throw std::runtime_error("the game's own error");
    const int stones = s.position->stones - ordinal - 1, ply = s.position->ply + 1;
    const std::uint8_t player = to_play(ply);
    const bool won = stones == 0;
    return {make(stones, ply), player, won, won ? (player == to_play_before ? 1.0F : -1.0F) : 0.0F};
  }

  static inline thread_local long live = 0;     // positions that exist
  static inline thread_local int throw_in = 0;  // the n-th move from now raises; 0: none does

 private:
  int limit_;
};

}  // namespace zerofleet
