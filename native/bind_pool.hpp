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

// What every pool has, whatever its game.
template <class Rules>
class PoolFace {
 public:
  using FloatArray = nb::ndarray<const float, nb::ndim<1>, nb::c_contig>;

  PoolFace(Rules rules, std::int64_t num_trees, const Config& config)
      : pool_(std::move(rules), num_trees, config), config_(config) {}

  void advance(std::int64_t tree, std::int64_t ordinal, std::int64_t num_simulations) {
    const Entry entry(busy_);
    pool_.advance(tree, ordinal, budget(num_simulations));
  }

  void release(std::int64_t tree) {
    const Entry entry(busy_);
    pool_.release(tree);
  }

  void withdraw() {
    const Entry entry(busy_);
    pool_.withdraw();
  }

  void set_root_noise(std::int64_t tree, const FloatArray& noise) {
    const Entry entry(busy_);
    pool_.set_root_noise(tree, noise.data(), noise.size());
  }

  void expand(const FloatArray& priors, const FloatArray& values) {
    const Entry entry(busy_);
    const std::size_t count = pool_.leaves().size();
    if (count == 0) usage_error("expand must follow a collect that gave leaves");
    const auto moves = static_cast<std::size_t>(offsets_.data()[count]);
    if (values.size() != count)
      usage_error("values must have one entry per leaf, " + std::to_string(count) + ", got " + std::to_string(values.size()));
    if (priors.size() != moves)
      usage_error("priors must have one entry per legal move, " + std::to_string(moves) + ", got " +
                  std::to_string(priors.size()));
    const nb::gil_scoped_release released;
    pool_.expand(priors.data(), offsets_.data(), values.data());
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

  // For reading numbers, between calls of the owner.
  Pool<Rules>& pool() { return pool_; }

 protected:
  std::int64_t budget(std::int64_t num_simulations) const {
    return num_simulations < 0 ? config_.num_simulations : num_simulations;
  }

  Pool<Rules> pool_;
  Config config_;
  std::atomic_flag busy_;
  Shown<std::int32_t> offsets_;  // [B + 1] where each leaf's legal moves start
};

template <class Game>
class NativePool : public PoolFace<NativeRules<Game>> {
 public:
  using Rules = NativeRules<Game>;
  using State = typename Game::State;

  NativePool(std::int64_t num_trees, const Config& config) : PoolFace<Rules>(Rules{}, num_trees, config) {}

  void reset(std::int64_t tree, const State& state, std::int64_t num_simulations) {
    const Entry entry(this->busy_);
    if (Game::is_terminal(state)) fail("TerminalStateError", "cannot search a finished position: " + Game::text(state));
    this->pool_.reset(tree, state, static_cast<std::uint8_t>(Game::to_play(state)), this->budget(num_simulations));
  }

  // Returns (planes, offsets, actions), whose contents stay until the next collect; the same arrays again where they fit.
  static nb::tuple collect(nb::handle_t<NativePool> self) {
    auto& pool = nb::cast<NativePool&>(self);
    const Entry entry(pool.busy_);
    {
      const nb::gil_scoped_release released;
      pool.pool_.collect();
    }
    return pool.encode();
  }

  std::vector<State> leaf_states() {
    const Entry entry(this->busy_);
    std::vector<State> states;
    for (const Leaf& leaf : this->pool_.leaves()) states.push_back(this->pool_.leaf_state(leaf));
    return states;
  }

  State root_state(std::int64_t tree) {
    const Entry entry(this->busy_);
    return this->pool_.root_state(tree);
  }

 private:
  nb::tuple encode() {
    const std::vector<Leaf>& leaves = this->pool_.leaves();
    const std::size_t count = leaves.size();
    bool fresh = planes_.reserve(count * Game::packed_size + 1);
    fresh |= this->offsets_.reserve(count + 1);
    fresh |= actions_.reserve((count + 1) * Game::max_moves);
    std::uint8_t* planes = planes_.data();
    std::int32_t* offsets = this->offsets_.data();
    std::uint16_t* const actions = actions_.data();
    std::int32_t moves = 0;
    *offsets = 0;
    for (const Leaf& leaf : leaves) {
      const State state = this->pool_.leaf_state(leaf);
      Game::pack(state, planes);
      moves += Game::legal_actions(state, actions + moves);
      planes += Game::packed_size;
      *++offsets = moves;
    }
    if (fresh || count != shown_leaves_ || moves != shown_moves_) {
      shown_leaves_ = count;
      shown_moves_ = moves;
      shown_ = nb::make_tuple(planes_.array(count, Game::packed_size), this->offsets_.array(count + 1),
                              actions_.array(static_cast<std::size_t>(moves)));
    }
    return shown_;
  }

  Shown<std::uint8_t> planes_;
  Shown<std::uint16_t> actions_;
  nb::tuple shown_;  // the arrays that Python saw last
  std::size_t shown_leaves_ = 0;
  std::int32_t shown_moves_ = 0;
};

template <class PoolType, class Class>
void bind_pool_members(Class& c) {
  c.def("advance", &PoolType::advance, nb::arg("tree"), nb::arg("ordinal"), nb::arg("num_simulations"))
      .def("release", &PoolType::release, nb::arg("tree"))
      .def("withdraw", &PoolType::withdraw)
      .def("set_root_noise", &PoolType::set_root_noise, nb::arg("tree"), nb::arg("noise"))
      .def("expand", &PoolType::expand, nb::arg("priors"), nb::arg("values"))
      .def("leaf_states", &PoolType::leaf_states)
      .def("finished", &PoolType::finished)
      .def("result", &PoolType::result, nb::arg("tree"))
      .def("collect", [](nb::handle_t<PoolType> self) { return PoolType::collect(self); })
      .def("root_state", &PoolType::root_state, nb::arg("tree"))
      .def("reset", &PoolType::reset, nb::arg("tree"), nb::arg("state"), nb::arg("num_simulations"))
      .def("num_legal", [](PoolType& p, std::int64_t tree) { return p.pool().num_legal(tree); }, nb::arg("tree"))
      .def("num_nodes", [](PoolType& p, std::int64_t tree) { return p.pool().num_nodes(tree); }, nb::arg("tree"))
      .def("num_in_flight", [](PoolType& p, std::int64_t tree) { return p.pool().num_in_flight(tree); }, nb::arg("tree"))
      .def_prop_ro("num_simulations_total", [](PoolType& p) { return p.pool().num_simulations_total; })
      .def_prop_ro("num_uniform_rows", [](PoolType& p) { return p.pool().num_uniform_rows; })
      .def_prop_ro("num_bytes", [](PoolType& p) { return p.pool().num_bytes(); });
}

// Bind a pool whose constructor takes `Arguments`, the number of trees and the parameters.
template <class PoolType, class... Arguments>
void bind_pool(nb::module_& m, const char* name, const char* doc, PyType_Slot* slots) {
  nb::class_<PoolType> c(m, name, nb::is_final(), doc, nb::type_slots(slots));
  c.def(
      "__init__",
      [](PoolType* self, Arguments... own, std::int64_t num_trees, std::int32_t num_simulations,
         std::int32_t leaves_per_tree, bool log_exploration, double c_init, double c_base, bool parent_urgency,
         double fpu_value, double reuse_limit, std::int64_t max_nodes, double dirichlet_fraction) {
        new (self) PoolType(own..., num_trees,
                            Config{num_simulations, leaves_per_tree, log_exploration, c_init, c_base, parent_urgency,
                                   fpu_value, reuse_limit, max_nodes, dirichlet_fraction});
      },
      (static_cast<void>(sizeof(Arguments)), nb::arg())..., nb::kw_only(), nb::arg("num_trees"),
      nb::arg("num_simulations"), nb::arg("leaves_per_tree"), nb::arg("log_exploration"), nb::arg("c_init"),
      nb::arg("c_base"), nb::arg("parent_urgency"), nb::arg("fpu_value"), nb::arg("reuse_limit"), nb::arg("max_nodes"),
      nb::arg("dirichlet_fraction"));
  bind_pool_members<PoolType>(c);
}

}  // namespace zerofleet
