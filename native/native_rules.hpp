// A built-in game as the tree sees it.
#pragma once

#include <cstdint>
#include <vector>

namespace zerofleet {

// What playing a move leads to.
template <class State>
struct Played {
  State state;
  std::uint8_t to_play;
  bool terminal;
  float value;  // of a finished position, for the player to move there
};

template <class Game>
struct NativeRules {
  using State = typename Game::State;
  static constexpr int max_moves = Game::max_moves;
  static constexpr bool alternates = Game::alternates;

  static void drop(State&) {}  // states own nothing
  static int num_legal(const State& s) { return Game::num_legal(s); }

  static Played<State> play(const State& s, std::uint8_t to_play, int ordinal) {
    const State next = Game::play(s, ordinal);
    const bool terminal = Game::is_terminal(next);
    return {next, static_cast<std::uint8_t>(to_play ^ 1), terminal,
            terminal ? static_cast<float>(Game::terminal_value(next)) : 0.0F};
  }
};

}  // namespace zerofleet
