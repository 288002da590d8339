// Counting sequences of moves: the usual proof that rules are right.
#pragma once

#include <cstdint>

namespace zerofleet {

template <class Game>
std::int64_t perft(const typename Game::State& state, int depth) {
  if (depth == 0) return 1;
  if (Game::is_terminal(state)) return 0;
  const int count = Game::num_legal(state);
  if (depth == 1) return count;
  std::int64_t leaves = 0;
  for (int i = 0; i < count; ++i) leaves += perft<Game>(Game::play(state, i), depth - 1);
  return leaves;
}

}  // namespace zerofleet
