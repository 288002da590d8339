// Many trees, searched by one thread: PUCT with virtual loss, several leaves per tree, exact values of finished positions.
//
// `search/reference.py` states the same algorithm in Python; both agree bit for bit.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "config.hpp"
#include "errors.hpp"
#include "native_rules.hpp"
#include "tree.hpp"

namespace zerofleet {

struct Step {
  std::uint32_t node;
  std::uint32_t edge;
};

// A position that waits for its evaluation.
struct Leaf {
  std::uint32_t tree;
  std::uint32_t node;
  std::uint32_t first_step;  // the path to it, in the pool's steps
  std::uint32_t num_steps;
};

struct Result {
  std::vector<std::int32_t> visits;
  std::vector<float> q_values;
  std::vector<float> priors;
  float root_value;
  std::int32_t num_simulations;
  std::int32_t num_reused;
};

template <class Rules>
class Pool {
 public:
  using State = typename Rules::State;
  using TreeType = Tree<Rules>;
  using Node = typename TreeType::Node;

  Pool(Rules rules, std::int64_t num_trees, const Config& config)
      : rules_(std::move(rules)), config_(config), scale_(config), fpu_(static_cast<float>(config.fpu_value)) {
    if (num_trees < 1 || num_trees > kMaxTrees)
      usage_error("num_trees must lie in [1, " + std::to_string(kMaxTrees) + "], got " + std::to_string(num_trees));
    if (!(config.dirichlet_fraction >= 0.0 && config.dirichlet_fraction <= 1.0))
      fail("ConfigError", "dirichlet_fraction must lie in [0, 1], got " + std::to_string(config.dirichlet_fraction));
    trees_.resize(static_cast<std::size_t>(num_trees));
  }

  ~Pool() {
    for (TreeType& tree : trees_) tree.free(rules_);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  std::size_t num_trees() const { return trees_.size(); }
  Rules& rules() { return rules_; }
  const std::vector<Leaf>& leaves() const { return leaves_; }
  const State& leaf_state(const Leaf& leaf) const { return trees_[leaf.tree].node(leaf.node).state; }
  bool waiting() const { return !leaves_.empty(); }

  // Start a search at an unfinished position; takes ownership of `state`.
  void reset(std::int64_t index, const State& state, std::uint8_t to_play, std::int64_t num_simulations) {
    TreeType& tree = idle_between_batches(index, "reset");
    check_budget(num_simulations);
    tree.clear(rules_);
    begin(tree, num_simulations);
    tree.add(state, to_play);
    tree.active = true;
  }

  // Play a legal move of the root and keep what is known about the position it leads to.
  void advance(std::int64_t index, std::int64_t ordinal, std::int64_t num_simulations) {
    TreeType& tree = idle_between_batches(index, "advance");
    require_active(tree, index);
    check_budget(num_simulations);
    Node& root = tree.root();
    const int legal = rules_.num_legal(root.state);
    if (ordinal < 0 || ordinal >= legal)
      fail("IllegalMoveError", "move ordinal must lie in [0, " + std::to_string(legal) + "), got " + std::to_string(ordinal));
    const std::uint32_t child = tree.evaluated() ? tree.edges(root).child[ordinal] : kNoChild;
    const Played<State> played = rules_.play(root.state, root.to_play, static_cast<int>(ordinal));
    if (played.terminal) {
      rules_.drop(played.state);
      fail("TerminalStateError", "the move ends the game: nothing is left to search; reset the tree or release it");
    }
    const bool keeps = child != kNoChild && tree.node(child).status == Status::kExpanded &&
                       tree.node(child).total <= config_.reuse_limit * static_cast<double>(num_simulations);
    if (!keeps) {
      tree.clear(rules_);
      begin(tree, num_simulations);
      tree.add(played.state, played.to_play);
      return;
    }
    rules_.drop(played.state);
    tree.keep_subtree(rules_, child, scratch_);
    begin(tree, num_simulations);
    tree.num_reused = tree.root().total;
    keep_root_priors(tree);
  }

  void release(std::int64_t index) { idle_between_batches(index, "release").free(rules_); }

  void set_root_noise(std::int64_t index, const float* noise, std::size_t length) {
    TreeType& tree = active_tree(index);
    const auto legal = static_cast<std::size_t>(rules_.num_legal(tree.root().state));
    if (length != legal)
      usage_error("noise must have one entry per legal move, " + std::to_string(legal) + ", got " + std::to_string(length));
    for (std::size_t i = 0; i < length; ++i)
      if (!(noise[i] >= 0.0F) || !std::isfinite(noise[i]))
        usage_error("noise must be finite and not negative, got " + std::to_string(noise[i]));
    tree.noise.assign(noise, noise + length);
    if (tree.evaluated()) mix_noise(tree);
  }

  // Collect leaves from every active tree, in order; they wait for `expand`.
  void collect() {
    if (waiting())
      usage_error("collect was called while " + std::to_string(leaves_.size()) + " leaves wait for expand");
    steps_.clear();
    try {
      for (std::size_t i = 0; i < trees_.size(); ++i)
        if (trees_[i].active) collect_tree(static_cast<std::uint32_t>(i));
    } catch (...) {  // a rule written in Python may raise
      withdraw();
      throw;
    }
  }

  // Take back the collected leaves, as if they had not been chosen.
  void withdraw() {
    for (const Leaf& leaf : leaves_) {
      TreeType& tree = trees_[leaf.tree];
      if (leaf.num_steps == 0) {
        tree.root_pending = false;
        continue;
      }
      for (std::size_t i = leaf.first_step; i < leaf.first_step + leaf.num_steps; ++i) {
        Node& node = tree.node(steps_[i].node);
        const Edges e = tree.edges(node);
        --e.pending[steps_[i].edge];
        --e.visits[steps_[i].edge];
        --node.total;
      }
      const Step& last = steps_[leaf.first_step + leaf.num_steps - 1];
      tree.edges(tree.node(last.node)).child[last.edge] = kNoChild;
      --tree.in_flight;
    }
    leaves_.clear();
  }

  // Take the evaluation of the leaves; `offsets` [B + 1] tells where each leaf's priors start.
  void expand(const float* priors, const std::int32_t* offsets, const float* values) {
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      const Leaf& leaf = leaves_[i];
      TreeType& tree = trees_[leaf.tree];
      const int count = offsets[i + 1] - offsets[i];
      Node& node = tree.node(leaf.node);
      tree.open_edges(node, count);
      store_evaluation(tree, node, priors + offsets[i], count, values[i]);
      if (leaf.num_steps != 0) {
        back_up_leaf(tree, leaf, node.value_sum);
        --tree.in_flight;
        ++tree.done;
        ++num_simulations_total;
      } else {
        tree.root_pending = false;
        keep_root_priors(tree);
        if (!tree.noise.empty()) mix_noise(tree);
      }
    }
    leaves_.clear();
  }

  bool finished(std::size_t index) const { return trees_[index].finished(); }

  Result result(std::int64_t index) {
    TreeType& tree = active_tree(index);
    if (!tree.evaluated())
      usage_error("tree " + std::to_string(index) + " has no result yet: its root was not evaluated; collect and expand first");
    const Node& root = tree.root();
    const Edges e = tree.edges(root);
    Result result;
    for (int i = 0; i < root.num_edges; ++i) {
      const std::int32_t visits = e.visits[i] - e.pending[i];
      result.visits.push_back(visits);
      result.q_values.push_back(visits > 0 ? e.value[i] / static_cast<float>(visits)
                                           : std::numeric_limits<float>::quiet_NaN());
    }
    result.priors = tree.root_priors;
    result.root_value = root.value_sum / static_cast<float>(root.value_count);
    result.num_simulations = tree.done;
    result.num_reused = tree.num_reused;
    return result;
  }

  const State& root_state(std::int64_t index) { return active_tree(index).root().state; }
  int num_legal(std::int64_t index) { return rules_.num_legal(active_tree(index).root().state); }
  std::uint32_t num_nodes(std::int64_t index) { return checked_tree(index).size(); }
  std::int32_t num_in_flight(std::int64_t index) {
    const TreeType& tree = checked_tree(index);
    return tree.in_flight + (tree.root_pending ? 1 : 0);
  }

  std::size_t num_bytes() const {
    std::size_t bytes = scale_.bytes() + steps_.capacity() * sizeof(Step) + leaves_.capacity() * sizeof(Leaf) +
                        scratch_.capacity() * sizeof(std::uint32_t) + trees_.size() * sizeof(TreeType);
    for (const TreeType& tree : trees_) bytes += tree.bytes();
    return bytes;
  }

  std::int64_t num_simulations_total = 0;
  std::int64_t num_uniform_rows = 0;

 private:
  static constexpr std::int64_t kMaxTrees = 1 << 20;
  static constexpr std::int64_t kMaxBudget = 1 << 30;

  TreeType& checked_tree(std::int64_t index) {
    if (index < 0 || index >= static_cast<std::int64_t>(trees_.size()))
      usage_error("tree must lie in [0, " + std::to_string(trees_.size()) + "), got " + std::to_string(index));
    return trees_[static_cast<std::size_t>(index)];
  }

  static void require_active(const TreeType& tree, std::int64_t index) {
    if (!tree.active) usage_error("tree " + std::to_string(index) + " is idle: reset it with a position first");
  }

  TreeType& active_tree(std::int64_t index) {
    TreeType& tree = checked_tree(index);
    require_active(tree, index);
    return tree;
  }

  TreeType& idle_between_batches(std::int64_t index, const char* call) {
    TreeType& tree = checked_tree(index);
    if (tree.in_flight != 0 || tree.root_pending)
      usage_error(std::string(call) + " of tree " + std::to_string(index) + " while its leaves wait for expand");
    return tree;
  }

  static void check_budget(std::int64_t num_simulations) {
    if (num_simulations < 0 || num_simulations > kMaxBudget)
      usage_error("num_simulations must lie in [0, " + std::to_string(kMaxBudget) + "], got " + std::to_string(num_simulations));
  }

  void begin(TreeType& tree, std::int64_t num_simulations) {
    tree.full = false;
    tree.budget = static_cast<std::int32_t>(num_simulations);
    tree.done = 0;
    tree.num_reused = 0;
    tree.leaf_slots = std::min(config_.leaves_per_tree, std::max(1, tree.budget / 16));
    tree.noise.clear();
    tree.root_priors.clear();
    tree.max_nodes = config_.max_nodes;
    if (tree.max_nodes == 0) {
      const double kept = config_.reuse_limit * static_cast<double>(num_simulations);
      tree.max_nodes = static_cast<std::int64_t>(kept) + num_simulations + config_.leaves_per_tree + 2;
    }
    tree.max_nodes = std::min<std::int64_t>(tree.max_nodes, kNoChild - 1);
  }

  void keep_root_priors(TreeType& tree) {
    const Node& root = tree.root();
    const Edges e = tree.edges(root);
    tree.root_priors.assign(e.prior, e.prior + root.num_edges);
    scale_.cover(static_cast<std::int64_t>(root.total) + tree.budget + tree.leaf_slots + 1);
  }

  void mix_noise(TreeType& tree) {
    const auto fraction = static_cast<float>(config_.dirichlet_fraction);
    const float rest = 1.0F - fraction;
    const Edges e = tree.edges(tree.root());
    for (std::size_t i = 0; i < tree.noise.size(); ++i) {
      const float own = rest * tree.root_priors[i];
      const float drawn = fraction * tree.noise[i];
      e.prior[i] = own + drawn;
    }
  }

  // A row that is no distribution becomes uniform, a value that is no number 0; such rows are counted.
  void store_evaluation(TreeType& tree, Node& node, const float* priors, int count, float value) {
    const Edges e = tree.edges(node);
    bool sound = true, any = false;
    for (int i = 0; i < count; ++i) {
      e.prior[i] = priors[i];
      sound &= priors[i] >= 0.0F && priors[i] <= std::numeric_limits<float>::max();
      any |= priors[i] > 0.0F;
    }
    if (!sound || !any)
      for (int i = 0; i < count; ++i) e.prior[i] = 1.0F / static_cast<float>(count);
    const bool has_value = std::isfinite(value);
    if (!sound || !any || !has_value) ++num_uniform_rows;
    node.value_sum = has_value ? value : 0.0F;
    node.status = Status::kExpanded;
  }

  void collect_tree(std::uint32_t index) {
    TreeType& tree = trees_[index];
    if (!tree.evaluated()) {
      leaves_.push_back({index, 0, static_cast<std::uint32_t>(steps_.size()), 0});
      tree.root_pending = true;
      return;
    }
    for (int taken = 0; taken < tree.leaf_slots && !tree.full && tree.done + tree.in_flight < tree.budget;) {
      const std::size_t first = steps_.size();
      const std::uint32_t end = descend(tree);
      if (end == kNoChild) {  // a collision, or no room for a node
        steps_.resize(first);
        return;
      }
      const auto num_steps = static_cast<std::uint32_t>(steps_.size() - first);
      if (tree.node(end).status == Status::kTerminal) {
        back_up_terminal(tree, first, end);
        steps_.resize(first);
        ++tree.done;
        ++num_simulations_total;
      } else {
        add_virtual_visits(tree, first);
        leaves_.push_back({index, end, static_cast<std::uint32_t>(first), num_steps});
        ++tree.in_flight;
        ++taken;
      }
    }
  }

  // Follow the best edges to a finished position or to a new node; the way is appended to the steps.
  std::uint32_t descend(TreeType& tree) {
    std::uint32_t at = 0;
    while (true) {
      Node& node = tree.node(at);
      const Edges e = tree.edges(node);
      const int edge = best_edge(e, scale_(node.total), first_play_urgency(node));
      steps_.push_back({at, static_cast<std::uint32_t>(edge)});
      const std::uint32_t child = e.child[edge];
      if (child == kNoChild) return create_child(tree, at, edge);
      const Status status = tree.node(child).status;
      if (status == Status::kTerminal) return child;
      if (status == Status::kPending) return kNoChild;
      at = child;
    }
  }

  float first_play_urgency(const Node& node) const {
    return config_.parent_urgency ? node.value_sum / static_cast<float>(node.value_count) - fpu_ : fpu_;
  }

  std::uint32_t create_child(TreeType& tree, std::uint32_t parent, int edge) {
    if (tree.size() >= tree.max_nodes) {
      tree.full = true;
      return kNoChild;
    }
    const Node& node = tree.node(parent);
    const Played<State> played = rules_.play(node.state, node.to_play, edge);
    const std::uint32_t child = tree.add(played.state, played.to_play);
    tree.edges(tree.node(parent)).child[edge] = child;
    if (played.terminal) {
      tree.node(child).status = Status::kTerminal;
      tree.node(child).value_sum = played.value;
    }
    return child;
  }

  void add_virtual_visits(TreeType& tree, std::size_t first) {
    for (std::size_t i = first; i < steps_.size(); ++i) {
      Node& node = tree.node(steps_[i].node);
      const Edges e = tree.edges(node);
      ++e.pending[steps_[i].edge];
      ++e.visits[steps_[i].edge];
      ++node.total;
    }
  }

  // The value of a child, for its parent's player.
  static float seen_by_parent(const Node& parent, std::uint8_t child_to_play, float value) {
    if constexpr (Rules::alternates) return -value;
    return parent.to_play == child_to_play ? value : -value;
  }

  void back_up_terminal(TreeType& tree, std::size_t first, std::uint32_t end) {
    float value = tree.node(end).value_sum;
    std::uint8_t to_play = tree.node(end).to_play;
    for (std::size_t i = steps_.size(); i-- > first;) {
      Node& node = tree.node(steps_[i].node);
      const Edges e = tree.edges(node);
      value = seen_by_parent(node, to_play, value);
      to_play = node.to_play;
      e.value[steps_[i].edge] += value;
      ++e.visits[steps_[i].edge];
      ++node.total;
      node.value_sum += value;
      ++node.value_count;
    }
  }

  void back_up_leaf(TreeType& tree, const Leaf& leaf, float value) {
    std::uint8_t to_play = tree.node(leaf.node).to_play;
    for (std::size_t i = leaf.first_step + leaf.num_steps; i-- > leaf.first_step;) {
      Node& node = tree.node(steps_[i].node);
      const Edges e = tree.edges(node);
      value = seen_by_parent(node, to_play, value);
      to_play = node.to_play;
      e.value[steps_[i].edge] += value;
      --e.pending[steps_[i].edge];
      node.value_sum += value;
      ++node.value_count;
    }
  }

  Rules rules_;
  Config config_;
  ExplorationScale scale_;
  float fpu_;
  std::vector<TreeType> trees_;
  std::vector<Step> steps_;
  std::vector<Leaf> leaves_;
  std::vector<std::uint32_t> scratch_;
};

}  // namespace zerofleet
