// Many trees, searched by one thread: PUCT with virtual loss, several leaves per tree, exact values of finished positions.
//
// `search/reference.py` states the same algorithm in Python; both agree bit for bit.
#pragma once

#include <array>
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
  std::uint32_t lane;
  std::uint32_t first_step;  // the path to it, in the lane's steps
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
  const std::vector<TreeType>& trees() const { return trees_; }
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
    Played<State> played = rules_.play(root.state, root.to_play, static_cast<int>(ordinal));
    if (played.terminal) {
      rules_.drop(played.state);
      fail("TerminalStateError", "the move ends the game: nothing is left to search; reset the tree or release it");
    }
    const bool keeps = child != kNoChild && is_evaluated(tree.node(child)) &&
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
    prepare_root(tree);
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
    next_tree_ = 0;
    try {
      descend_all();
    } catch (...) {  // a rule written in Python may raise
      for (Lane& lane : lanes_)
        if (lane.tree != nullptr) give_up(lane);
      gather_leaves();
      withdraw();
      throw;
    }
    gather_leaves();
  }

  // Take back the collected leaves, as if they had not been chosen.
  void withdraw() {
    for (const Leaf& leaf : leaves_) unlink(leaf);
    for (std::size_t i = 0; i < leaves_.size(); ++i)  // once per tree: its leaves lie side by side
      if (i == 0 || leaves_[i].tree != leaves_[i - 1].tree)
        trees_[leaves_[i].tree].keep_subtree(rules_, 0, scratch_);
    leaves_.clear();
  }

  // Take the evaluation of the leaves; `offsets` [B + 1] tells where each leaf's priors start.
  void expand(const float* priors, const std::int32_t* offsets, const float* values) {
    const Leaf* const leaves = leaves_.data();
    const std::size_t count = leaves_.size();
    TreeType* const trees = trees_.data();
    for (std::size_t i = 0; i < count; ++i) {
      const Leaf& leaf = leaves[i];
      TreeType& tree = trees[leaf.tree];
      Node& node = tree.node(leaf.node);
      tree.make_edges(node, offsets[i + 1] - offsets[i]);
      store_evaluation(tree, node, priors + offsets[i], values[i]);
      if (leaf.num_steps != 0) {
        back_up(tree, lanes_[leaf.lane].steps.data() + leaf.first_step, leaf.num_steps, leaf.node);
        --tree.in_flight;
        ++tree.done;
        ++num_simulations_total;
      } else {
        tree.root_pending = false;
        prepare_root(tree);
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
    std::size_t bytes = scale_.bytes() + leaves_.capacity() * sizeof(Leaf) + found_.capacity() * sizeof(Found) +
                        scratch_.capacity() * sizeof(std::uint32_t) + trees_.size() * sizeof(TreeType);
    for (const Lane& lane : lanes_) bytes += lane.steps.bytes() + lane.leaves.bytes();
    for (const TreeType& tree : trees_) bytes += tree.bytes();
    return bytes;
  }

  std::int64_t num_simulations_total = 0;
  std::int64_t num_uniform_rows = 0;

 private:
  // Of a built-in game 5 and 6 beat 3, 4 and 8; Python objects gain nothing from more than one.
  static constexpr std::size_t kNumLanes = Rules::max_moves > 0 ? 5 : 1;
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

  static bool is_evaluated(const Node& node) {
    return node.status == Status::kEvaluated || node.status == Status::kExpanded;
  }

  // Make an evaluated root ready to be searched.
  void prepare_root(TreeType& tree) {
    Node& root = tree.root();
    if (root.status == Status::kEvaluated) tree.open_edges(root);
    const Edges e = tree.edges(root);
    tree.root_priors.assign(e.prior, e.prior + root.num_edges);
    scale_.cover(static_cast<std::int64_t>(root.total) + tree.budget + tree.leaf_slots + 1);
  }

  // Take a leaf's virtual visits off, and the leaf from its parent.
  void unlink(const Leaf& leaf) {
    TreeType& tree = trees_[leaf.tree];
    if (leaf.num_steps == 0) {
      tree.root_pending = false;
      return;
    }
    const Step* path = lanes_[leaf.lane].steps.data() + leaf.first_step;
    take_back(tree, path, leaf.num_steps);
    const Step& last = path[leaf.num_steps - 1];
    tree.edges(tree.node(last.node)).child[last.edge] = kNoChild;
    --tree.in_flight;
  }

  // Take the virtual visits off a path.
  static void take_back(TreeType& tree, const Step* path, std::uint32_t length) {
    for (std::uint32_t i = 0; i < length; ++i) {
      Node& node = tree.node(path[i].node);
      const Edges e = tree.edges(node);
      --e.pending[path[i].edge];
      --e.visits[path[i].edge];
      --node.total;
    }
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
  void store_evaluation(const TreeType& tree, Node& node, const float* priors, float value) {
    const Edges e = tree.edges(node);
    const int count = node.num_edges;
    const bool has_priors = store_priors(e, priors, count), has_value = std::isfinite(value);
    if (!has_priors)
      for (int i = 0; i < count; ++i) e.prior[i] = 1.0F / static_cast<float>(count);
    num_uniform_rows += !(has_priors && has_value);
    node.value_sum = has_value ? value : 0.0F;
    node.status = Status::kEvaluated;
  }

  // A descent in progress.  Several trees are descended in turn, so that while one waits for memory or for a
  // division, others go on; which leaves a tree gives does not depend on the other trees.
  struct Lane {
    TreeType* tree = nullptr;  // none: the lane has no work
    std::uint32_t index = 0;   // of the tree
    std::uint32_t at = 0;
    std::size_t first_step = 0;  // where the descent's path starts in `steps`
    std::int32_t taken = 0;
    Stack<Step> steps;           // the paths to the leaves, and the one in progress
    Stack<Leaf> leaves;          // of all trees that the lane has worked on

    std::uint32_t depth() const { return static_cast<std::uint32_t>(steps.size() - first_step); }
  };

  // Where a tree's leaves of this batch are.
  struct Found {
    std::uint32_t lane;
    std::uint32_t first;
    std::uint32_t count;
  };

  void descend_all() {
    for (Lane& lane : lanes_) {
      lane.tree = nullptr;
      lane.steps.shrink(0);
      lane.leaves.shrink(0);
    }
    found_.assign(trees_.size(), Found{0, 0, 0});
    bool busy = true;
    while (busy) {
      busy = false;
      for (std::uint32_t i = 0; i < kNumLanes; ++i) {
        Lane& lane = lanes_[i];
        if (lane.tree == nullptr && !take_tree(lane, i)) continue;
        busy = true;
        step(lane);
      }
    }
  }

  // Give the lane the next tree that wants to be descended.
  bool take_tree(Lane& lane, std::uint32_t lane_number) {
    while (next_tree_ < trees_.size()) {
      const std::uint32_t index = next_tree_++;
      TreeType& tree = trees_[index];
      if (!tree.active) continue;
      found_[index] = {lane_number, static_cast<std::uint32_t>(lane.leaves.size()), 0};
      if (!tree.evaluated()) {
        lane.leaves.push({index, 0, lane_number, 0, 0});
        found_[index].count = 1;
        tree.root_pending = true;
        continue;
      }
      lane.tree = &tree;
      lane.index = index;
      lane.taken = 0;
      if (start_descent(lane)) return true;
    }
    lane.tree = nullptr;
    return false;
  }

  // Go to the root, or give the tree up for this batch.
  static bool start_descent(Lane& lane) {
    const TreeType& tree = *lane.tree;
    lane.at = 0;
    lane.first_step = lane.steps.size();
    if (lane.taken < tree.leaf_slots && !tree.full && tree.done + tree.in_flight < tree.budget) {
      tree.prefetch(0);
      tree.prefetch_next();
      return true;
    }
    lane.tree = nullptr;
    return false;
  }

  // Take one step of a descent: choose an edge, or deal with what the last one led to.
  void step(Lane& lane) {
    TreeType& tree = *lane.tree;
    Node& node = tree.node(lane.at);
    if (node.status == Status::kEvaluated) {
      tree.open_edges(node);
    } else if (node.status != Status::kExpanded) {
      if (node.status == Status::kTerminal) {
        finish_terminal(lane, lane.at);
      } else {
        give_up(lane);  // a collision
      }
      return;
    }
    const Edges e = tree.edges(node);
    const int edge = best_edge(e, scale_(node.total), first_play_urgency(node));
    ++e.pending[edge];
    ++e.visits[edge];
    ++node.total;
    lane.steps.push({lane.at, static_cast<std::uint32_t>(edge)});
    const std::uint32_t child = e.child[edge];
    if (child != kNoChild) {
      tree.prefetch(child);
      lane.at = child;
    } else {
      reach_new_child(lane, edge);
    }
  }

  // End the descent where it is, without a trace: this tree gives no more leaves now.
  static void give_up(Lane& lane) {
    take_back(*lane.tree, lane.steps.data() + lane.first_step, lane.depth());
    lane.steps.shrink(lane.first_step);
    lane.tree = nullptr;
  }

  float first_play_urgency(const Node& node) const {
    return config_.parent_urgency ? node.value_sum / static_cast<float>(node.value_count) - fpu_ : fpu_;
  }

  void reach_new_child(Lane& lane, int edge) {
    TreeType& tree = *lane.tree;
    if (tree.size() >= tree.max_nodes) {
      tree.full = true;
      give_up(lane);
      return;
    }
    const Node& node = tree.node(lane.at);
    const Played<State> played = rules_.play(node.state, node.to_play, edge);
    const std::uint32_t child = tree.add(played.state, played.to_play);
    tree.edges(tree.node(lane.at)).child[edge] = child;
    if (!played.terminal) {
      take_leaf(lane, child);
      return;
    }
    tree.node(child).status = Status::kTerminal;
    tree.node(child).value_sum = played.value;
    finish_terminal(lane, child);
  }

  void take_leaf(Lane& lane, std::uint32_t leaf) {
    Found& found = found_[lane.index];
    lane.leaves.push({lane.index, leaf, found.lane, static_cast<std::uint32_t>(lane.first_step), lane.depth()});
    ++found.count;
    ++lane.tree->in_flight;
    ++lane.taken;
    start_descent(lane);
  }

  // Turn the descent's virtual visits into visits with the exact value that it found.
  void finish_terminal(Lane& lane, std::uint32_t end) {
    TreeType& tree = *lane.tree;
    back_up(tree, lane.steps.data() + lane.first_step, lane.depth(), end);
    lane.steps.shrink(lane.first_step);
    ++tree.done;
    ++num_simulations_total;
    start_descent(lane);
  }

  // Put the lanes' leaves in the order of the trees.
  void gather_leaves() {
    for (const Found& found : found_) {
      const Leaf* const first = lanes_[found.lane].leaves.data() + found.first;
      leaves_.insert(leaves_.end(), first, first + found.count);
    }
  }

  // The value of a child, for its parent's player.
  static float seen_by_parent(const Node& parent, std::uint8_t child_to_play, float value) {
    if constexpr (Rules::alternates) return -value;
    return parent.to_play == child_to_play ? value : -value;
  }

  // Turn a path's virtual visits into visits with the value of the node at its end.
  static void back_up(TreeType& tree, const Step* path, std::uint32_t length, std::uint32_t end) {
    float value = tree.node(end).value_sum;
    std::uint8_t to_play = tree.node(end).to_play;
    for (std::uint32_t i = length; i-- > 0;) {
      Node& node = tree.node(path[i].node);
      const Edges e = tree.edges(node);
      value = seen_by_parent(node, to_play, value);
      to_play = node.to_play;
      e.value[path[i].edge] += value;
      --e.pending[path[i].edge];
      node.value_sum += value;
      ++node.value_count;
    }
  }

  Rules rules_;
  Config config_;
  ExplorationScale scale_;
  float fpu_;
  std::vector<TreeType> trees_;
  std::vector<Leaf> leaves_;  // of the last batch
  std::array<Lane, kNumLanes> lanes_;
  std::vector<Found> found_;  // [num_trees]
  std::uint32_t next_tree_ = 0;
  std::vector<std::uint32_t> scratch_;
};

}  // namespace zerofleet
