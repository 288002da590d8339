// One search tree: nodes in an array, numbered by creation; the edges of a node side by side.
//
// A node's numbers are for its own player to move.  A parent's number is always smaller than its children's.
// `Rules` is a game as the tree sees it (see native_rules.hpp); its states are moved by copying bytes.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "score.hpp"

namespace zerofleet {

enum class Status : std::uint8_t {
  kPending,    // waits for its evaluation
  kEvaluated,  // has its priors; its edges are opened when a search first enters it
  kExpanded,
  kTerminal,
};

// An array of plain bytes on cache lines that grows by copying.
template <class T>
class Block {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Block() = default;
  Block(Block&& other) noexcept { swap(other); }
  Block& operator=(Block&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Block() { std::free(data_); }

  T* data() const { return data_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  std::size_t capacity() const { return capacity_; }
  std::size_t bytes() const { return capacity_ * sizeof(T); }

  void reserve(std::size_t wanted, std::size_t used) {
    if (wanted <= capacity_) return;
    const std::size_t size = (wanted * sizeof(T) + 63) / 64 * 64;
    void* fresh = std::aligned_alloc(64, size);
    if (fresh == nullptr) throw std::bad_alloc();
    if (used != 0) std::memcpy(fresh, data_, used * sizeof(T));
    std::free(data_);
    data_ = static_cast<T*>(fresh);
    capacity_ = wanted;
  }

  void free() {
    std::free(std::exchange(data_, nullptr));
    capacity_ = 0;
  }

 private:
  void swap(Block& other) {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
  }
  T* data_ = nullptr;
  std::size_t capacity_ = 0;
};

// A stack of plain values; `std::vector` without the initialisation that its growth implies.
template <class T>
class Stack {
 public:
  T* data() const { return block_.data(); }
  T& operator[](std::size_t i) const { return block_[i]; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return block_.bytes(); }
  void shrink(std::size_t size) { size_ = size; }

  void push(const T& value) {
    if (size_ == block_.capacity()) block_.reserve(2 * size_ + 64, size_);
    block_[size_++] = value;
  }

 private:
  Block<T> block_;
  std::size_t size_ = 0;
};

template <class State>
struct NodeHead {
  State state;
  std::int32_t total;        // sum of N + V over the edges
  std::int32_t value_count;  // 1 + values backed up through the node
  float value_sum;           // own evaluation + those values; of a finished node: its exact value
  std::uint16_t num_edges;
  std::uint8_t to_play;
  Status status;
};

// Edges of a known greatest number live in the node itself.
template <class State, int Width>
struct alignas(64) InlineNode : NodeHead<State> {
  alignas(16) float prior[Width];
  alignas(16) float value[Width];
  alignas(16) std::int32_t pending[Width];
  alignas(16) std::int32_t visits[Width];
  alignas(16) std::uint32_t child[Width];
};

// Edges of any number live in a second array of 4-byte cells.
template <class State>
struct ArenaNode : NodeHead<State> {
  std::size_t edge_cell;
};

inline int padded_edges(int count) { return (count + 3) / 4 * 4; }

template <class Rules>
class Tree {
 public:
  using State = typename Rules::State;
  static constexpr bool kInline = Rules::max_moves > 0;
  static constexpr int kWidth = kInline ? (Rules::max_moves + 3) / 4 * 4 : 4;
  using Node = std::conditional_t<kInline, InlineNode<State, kWidth>, ArenaNode<State>>;

  // The search of one move.
  bool active = false;
  bool root_pending = false;  // the root itself is in flight
  bool full = false;          // a node was needed and there was no room
  std::int32_t budget = 0;
  std::int32_t done = 0;
  std::int32_t in_flight = 0;  // leaves, the root's own evaluation not counted
  std::int32_t num_reused = 0;
  std::int32_t leaf_slots = 1;
  std::int64_t max_nodes = 0;
  std::vector<float> noise;        // for the root's edges; empty: none
  std::vector<float> root_priors;  // without noise; empty until the root is evaluated

  std::uint32_t size() const { return size_; }
  Node& node(std::uint32_t i) const { return nodes_[i]; }
  Node& root() const { return nodes_[0]; }
  bool evaluated() const { return root().status == Status::kExpanded; }  // a root's edges are opened at once
  bool finished() const {
    return active && evaluated() && in_flight == 0 && (full || done >= budget);
  }

  Edges edges(const Node& n) const {
    if constexpr (kInline) {
      auto& m = const_cast<Node&>(n);
      return {m.prior, m.value, m.pending, m.visits, m.child, kWidth};
    } else {
      const int padded = padded_edges(n.num_edges);
      std::uint32_t* cells = cells_.data() + n.edge_cell;
      return {reinterpret_cast<float*>(cells),
              reinterpret_cast<float*>(cells + padded),
              reinterpret_cast<std::int32_t*>(cells + 2 * padded),
              reinterpret_cast<std::int32_t*>(cells + 3 * padded),
              cells + 4 * padded,
              padded};
    }
  }

  // Add a node that owns `state`.  May move all nodes.
  std::uint32_t add(const State& state, std::uint8_t to_play) {
    if (size_ == nodes_.capacity()) grow_nodes();
    Node& n = nodes_[size_];
    n.state = state;
    n.total = 0;
    n.value_count = 1;
    n.value_sum = 0.0F;
    n.num_edges = 0;
    n.to_play = to_play;
    n.status = Status::kPending;
    if constexpr (!kInline) n.edge_cell = 0;
    return size_++;
  }

  // Give a node room for its edges.  May move all edges that are not inline.
  void make_edges(Node& n, int count) {
    n.num_edges = static_cast<std::uint16_t>(count);
    if constexpr (!kInline) {
      const std::size_t cells = 5 * static_cast<std::size_t>(padded_edges(count));
      if (cells_used_ + cells > cells_.capacity())
        cells_.reserve(std::max(cells_used_ + cells, 2 * cells_.capacity()), cells_used_);
      n.edge_cell = cells_used_;
      cells_used_ += cells;
    }
  }

  // Open the edges of an evaluated node, all unvisited.  Most nodes are never entered, so this waits until one is.
  void open_edges(Node& n) const {
    clear_edges(edges(n), n.num_edges);
    n.status = Status::kExpanded;
  }

  // Ask for a node's memory before it is needed.
  void prefetch(std::uint32_t i) const {
    const char* bytes = reinterpret_cast<const char*>(&nodes_[i]);
    for (std::size_t line = 0; line < sizeof(Node); line += 64) __builtin_prefetch(bytes + line);
  }

  // Ask for the memory that the next node will be written to.
  void prefetch_next() const {
    if (size_ < nodes_.capacity()) __builtin_prefetch(&nodes_[size_], 1);
  }

  // Forget every node and keep the memory.  A dropped state may run code of a Python game: no node refers to it then.
  void clear(const Rules& rules) {
    for (std::uint32_t i = 0; i < size_; ++i) rules.drop(nodes_[i].state);
    size_ = 0;
    cells_used_ = 0;
  }

  void free(const Rules& rules) {
    clear(rules);
    nodes_.free();
    cells_.free();
    active = false;
    in_flight = 0;
    noise = {};
    root_priors = {};
  }

  // Make `new_root` the root and drop what it does not hold; the order of creation is kept.
  void keep_subtree(const Rules& rules, std::uint32_t new_root, std::vector<std::uint32_t>& number) {
    number.assign(size_, kNoChild);
    number[new_root] = 0;
    std::uint32_t kept = 0;
    std::size_t cells = 0;
    for (std::uint32_t i = 0; i < size_; ++i) {
      if (number[i] == kNoChild) {
        rules.drop(nodes_[i].state);
        continue;
      }
      const Edges e = edges(nodes_[i]);
      const int count = num_open_edges(nodes_[i]);
      for (int k = 0; k < count; ++k)
        if (e.child[k] != kNoChild) number[e.child[k]] = 0;  // marked: numbered when its turn comes
      number[i] = kept++;
    }
    for (std::uint32_t i = 0; i < size_; ++i) {
      if (number[i] == kNoChild) continue;
      Node& n = nodes_[i];
      const Edges e = edges(n);
      const int count = num_open_edges(n);
      for (int k = 0; k < count; ++k)
        if (e.child[k] != kNoChild) e.child[k] = number[e.child[k]];
      if constexpr (!kInline) {
        const std::size_t length = 5 * static_cast<std::size_t>(padded_edges(n.num_edges));
        if (length != 0) std::memmove(cells_.data() + cells, cells_.data() + n.edge_cell, length * sizeof(std::uint32_t));
        n.edge_cell = cells;
        cells += length;
      }
      if (number[i] != i) nodes_[number[i]] = n;
    }
    size_ = kept;
    cells_used_ = cells;
  }

  std::size_t bytes() const {
    return nodes_.bytes() + cells_.bytes() + (noise.capacity() + root_priors.capacity()) * sizeof(float);
  }

 private:
  static int num_open_edges(const Node& n) { return n.status == Status::kExpanded ? n.num_edges : 0; }

  void grow_nodes() {
    const std::size_t wanted = std::min<std::size_t>(std::max<std::size_t>(64, 2 * nodes_.capacity()),
                                                     static_cast<std::size_t>(max_nodes));
    nodes_.reserve(std::max<std::size_t>(wanted, size_ + 1), size_);
  }

  Block<Node> nodes_;
  Block<std::uint32_t> cells_;
  std::uint32_t size_ = 0;
  std::size_t cells_used_ = 0;
};

}  // namespace zerofleet
