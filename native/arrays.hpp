// numpy arrays that Python owns.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
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

// Room for `length` entries, and for `spare` more that the array does not show.
template <class T>
Array1<T> new_array(std::size_t length, std::size_t spare = 1) {
  auto* data = new T[length + spare];
  return Array1<T>(data, {length}, owner_of(data));
}

template <class T>
Array2<T> new_matrix(std::size_t rows, std::size_t columns) {
  auto* data = new T[rows * columns + 1];
  return Array2<T>(data, {rows, columns}, owner_of(data));
}

template <class T>
Array1<T> copy_array(const std::vector<T>& values) {
  Array1<T> out = new_array<T>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) out.data()[i] = values[i];
  return out;
}

// Memory that grows and that arrays may show; an array keeps what it shows alive.
template <class T>
class Shown {
 public:
  T* data() const { return data_; }

  // Make room for `length` entries; true if the memory is new, and what it held is not in it.
  bool reserve(std::size_t length) {
    if (length <= capacity_) return false;
    const std::size_t capacity = std::max(length, 2 * capacity_);
    T* fresh = new T[capacity];
    owner_ = owner_of(fresh);
    data_ = fresh;
    capacity_ = capacity;
    return true;
  }

  Array1<T> array(std::size_t length) const { return Array1<T>(data_, {length}, owner_); }
  Array2<T> array(std::size_t rows, std::size_t columns) const { return Array2<T>(data_, {rows, columns}, owner_); }

 private:
  nb::object owner_;
  T* data_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace zerofleet
