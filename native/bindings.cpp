// The Python face of native code: `zerofleet._native`.  Its stub is src/zerofleet/_native.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind_game.hpp"
#include "bind_pool.hpp"
#include "bind_uct.hpp"
#include "connect4.hpp"
#include "errors.hpp"
#include "python_game.hpp"
#include "tictactoe.hpp"

namespace nb = nanobind;

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
  zerofleet::bind_uct<zerofleet::Connect4>(m);
  zerofleet::bind_uct<zerofleet::TicTacToe>(m);
  zerofleet::bind_pool<zerofleet::NativePool<zerofleet::Connect4>>(m, "Connect4Pool", "Trees of Connect Four.");
  zerofleet::bind_pool<zerofleet::NativePool<zerofleet::TicTacToe>>(m, "TicTacToePool", "Trees of tic-tac-toe.");
  zerofleet::bind_pool<zerofleet::PythonPool, nb::object>(m, "PythonPool", "Trees of a game written in Python.");
}
