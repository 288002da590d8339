// A built-in game's positions as Python values.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "errors.hpp"
#include "perft.hpp"

namespace zerofleet {

template <class Game>
typename Game::State checked_state(const std::array<std::uint64_t, 2>& bits) {
  const typename Game::State state = Game::from_bits(bits);
  if (Game::bits(state) != bits || !Game::is_valid(state))
    fail("GameError", std::string("these bits are no position of ") + Game::name);
  return state;
}

template <class Game>
typename Game::State play_checked(const typename Game::State& state, int move) {
  if (Game::is_terminal(state))
    fail("IllegalMoveError", "move " + std::to_string(move) + " after the end of the game: " + Game::text(state));
  if (!Game::is_legal_action(state, move))
    fail("IllegalMoveError", "move " + std::to_string(move) + " is not legal in " + Game::text(state));
  return Game::play_action(state, move);
}

template <class Game>
nb::list legal_moves(const typename Game::State& state) {
  nb::list moves;
  if (Game::is_terminal(state)) return moves;
  std::uint16_t actions[Game::max_moves];
  const int count = Game::legal_actions(state, actions);
  for (int i = 0; i < count; ++i) moves.append(static_cast<int>(actions[i]));
  return moves;
}

template <class Game>
Array2<std::uint8_t> pack_states(const std::vector<typename Game::State>& states) {
  auto out = new_matrix<std::uint8_t>(states.size(), Game::packed_size);
  for (std::size_t i = 0; i < states.size(); ++i) Game::pack(states[i], out.data() + i * Game::packed_size);
  return out;
}

template <class Game>
void bind_game(nb::module_& m, const char* name) {
  using State = typename Game::State;
  nb::class_<State>(m, name, nb::is_final())
      .def(nb::init<>())
      .def_prop_ro("to_play", &Game::to_play)
      .def_prop_ro("is_terminal", &Game::is_terminal)
      .def_prop_ro("num_moves", &State::num_moves)
      .def_prop_ro("bits", &Game::bits)
      .def_static("from_bits", &checked_state<Game>, nb::arg("bits"))
      .def("legal_moves", &legal_moves<Game>)
      .def("play", &play_checked<Game>, nb::arg("move"))
      .def("terminal_value",
           [](const State& s) -> nb::object {
             if (!Game::is_terminal(s)) return nb::none();
             return nb::int_(Game::terminal_value(s));
           })
      .def("termination",
           [](const State& s) {
             if (!Game::is_terminal(s)) usage_error("the game goes on: " + Game::text(s));
             return std::string(Game::termination(s));
           })
      .def("text", &Game::text)
      .def("perft",
           [](const State& s, int depth) {
             if (depth < 0) usage_error("depth must be 0 or more, got " + std::to_string(depth));
             return perft<Game>(s, depth);
           },
           nb::arg("depth"), nb::call_guard<nb::gil_scoped_release>())
      .def_static("pack", &pack_states<Game>, nb::arg("states"))
      .def("__eq__", [](const State& a, const State& b) { return a == b; }, nb::is_operator())
      .def("__hash__",
           [](const State& s) {
             const auto b = Game::bits(s);
             std::uint64_t h = b[0] * 0x9E3779B97F4A7C15ULL + b[1];
             h ^= h >> 32;
             h *= 0xD6E8FEB86659FD93ULL;
             return static_cast<std::int64_t>((h ^ (h >> 32)) >> 2);
           })
      .def("__repr__", [name = std::string(name)](const State& s) { return name + "(" + Game::text(s) + ")"; })
      .def("__getstate__", [](const State& s) { return Game::bits(s); })
      .def("__setstate__", [](State& s, const std::array<std::uint64_t, 2>& bits) { new (&s) State(checked_state<Game>(bits)); });
}

}  // namespace zerofleet
