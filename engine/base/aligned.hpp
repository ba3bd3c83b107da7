// Memory that SIMD loads and direct I/O may use as it is.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

#include "engine/base/units.hpp"

namespace vitro {

// Zero-initialised array aligned to `alignment` bytes. T must be trivial.
template <class T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(std::size_t count, std::size_t alignment = 64) : count_(count) {
    if (count == 0) return;
    void* memory = std::aligned_alloc(alignment, round_up(count * sizeof(T), alignment));
    if (memory == nullptr) throw std::bad_alloc();
    data_.reset(static_cast<T*>(memory));
    std::uninitialized_value_construct_n(data_.get(), count);
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) { return data_.get()[i]; }
  const T& operator[](std::size_t i) const { return data_.get()[i]; }
  std::span<T> span() { return {data_.get(), count_}; }
  std::span<const T> span() const { return {data_.get(), count_}; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t count_ = 0;
};

}  // namespace vitro
