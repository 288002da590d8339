// Tests of native code alone, for the sanitizers: random games, random searches, and misuse.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "connect4.hpp"
#include "connect4_solver.hpp"
#include "perft.hpp"
#include "pool.hpp"
#include "random.hpp"
#include "tictactoe.hpp"
#include "toy_rules.hpp"
#include "uct.hpp"

using namespace zerofleet;

namespace {

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "FAILED: %s\n", what);
  std::exit(1);
}

void check_refused(const char* type, const char* what, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    check(std::string(error.type) == type, what);
    return;
  }
  check(false, what);
}

float unit(Random& random) { return static_cast<float>(random.below(1 << 20)) / (1 << 20); }

template <class Game>
void play_random_games(int num_games) {
  Random random(1);
  for (int game = 0; game < num_games; ++game) {
    typename Game::State state = Game::initial();
    for (int ply = 0; !Game::is_terminal(state); ++ply) {
      check(Game::is_valid(state) && Game::to_play(state) == ply % 2, "positions of a game are valid");
      std::uint16_t actions[Game::max_moves];
      const int count = Game::legal_actions(state, actions);
      check(count == Game::num_legal(state) && count > 0, "legal moves are counted");
      for (int i = 0; i < count; ++i)
        check(actions[i] == Game::legal_action(state, i) && Game::is_legal_action(state, actions[i]), "moves are legal");
      std::uint8_t packed[Game::packed_size];
      Game::pack(state, packed);
      int ones = 0;
      for (const std::uint8_t byte : packed) ones += std::popcount(byte);
      check(ones == ply, "every stone shows in the planes");
      state = Game::play(state, random.below(count));
    }
  }
}

// The vectorised choice of an edge against its plain statement.
void compare_scores() {
  Random random(2);
  for (int round = 0; round < 20000; ++round) {
    const int count = 1 + random.below(round % 10 == 0 ? 40 : 8), padded = padded_edges(count);
    std::vector<std::uint32_t> memory(static_cast<std::size_t>(padded) * 5 + 4);
    auto* start = reinterpret_cast<std::uint32_t*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 15) / 16 * 16);
    const Edges e{reinterpret_cast<float*>(start),
                  reinterpret_cast<float*>(start + padded),
                  reinterpret_cast<std::int32_t*>(start + 2 * padded),
                  reinterpret_cast<std::int32_t*>(start + 3 * padded),
                  start + 4 * padded,
                  padded};
    std::vector<float> priors(static_cast<std::size_t>(count));
    for (float& prior : priors) prior = static_cast<float>(random.below(3)) / 3 + unit(random) * static_cast<float>(round % 2);
    bool any = false;
    for (const float prior : priors) any = any || prior > 0;
    check(store_priors(e, priors.data(), count) == any, "priors that are all zero are noticed");
    clear_edges(e, count);
    for (int i = 0; i < count; ++i) {
      e.pending[i] = random.below(3);
      e.visits[i] = e.pending[i] + random.below(4);
      e.value[i] = static_cast<float>(random.below(9) - 4) / 4 + unit(random) * static_cast<float>(round % 2);
    }
    const float scale = static_cast<float>(random.below(4)) * unit(random), fpu = unit(random) - 0.5F;
    const int edge = best_edge(e, scale, fpu);
    check(edge == best_edge_plain(e, scale, fpu) && edge < count, "both choices of an edge agree");
  }
  for (const float wrong : {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (int count = 1; count < 12; ++count)
      for (int place = 0; place < count; ++place) {
        InlineNode<Connect4::State, 12> node{};
        const Edges e{node.prior, node.value, node.pending, node.visits, node.child, 12};
        std::vector<float> priors(static_cast<std::size_t>(count), 0.5F);
        priors[static_cast<std::size_t>(place)] = wrong;
        check(!store_priors(e, priors.data(), count), "priors that are no weights are noticed");
      }
}

// Answer the leaves at random, now and then with nonsense.
template <class Rules>
void answer(Pool<Rules>& pool, Random& random) {
  std::vector<std::int32_t> offsets{0};
  std::vector<float> priors, values;
  for (const Leaf& leaf : pool.leaves()) {
    const int count = pool.rules().num_legal(pool.leaf_state(leaf));
    const bool nonsense = random.below(50) == 0;
    for (int i = 0; i < count; ++i) priors.push_back(nonsense ? -unit(random) : unit(random) / static_cast<float>(count));
    values.push_back(nonsense ? std::numeric_limits<float>::quiet_NaN() : 2 * unit(random) - 1);
    offsets.push_back(static_cast<std::int32_t>(priors.size()));
  }
  pool.expand(priors.data(), offsets.data(), values.data());
}

template <class Rules>
void search_all(Pool<Rules>& pool, Random& random) {
  for (pool.collect(); pool.waiting(); pool.collect()) {
    if (random.below(8) == 0) {
      pool.withdraw();
      continue;
    }
    answer(pool, random);
  }
}

Config random_config(Random& random) {
  Config config;
  config.num_simulations = random.below(200);
  config.leaves_per_tree = 1 + random.below(12);
  config.log_exploration = random.below(2) == 0;
  config.parent_urgency = random.below(2) == 0;
  config.reuse_limit = random.below(4);
  config.max_nodes = random.below(3) == 0 ? 2 + random.below(60) : 0;
  config.dirichlet_fraction = 0.25;
  return config;
}

// Games of searched moves: start(tree) gives a first position.
template <class Rules>
void play_searched_games(Pool<Rules>& pool, const Config& config, Random& random, const std::function<void(int)>& start) {
  const int num_trees = static_cast<int>(pool.num_trees());
  for (int tree = 0; tree < num_trees; ++tree) start(tree);
  for (int move = 0; move < 12; ++move) {
    for (int tree = 0; tree < num_trees; ++tree) {
      const std::vector<float> noise(static_cast<std::size_t>(pool.num_legal(tree)), unit(random));
      pool.set_root_noise(tree, noise.data(), noise.size());
    }
    search_all(pool, random);
    for (int tree = 0; tree < num_trees; ++tree) {
      check(pool.finished(static_cast<std::size_t>(tree)) && pool.num_in_flight(tree) == 0, "a search ends");
      const Result result = pool.result(tree);
      std::int64_t visits = 0;
      for (const std::int32_t n : result.visits) visits += n;
      check(visits == result.num_simulations + result.num_reused, "visits add up");
      check(config.max_nodes != 0 || result.num_simulations == config.num_simulations, "no search ends early");
      check(config.max_nodes == 0 || pool.num_nodes(tree) <= config.max_nodes, "nodes are bounded");
      try {
        pool.advance(tree, random.below(pool.num_legal(tree)), config.num_simulations);
      } catch (const Error& error) {
        check(std::string(error.type) == "TerminalStateError", "only the end of the game stops a legal move");
        start(tree);
      }
    }
  }
}

template <class Game>
void search_native(int rounds) {
  Random random(3);
  for (int round = 0; round < rounds; ++round) {
    const Config config = random_config(random);
    Pool<NativeRules<Game>> pool({}, 1 + random.below(20), config);
    play_searched_games<NativeRules<Game>>(pool, config, random, [&](int tree) {
      pool.reset(tree, Game::initial(), 0, config.num_simulations);
    });
  }
}

void search_toy(int rounds) {
  Random random(4);
  for (int round = 0; round < rounds; ++round) {
    const Config config = random_config(random);
    {
      Pool<ToyRules> pool(ToyRules(1 + random.below(30)), 1 + random.below(5), config);
      play_searched_games<ToyRules>(pool, config, random, [&](int tree) {
        pool.reset(tree, ToyRules::make(2 + random.below(60), 0), 0, config.num_simulations);
      });
      pool.release(0);
      pool.collect();
      pool.withdraw();
    }
    check(ToyRules::live == 0, "every position is freed");
  }
}

// A game that raises in the middle of a collect leaves every tree as it was.
void survive_errors_of_a_game() {
  Random random(5);
  Config config;
  config.num_simulations = 100;
  Pool<ToyRules> pool(ToyRules(5), 3, config);
  for (int tree = 0; tree < 3; ++tree) pool.reset(tree, ToyRules::make(40, 0), 0, 100);
  for (int round = 0; round < 200; ++round) {
    ToyRules::throw_in = 1 + random.below(12);
    try {
      pool.collect();
    } catch (const std::runtime_error&) {
      check(!pool.waiting() && pool.num_in_flight(0) + pool.num_in_flight(1) + pool.num_in_flight(2) == 0,
            "an error takes all leaves back");
      continue;
    }
    if (pool.waiting()) answer(pool, random);
  }
  ToyRules::throw_in = 0;
  search_all(pool, random);
  for (int tree = 0; tree < 3; ++tree) check(pool.result(tree).num_simulations == 100, "the search goes on after errors");
}

void refuse_misuse() {
  Config config;
  Pool<NativeRules<Connect4>> pool({}, 2, config);
  const Connect4::State start = Connect4::initial();
  const float noise[8] = {};
  check_refused("UsageError", "no trees", [&] { Pool<NativeRules<Connect4>>({}, 0, config); });
  check_refused("UsageError", "tree out of range", [&] { pool.reset(2, start, 0, 10); });
  check_refused("UsageError", "tree below range", [&] { pool.release(-1); });
  check_refused("UsageError", "budget below range", [&] { pool.reset(0, start, 0, -2); });
  check_refused("UsageError", "idle tree", [&] { pool.advance(0, 0, 10); });
  pool.reset(0, start, 0, 10);
  check_refused("UsageError", "no result yet", [&] { pool.result(0); });
  check_refused("IllegalMoveError", "no such move", [&] { pool.advance(0, 7, 10); });
  check_refused("UsageError", "noise of another length", [&] { pool.set_root_noise(0, noise, 8); });
  pool.collect();
  check_refused("UsageError", "collect twice", [&] { pool.collect(); });
  check_refused("UsageError", "reset in flight", [&] { pool.reset(0, start, 0, 10); });
  check_refused("UsageError", "advance in flight", [&] { pool.advance(0, 0, 10); });
  check_refused("UsageError", "release in flight", [&] { pool.release(0); });
}

// A position is worth what its best move is worth; a tiny table must not change that.
void solve_random_positions(int count) {
  Connect4Solver large(18), tiny(4);
  Random random(11);
  for (int i = 0; i < count; ++i) {
    Connect4::State state = Connect4::initial();
    for (int ply = 0; ply < 28 && !Connect4::is_terminal(state); ++ply)
      state = Connect4::play(state, random.below(Connect4::num_legal(state)));
    const int score = large.score(state);
    check(score == tiny.score(state), "the size of the table changes a score");
    check(large.sign(state) == (score > 0) - (score < 0), "a sign is not its score's");
    if (Connect4::is_terminal(state)) continue;
    int best = -Connect4Solver::kSquares;
    for (int k = 0; k < Connect4::num_legal(state); ++k) best = std::max(best, -large.score(Connect4::play(state, k)));
    check(score == best, "a position is not worth what its best move is worth");
  }
}

// What belongs to one thread shares nothing with what belongs to another.
void work_in_threads(int num_threads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i)
    threads.emplace_back([] {
      play_random_games<Connect4>(20);
      search_native<Connect4>(4);
      search_native<TicTacToe>(4);
      search_toy(4);
      solve_random_positions(20);
      check(Uct<Connect4>(1.4, 1).search(Connect4::initial(), 200).visits.size() == 7, "UCT in a thread");
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main() {
  check(perft<Connect4>(Connect4::initial(), 7) == 823536, "perft of Connect Four");
  check(perft<TicTacToe>(TicTacToe::initial(), 9) == 127872, "perft of tic-tac-toe");
  play_random_games<Connect4>(300);
  play_random_games<TicTacToe>(300);
  compare_scores();
  search_native<Connect4>(40);
  search_native<TicTacToe>(40);
  search_toy(40);
  survive_errors_of_a_game();
  refuse_misuse();
  solve_random_positions(200);
  check(Uct<Connect4>(1.4, 1).search(Connect4::initial(), 2000).visits.size() == 7, "UCT");
  work_in_threads(3);
  std::puts("native tests passed");
}
