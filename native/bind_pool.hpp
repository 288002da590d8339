// A search pool as a Python object.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "errors.hpp"
#include "pool.hpp"

namespace zerofleet {

// Refuses a second thread while one is inside the pool, whose calls give up the GIL.
class Entry {
 public:
  explicit Entry(std::atomic_flag& busy) : busy_(busy) {
    if (busy_.test_and_set(std::memory_order_acquire))
      usage_error("the pool is in use by another thread: a pool belongs to one thread");
  }
  ~Entry() { busy_.clear(std::memory_order_release); }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  std::atomic_flag& busy_;
};

template <class Game>
class NativePool {
 public:
  using Rules = NativeRules<Game>;
  using State = typename Game::State;

  NativePool(std::int64_t num_trees, const Config& config) : pool_(Rules{}, num_trees, config), config_(config) {
    const std::size_t most = static_cast<std::size_t>(num_trees) * static_cast<std::size_t>(config.leaves_per_tree);
    if (most > kMaxLeaves) fail("ConfigError", "num_trees * leaves_per_tree must be at most " + std::to_string(kMaxLeaves));
    planes_.resize(most * Game::packed_size + 8);
    offsets_.resize(most + 1);
    actions_.resize((most + 1) * Game::max_moves);
    offsets_[0] = 0;
  }

  void reset(std::int64_t tree, const State& state, std::int64_t num_simulations) {
    const Entry entry(busy_);
    if (Game::is_terminal(state)) fail("TerminalStateError", "cannot search a finished position: " + Game::text(state));
    pool_.reset(tree, state, static_cast<std::uint8_t>(Game::to_play(state)), budget(num_simulations));
  }

  void advance(std::int64_t tree, std::int64_t ordinal, std::int64_t num_simulations) {
    const Entry entry(busy_);
    pool_.advance(tree, ordinal, budget(num_simulations));
  }

  void release(std::int64_t tree) {
    const Entry entry(busy_);
    pool_.release(tree);
  }

  void set_root_noise(std::int64_t tree, const nb::ndarray<const float, nb::ndim<1>, nb::c_contig>& noise) {
    const Entry entry(busy_);
    pool_.set_root_noise(tree, noise.data(), noise.size());
  }

  // Returns (planes, offsets, actions): views that stay valid until the next collect.
  static nb::tuple collect(nb::object self) {
    auto& pool = nb::cast<NativePool&>(self);
    const Entry entry(pool.busy_);
    std::size_t count = 0;
    {
      const nb::gil_scoped_release released;
      pool.pool_.collect();
      count = pool.encode();
    }
    const auto moves = static_cast<std::size_t>(pool.offsets_[count]);
    return nb::make_tuple(Array2<std::uint8_t>(pool.planes_.data(), {count, Game::packed_size}, self),
                          Array1<std::int32_t>(pool.offsets_.data(), {count + 1}, self),
                          Array1<std::uint16_t>(pool.actions_.data(), {moves}, self));
  }

  void expand(const nb::ndarray<const float, nb::ndim<1>, nb::c_contig>& priors,
              const nb::ndarray<const float, nb::ndim<1>, nb::c_contig>& values) {
    const Entry entry(busy_);
    const std::size_t count = pool_.leaves().size();
    if (count == 0) usage_error("expand must follow a collect that gave leaves");
    const auto moves = static_cast<std::size_t>(offsets_[count]);
    if (values.size() != count)
      usage_error("values must have one entry per leaf, " + std::to_string(count) + ", got " + std::to_string(values.size()));
    if (priors.size() != moves)
      usage_error("priors must have one entry per legal move, " + std::to_string(moves) + ", got " +
                  std::to_string(priors.size()));
    const nb::gil_scoped_release released;
    pool_.expand(priors.data(), offsets_.data(), values.data());
  }

  std::vector<State> leaf_states() {
    const Entry entry(busy_);
    std::vector<State> states;
    for (const Leaf& leaf : pool_.leaves()) states.push_back(pool_.leaf_state(leaf));
    return states;
  }

  Array1<bool> finished() {
    const Entry entry(busy_);
    auto out = new_array<bool>(pool_.num_trees());
    for (std::size_t i = 0; i < pool_.num_trees(); ++i) out.data()[i] = pool_.finished(i);
    return out;
  }

  nb::tuple result(std::int64_t tree) {
    const Entry entry(busy_);
    const Result r = pool_.result(tree);
    return nb::make_tuple(copy_array(r.visits), copy_array(r.q_values), copy_array(r.priors), r.root_value,
                          r.num_simulations, r.num_reused);
  }

  Pool<Rules>& pool() { return pool_; }

 private:
  static constexpr std::size_t kMaxLeaves = 1 << 24;

  std::int64_t budget(std::int64_t num_simulations) const {
    return num_simulations < 0 ? config_.num_simulations : num_simulations;
  }

  std::size_t encode() {
    const std::vector<Leaf>& leaves = pool_.leaves();
    std::int32_t moves = 0;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const State& state = pool_.leaf_state(leaves[i]);
      Game::pack(state, planes_.data() + i * Game::packed_size);
      moves += Game::legal_actions(state, actions_.data() + moves);
      offsets_[i + 1] = moves;
    }
    return leaves.size();
  }

  Pool<Rules> pool_;
  Config config_;
  std::atomic_flag busy_;
  std::vector<std::uint8_t> planes_;
  std::vector<std::int32_t> offsets_;
  std::vector<std::uint16_t> actions_;
};

inline Config make_config(std::int32_t num_simulations, std::int32_t leaves_per_tree, bool log_exploration, double c_init,
                          double c_base, bool parent_urgency, double fpu_value, double reuse_limit, std::int64_t max_nodes,
                          double dirichlet_fraction) {
  Config config;
  config.num_simulations = num_simulations;
  config.leaves_per_tree = leaves_per_tree;
  config.log_exploration = log_exploration;
  config.c_init = c_init;
  config.c_base = c_base;
  config.parent_urgency = parent_urgency;
  config.fpu_value = fpu_value;
  config.reuse_limit = reuse_limit;
  config.max_nodes = max_nodes;
  config.dirichlet_fraction = dirichlet_fraction;
  return config;
}

// What every pool has, whatever its game.
template <class PoolType, class Class>
void bind_pool_members(Class& c) {
  c.def("advance", &PoolType::advance, nb::arg("tree"), nb::arg("ordinal"), nb::arg("num_simulations"))
      .def("release", &PoolType::release, nb::arg("tree"))
      .def("set_root_noise", &PoolType::set_root_noise, nb::arg("tree"), nb::arg("noise"))
      .def("expand", &PoolType::expand, nb::arg("priors"), nb::arg("values"))
      .def("leaf_states", &PoolType::leaf_states)
      .def("finished", &PoolType::finished)
      .def("result", &PoolType::result, nb::arg("tree"))
      .def("num_legal", [](PoolType& p, std::int64_t tree) { return p.pool().num_legal(tree); }, nb::arg("tree"))
      .def("num_nodes", [](PoolType& p, std::int64_t tree) { return p.pool().num_nodes(tree); }, nb::arg("tree"))
      .def("num_in_flight", [](PoolType& p, std::int64_t tree) { return p.pool().num_in_flight(tree); }, nb::arg("tree"))
      .def_prop_ro("num_simulations_total", [](PoolType& p) { return p.pool().num_simulations_total; })
      .def_prop_ro("num_uniform_rows", [](PoolType& p) { return p.pool().num_uniform_rows; })
      .def_prop_ro("num_bytes", [](PoolType& p) { return p.pool().num_bytes(); });
}

template <class Game>
void bind_native_pool(nb::module_& m, const char* name) {
  using PoolType = NativePool<Game>;
  nb::class_<PoolType> c(m, name, nb::is_final());
  c.def(
       "__init__",
       [](PoolType* self, std::int64_t num_trees, std::int32_t num_simulations, std::int32_t leaves_per_tree,
          bool log_exploration, double c_init, double c_base, bool parent_urgency, double fpu_value, double reuse_limit,
          std::int64_t max_nodes, double dirichlet_fraction) {
         new (self) PoolType(num_trees, make_config(num_simulations, leaves_per_tree, log_exploration, c_init, c_base,
                                                    parent_urgency, fpu_value, reuse_limit, max_nodes, dirichlet_fraction));
       },
       nb::kw_only(), nb::arg("num_trees"), nb::arg("num_simulations"), nb::arg("leaves_per_tree"),
       nb::arg("log_exploration"), nb::arg("c_init"), nb::arg("c_base"), nb::arg("parent_urgency"), nb::arg("fpu_value"),
       nb::arg("reuse_limit"), nb::arg("max_nodes"), nb::arg("dirichlet_fraction"))
      .def("reset", &PoolType::reset, nb::arg("tree"), nb::arg("state"), nb::arg("num_simulations"))
      .def("collect", [](nb::handle_t<PoolType> self) { return PoolType::collect(nb::borrow(self)); })
      .def("root_state", [](PoolType& p, std::int64_t tree) { return p.pool().root_state(tree); }, nb::arg("tree"));
  bind_pool_members<PoolType>(c);
}

}  // namespace zerofleet
