// Float32 copies of activations in float16, for accelerators whose kernels read and write float32: what a call reads is widened, and what
// it stores is rounded once (docs/design/float16.md). The copies lie beside the accelerator, in nobody's budget.
#pragma once
#include "engine/ops/operands.hpp"

namespace vitro {

// -> `v` where it is float32, or a float32 copy of it.
View in_f32(const View& v);

// -> `v` where it is float32, or room for results of its shape, which store_f32() then rounds.
View out_in_f32(const View& v);

// Stores `count` results from element `first` of `out` on, rounded to nearest where `out` is float16.
void store_f32(const View& out, std::size_t first, const float* from, std::size_t count);

}  // namespace vitro
