// Operands of benchmarks: more weights than fit in a cache, on huge pages.
#pragma once
#include "engine/ops/operands.hpp"

namespace vitro {

// Anonymous memory on huge pages where the system gives them: for the read loops and the kernels alike.
Lease huge_lease(Bytes size);

// Copies of one matrix, one after the other.
struct BenchWeights {
  View matrix;  // the first copy
  std::size_t copies = 0;
  Bytes bytes = 0;  // of one copy
  View copy(std::size_t i) const;
};
// As many copies as make up `total`. Requires: rows a multiple of kTileRows.
BenchWeights make_bench_weights(Format format, Layout layout, std::uint32_t rows, std::uint32_t columns, Bytes total);

View float_view(std::uint32_t rows, std::uint32_t columns);

}  // namespace vitro
