// A tensor in memory: shape, format and layout over a lease.
#pragma once
#include <array>

#include "engine/tensor/format.hpp"
#include "engine/tensor/layout.hpp"
#include "engine/tensor/lease.hpp"

namespace vitro {

struct View {
  Lease memory;
  Bytes offset = 0;
  std::array<std::uint32_t, 3> shape{};  // leading dimensions first; unused ones are 0
  Format format = Format::f32;
  Layout layout = Layout::rows;
  std::uint16_t slot = 0;  // in a GraphSpec: n > 0 is replaced at launch by Bindings::views[n - 1]

  std::byte* data() const { return memory.data() == nullptr ? nullptr : memory.data() + offset; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }
};

}  // namespace vitro
