// Games whose rules and positions are Python objects, in the same tree.  The GIL is held throughout `collect`.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "bind_pool.hpp"
#include "errors.hpp"
#include "native_rules.hpp"
#include "pool.hpp"

namespace zerofleet {

// A position and its legal moves: references that the tree owns and gives back through `PythonRules::drop`.
struct PythonState {
  PyObject* position;
  PyObject* moves;  // a tuple; null in a finished position
};

// The methods of a Python game, and checks of what they return: a broken law is an error that names it.
class PythonRules {
 public:
  using State = PythonState;
  static constexpr int max_moves = 0;  // any number
  static constexpr bool alternates = false;

  explicit PythonRules(const nb::object& game)
      : name_(nb::cast<std::string>(nb::str(game.attr("name")))),
        num_actions_(nb::cast<std::int64_t>(game.attr("num_actions"))),
        to_play_(game.attr("to_play")),
        legal_moves_(game.attr("legal_moves")),
        next_state_(game.attr("next_state")),
        terminal_value_(game.attr("terminal_value")),
        move_index_(game.attr("move_index")),
        pack_(game.attr("pack")),
        packed_size_(nb::cast<std::size_t>(game.attr("packed_size"))) {}

  static void drop(State& s) {
    Py_CLEAR(s.position);
    Py_CLEAR(s.moves);
  }

  static int num_legal(const State& s) { return static_cast<int>(PyTuple_GET_SIZE(s.moves)); }

  Played<State> play(const State& s, std::uint8_t, int ordinal) const {
    const nb::handle position(s.position), move(PyTuple_GET_ITEM(s.moves, ordinal));
    return look_at(next_state_(position, move));
  }

  // Ask the game about a position; the result owns its references.
  Played<State> look_at(nb::object position) const {
    Played<State> played{{nullptr, nullptr}, player(position), false, 0.0F};
    const nb::object value = terminal_value_(position);
    nb::object moves;
    if (value.is_none()) {
      moves = moves_of(position);
    } else {
      played.terminal = true;
      played.value = exact_value(value);
    }
    played.state = {position.release().ptr(), moves.release().ptr()};
    return played;
  }

  // Append the action of each legal move.
  void append_actions(const State& s, std::vector<std::uint16_t>& out) {
    const Py_ssize_t count = PyTuple_GET_SIZE(s.moves);
    for (Py_ssize_t i = 0; i < count; ++i) out.push_back(action(PyTuple_GET_ITEM(s.moves, i)));
  }

  // For Python's garbage collector.
  int traverse(visitproc visit, void* arg) const {
    for (const nb::object* held : {&to_play_, &legal_moves_, &next_state_, &terminal_value_, &move_index_, &pack_})
      Py_VISIT(held->ptr());
    Py_VISIT(actions_.ptr());
    return 0;
  }

  void forget() {
    for (nb::object* held : {&to_play_, &legal_moves_, &next_state_, &terminal_value_, &move_index_, &pack_})
      *held = nb::none();
    actions_.clear();
  }

  nb::object pack(const nb::list& positions) const { return pack_(positions); }
  std::size_t packed_size() const { return packed_size_; }
  const std::string& name() const { return name_; }

 private:
  static constexpr Py_ssize_t kMaxMoves = 0xFFFF;
  static constexpr Py_ssize_t kMaxKnownActions = 1 << 16;

  [[noreturn]] void broken(const std::string& law, nb::handle got) const {
    fail("GameError", name_ + ": " + law + ", got " + nb::cast<std::string>(nb::repr(got)));
  }

  std::uint8_t player(nb::handle position) const {
    const nb::object player = to_play_(position);
    const long value = integer(player);
    if (value != 0 && value != 1) broken("to_play must return 0 or 1", player);
    return static_cast<std::uint8_t>(value);
  }

  float exact_value(nb::handle object) const {
    const long value = integer(object);
    if (value < -1 || value > 1) broken("terminal_value must return None, -1, 0 or 1", object);
    return static_cast<float>(value);
  }

  nb::object moves_of(nb::handle position) const {
    const nb::object listed = legal_moves_(position);
    nb::object moves = nb::steal(PySequence_Tuple(listed.ptr()));
    if (!moves.is_valid()) {
      PyErr_Clear();
      broken("legal_moves must return a sequence", listed);
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(moves.ptr());
    if (count == 0) broken("legal_moves must not be empty while terminal_value is None; in this position it is", position);
    if (count > kMaxMoves) broken("legal_moves must return at most 65535 moves", nb::int_(count));
    return moves;
  }

  // The action of a move, asked once per move and remembered.
  std::uint16_t action(PyObject* move) {
    PyObject* known = PyDict_GetItemWithError(actions_.ptr(), move);
    if (known == nullptr) {
      if (PyErr_Occurred() != nullptr) throw nb::python_error();
      const nb::object index = move_index_(nb::handle(move));
      const long value = integer(index);
      if (value < 0 || value >= num_actions_)
        broken("move_index must return a number in [0, " + std::to_string(num_actions_) + ") for the move " +
                   nb::cast<std::string>(nb::repr(nb::handle(move))),
               index);
      if (PyDict_GET_SIZE(actions_.ptr()) >= kMaxKnownActions) actions_.clear();
      actions_[nb::handle(move)] = nb::int_(value);
      return static_cast<std::uint16_t>(value);
    }
    return static_cast<std::uint16_t>(PyLong_AsLong(known));
  }

  // An integer's value, or a number that no method may return.
  static long integer(nb::handle object) {
    const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
    const long value = index.is_valid() ? PyLong_AsLong(index.ptr()) : -1000;
    if (PyErr_Occurred() == nullptr) return value;
    PyErr_Clear();
    return -1000;
  }

  std::string name_;
  std::int64_t num_actions_;
  nb::object to_play_, legal_moves_, next_state_, terminal_value_, move_index_, pack_;
  std::size_t packed_size_;
  nb::dict actions_;
};

class PythonPool : public PoolFace<PythonRules> {
 public:
  PythonPool(const nb::object& game, std::int64_t num_trees, const Config& config)
      : PoolFace<PythonRules>(PythonRules(game), num_trees, config) {}

  void reset(std::int64_t tree, const nb::object& state, std::int64_t num_simulations) {
    const Entry entry(busy_);
    Played<PythonState> root = pool_.rules().look_at(state);
    try {
      if (root.terminal)
        fail("TerminalStateError", "cannot search a finished position: " + nb::cast<std::string>(nb::repr(state)));
      pool_.reset(tree, root.state, root.to_play, budget(num_simulations));
    } catch (...) {
      PythonRules::drop(root.state);
      throw;
    }
  }

  // Returns (planes, offsets, actions): arrays that Python owns.
  static nb::tuple collect(nb::handle_t<PythonPool> self) {
    auto& pool = nb::cast<PythonPool&>(self);
    const Entry entry(pool.busy_);
    pool.pool_.collect();
    try {
      return pool.encode();
    } catch (...) {
      pool.pool_.withdraw();
      throw;
    }
  }

  nb::list leaf_states() {
    const Entry entry(busy_);
    return states();
  }

  // A game may hold the pool that searches it: Python's garbage collector must see through the pool.
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    PythonPool* pool = nb::inst_ptr<PythonPool>(self);
    for (const auto& tree : pool->pool_.trees())
      for (std::uint32_t i = 0; i < tree.size(); ++i) {
        Py_VISIT(tree.node(i).state.position);
        Py_VISIT(tree.node(i).state.moves);
      }
    return pool->pool_.rules().traverse(visit, arg);
  }

  static int clear(PyObject* self) {
    PythonPool* pool = nb::inst_ptr<PythonPool>(self);
    pool->pool_.withdraw();
    for (std::size_t i = 0; i < pool->pool_.num_trees(); ++i) pool->pool_.release(static_cast<std::int64_t>(i));
    pool->pool_.rules().forget();
    return 0;
  }

  nb::object root_state(std::int64_t tree) {
    const Entry entry(busy_);
    return nb::borrow(pool_.root_state(tree).position);
  }

 private:
  nb::list states() const {
    nb::list states;
    for (const Leaf& leaf : pool_.leaves()) states.append(nb::handle(pool_.leaf_state(leaf).position));
    return states;
  }

  nb::tuple encode() {
    const std::vector<Leaf>& leaves = pool_.leaves();
    std::vector<std::uint16_t> actions;
    std::vector<std::int32_t> offsets{0};
    for (const Leaf& leaf : leaves) {
      pool_.rules().append_actions(pool_.leaf_state(leaf), actions);
      offsets.push_back(static_cast<std::int32_t>(actions.size()));
    }
    offsets_.reserve(offsets.size());
    std::copy(offsets.begin(), offsets.end(), offsets_.data());
    const nb::object planes = leaves.empty()
                                  ? nb::cast(new_matrix<std::uint8_t>(0, pool_.rules().packed_size()))
                                  : pool_.rules().pack(states());
    return nb::make_tuple(planes, copy_array(offsets), copy_array(actions));
  }
};

inline PyType_Slot kPythonPoolSlots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(&PythonPool::traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&PythonPool::clear)},
    {0, nullptr},
};

}  // namespace zerofleet
