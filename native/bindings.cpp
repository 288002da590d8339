// The Python face of native code: `zerofleet._native`.  Its stub is src/zerofleet/_native.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>

#include "bind_game.hpp"
#include "bind_pool.hpp"
#include "bind_uct.hpp"
#include "connect4.hpp"
#include "connect4_solver.hpp"
#include "errors.hpp"
#include "python_game.hpp"
#include "tictactoe.hpp"

namespace nb = nanobind;

namespace {

// Return [len(states)]: what `method` says of each position.
template <auto method>
zerofleet::Array1<std::int8_t> solve_all(zerofleet::Connect4Solver& solver,
                                         const std::vector<zerofleet::Connect4::State>& states) {
  auto out = zerofleet::new_array<std::int8_t>(states.size());
  const nb::gil_scoped_release released;
  for (std::size_t i = 0; i < states.size(); ++i) out.data()[i] = static_cast<std::int8_t>((solver.*method)(states[i]));
  return out;
}

using Offsets = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig>;

// Return [L]: for each row of a batch the same prior for each of its legal moves.
zerofleet::Array1<float> uniform_priors(const Offsets& offsets) {
  const std::int32_t* starts = offsets.data();
  const std::size_t rows = offsets.size() == 0 ? 0 : offsets.size() - 1;
  bool ascending = offsets.size() == 0 || starts[0] == 0;
  for (std::size_t i = 0; i < rows; ++i) ascending &= starts[i] <= starts[i + 1];
  if (!ascending) zerofleet::usage_error("legal_offsets must start at 0 and not descend");
  constexpr std::int32_t kWide = 8;  // short rows are written this wide; what lies beyond them is written next
  const std::size_t length = rows == 0 ? 0 : static_cast<std::size_t>(starts[rows]);
  auto out = zerofleet::new_array<float>(length, kWide);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::int32_t count = starts[i + 1] - starts[i];
    float* row = out.data() + starts[i];
    std::fill(row, row + kWide, 1.0F / static_cast<float>(count));
    if (count > kWide) std::fill(row + kWide, row + count, row[0]);
  }
  return out;
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "Rules of the built-in games and the search tree, in C++.";
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const zerofleet::Error& error) {
      const nb::object type = nb::module_::import_("zerofleet.errors").attr(error.type);
      PyErr_SetString(type.ptr(), error.what());
    }
  });
  zerofleet::bind_game<zerofleet::Connect4>(m, "Connect4State");
  zerofleet::bind_game<zerofleet::TicTacToe>(m, "TicTacToeState");
  m.def("uniform_priors", &uniform_priors, nb::arg("legal_offsets"));
  zerofleet::bind_uct<zerofleet::Connect4>(m);
  zerofleet::bind_uct<zerofleet::TicTacToe>(m);
  nb::class_<zerofleet::Connect4Solver>(m, "Connect4Solver", nb::is_final())
      .def(nb::init<int>(), nb::arg("table_bits"))
      .def_prop_ro("num_nodes", &zerofleet::Connect4Solver::num_nodes)
      .def("at_least", &zerofleet::Connect4Solver::at_least, nb::arg("state"), nb::arg("score"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("score_within", &zerofleet::Connect4Solver::score_within, nb::arg("state"), nb::arg("plies"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("scores", &solve_all<&zerofleet::Connect4Solver::score>, nb::arg("states"))
      .def("signs", &solve_all<&zerofleet::Connect4Solver::sign>, nb::arg("states"));
  PyType_Slot no_slots[] = {{0, nullptr}};
  zerofleet::bind_pool<zerofleet::NativePool<zerofleet::Connect4>>(m, "Connect4Pool", "Trees of Connect Four.", no_slots);
  zerofleet::bind_pool<zerofleet::NativePool<zerofleet::TicTacToe>>(m, "TicTacToePool", "Trees of tic-tac-toe.", no_slots);
  zerofleet::bind_pool<zerofleet::PythonPool, nb::object>(m, "PythonPool", "Trees of a game written in Python.",
                                                         zerofleet::kPythonPoolSlots);
}
