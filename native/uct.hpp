// UCT over a built-in game: UCB1 in a tree, each new position judged by one game of uniformly random moves.
//
// `search/uct.py` states the same algorithm in Python: with the same outcomes of the random games, the same visits.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "errors.hpp"
#include "random.hpp"

namespace zerofleet {

// Play one random game to its end; return the outcome for the player to move at `state`.
template <class Game>
int rollout(typename Game::State state, Random& random) {
  const int player = Game::to_play(state);
  while (!Game::is_terminal(state)) state = Game::play(state, random.below(Game::num_legal(state)));
  const int value = Game::terminal_value(state);
  return Game::to_play(state) == player ? value : -value;
}

struct UctResult {
  std::vector<std::int32_t> visits;
  std::vector<double> means;
};

template <class Game>
class Uct {
 public:
  using State = typename Game::State;

  Uct(double c, std::uint64_t seed) : c_(c), random_(seed) {}

  UctResult search(const State& state, std::int64_t num_simulations) {
    if (Game::is_terminal(state)) fail("TerminalStateError", "cannot search a finished position: " + Game::text(state));
    if (num_simulations < 0 || num_simulations > kMaxSimulations)
      usage_error("num_simulations must lie in [0, " + std::to_string(kMaxSimulations) + "], got " +
                  std::to_string(num_simulations));
    nodes_.reserve(static_cast<std::size_t>(num_simulations) + 1);
    add(state);
    for (std::int64_t i = 0; i < num_simulations; ++i) simulate();
    UctResult result;
    const Node& root = nodes_[0];
    for (int i = 0; i < root.num_legal; ++i) {
      const bool tried = i < root.num_tried;
      result.visits.push_back(tried ? nodes_[root.child[i]].visits : 0);
      result.means.push_back(tried ? mean(nodes_[root.child[i]]) : std::numeric_limits<double>::quiet_NaN());
    }
    return result;
  }

 private:
  static constexpr std::int64_t kMaxSimulations = 100'000'000;

  struct Node {
    State state;
    double wins = 0.0;         // results of the simulations through here, for the player who chose to come here
    std::int32_t visits = 0;   // simulations that passed through this position or ended in it
    std::uint8_t to_play = 0;
    std::uint8_t num_legal = 0;  // 0 where the game is over
    std::uint8_t num_tried = 0;  // the first moves, each with a child
    std::uint32_t child[Game::max_moves];
  };

  static double mean(const Node& node) { return node.wins / node.visits; }

  std::uint32_t add(const State& state) {
    Node node;
    node.state = state;
    node.to_play = static_cast<std::uint8_t>(Game::to_play(state));
    node.num_legal = static_cast<std::uint8_t>(Game::is_terminal(state) ? 0 : Game::num_legal(state));
    nodes_.push_back(node);
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }

  void simulate() {
    path_.assign(1, 0);
    while (true) {
      const std::uint32_t at = path_.back();
      if (nodes_[at].num_legal == 0) break;
      if (nodes_[at].num_tried < nodes_[at].num_legal) {
        const std::uint32_t child = add(Game::play(nodes_[at].state, nodes_[at].num_tried));
        nodes_[at].child[nodes_[at].num_tried++] = child;
        path_.push_back(child);
        break;
      }
      path_.push_back(best_child(nodes_[at]));
    }
    const Node& leaf = nodes_[path_.back()];
    const int outcome = leaf.num_legal == 0 ? Game::terminal_value(leaf.state) : rollout<Game>(leaf.state, random_);
    back_up(leaf.to_play, outcome);
  }

  // `outcome` is for `player`; a position's wins are for the player to move at its parent.
  void back_up(std::uint8_t player, int outcome) {
    ++nodes_[0].visits;
    for (std::size_t i = 1; i < path_.size(); ++i) {
      const int result = nodes_[path_[i - 1]].to_play == player ? outcome : -outcome;
      nodes_[path_[i]].wins += (1 + result) / 2.0;
      ++nodes_[path_[i]].visits;
    }
  }

  // UCB1 (Auer et al. 2002), the first of equals.
  std::uint32_t best_child(const Node& node) const {
    const double log_visits = std::log(static_cast<double>(node.visits));
    std::uint32_t best = node.child[0];
    double best_score = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < node.num_legal; ++i) {
      const Node& child = nodes_[node.child[i]];
      const double score = mean(child) + c_ * std::sqrt(log_visits / child.visits);
      if (score > best_score) {
        best = node.child[i];
        best_score = score;
      }
    }
    return best;
  }

  double c_;
  Random random_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> path_;
};

}  // namespace zerofleet
