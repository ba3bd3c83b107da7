// Adding up the work of a call from its shapes alone. An operand byte counts once per call, except that attention reads the visible K and V
// once per batch row and head of the pool, and a gathered row counts every time it is named.
#pragma once
#include "engine/ops/operands.hpp"
#include "engine/ops/work.hpp"

namespace vitro::ops {

// Runs in which the bytes of the rows of its first operand stand that a call names.
std::uint32_t row_runs(const KernelCall& call);

class Counter {
 public:
  explicit Counter(const KernelCall& call) : call(call) {}

  const View& in(std::size_t i) const { return call.in[i]; }
  const View& out() const { return call.out[0]; }
  void read(const View& v, Bytes bytes) { counts.read[static_cast<std::size_t>(v.memory.placement())] += bytes; }
  void write(const View& v, Bytes bytes) { counts.written[static_cast<std::size_t>(v.memory.placement())] += bytes; }
  void read_all(const View& v) { read(v, view_bytes(v)); }
  // n elements of activations, float32 or float16.
  void read_floats(const View& v, std::uint64_t n) { read(v, n * v.format.block_bytes()); }
  void write_floats(std::uint64_t n) { write(out(), n * out().format.block_bytes()); }

  // Rows of [0, n) that the call computes.
  std::uint64_t chosen_rows(std::uint32_t n) const { return call.rows ? call.rows->size() : sliced(call, n).count; }
  // The weight rows that the call names, read once, and their runs. Returns their number.
  std::uint64_t weight_rows();

  const KernelCall& call;
  WorkCounts counts;
};

}  // namespace vitro::ops
