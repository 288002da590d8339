// UCT and random games of a built-in game, as functions overloaded by the type of its states.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <vector>

#include "arrays.hpp"
#include "uct.hpp"

namespace zerofleet {

template <class Game>
Array1<std::int8_t> rollout_outcomes(const std::vector<typename Game::State>& states, std::uint64_t seed) {
  Random random(seed);
  auto out = new_array<std::int8_t>(states.size());
  for (std::size_t i = 0; i < states.size(); ++i) out.data()[i] = static_cast<std::int8_t>(rollout<Game>(states[i], random));
  return out;
}

template <class Game>
nb::tuple uct_search(const typename Game::State& state, std::int64_t num_simulations, double c, std::uint64_t seed) {
  UctResult result;
  {
    const nb::gil_scoped_release released;
    result = Uct<Game>(c, seed).search(state, num_simulations);
  }
  return nb::make_tuple(copy_array(result.visits), copy_array(result.means));
}

template <class Game>
void bind_uct(nb::module_& m) {
  m.def("rollouts", &rollout_outcomes<Game>, nb::arg("states"), nb::arg("seed"));
  m.def("uct_search", &uct_search<Game>, nb::arg("state"), nb::arg("num_simulations"), nb::arg("c"), nb::arg("seed"));
}

}  // namespace zerofleet
