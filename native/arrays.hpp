// numpy arrays that Python owns.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace zerofleet {

namespace nb = nanobind;

template <class T>
using Array1 = nb::ndarray<nb::numpy, T, nb::ndim<1>, nb::c_contig>;
template <class T>
using Array2 = nb::ndarray<nb::numpy, T, nb::ndim<2>, nb::c_contig>;

template <class T>
nb::capsule owner_of(T* data) {
  return nb::capsule(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
}

template <class T>
Array1<T> new_array(std::size_t length) {
  auto* data = new T[length + 1];
  return Array1<T>(data, {length}, owner_of(data));
}

template <class T>
Array2<T> new_array(std::size_t rows, std::size_t columns) {
  auto* data = new T[rows * columns + 1];
  return Array2<T>(data, {rows, columns}, owner_of(data));
}

template <class T>
Array1<T> copy_array(const std::vector<T>& values) {
  Array1<T> out = new_array<T>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) out.data()[i] = values[i];
  return out;
}

}  // namespace zerofleet
