#include "engine/ops/counter.hpp"

namespace vitro::ops {
namespace {

// Runs of numbers that follow one another by `step`. Calls name thousands of rows: no branches.
std::uint32_t runs_of(const std::vector<std::uint32_t>& numbers, std::uint32_t step) {
  std::uint32_t runs = numbers.empty() ? 0 : 1;
  for (std::size_t i = 1; i < numbers.size(); ++i) runs += numbers[i] != numbers[i - 1] + step ? 1 : 0;
  return runs;
}

}  // namespace

std::uint32_t row_runs(const KernelCall& call) {
  const View& w = call.in[0];
  if (call.row_offsets != nullptr) {
    const Bytes stride = row_bytes(w.format, w.shape[1], w.layout);
    // Rows that do not end with a unit are never followed by another at once.
    if (stride % kRowOffsetUnit != 0) return static_cast<std::uint32_t>(call.row_offsets->size());
    return runs_of(*call.row_offsets, static_cast<std::uint32_t>(stride / kRowOffsetUnit));
  }
  return call.rows ? runs_of(*call.rows, 1) : sliced(call, w.shape[0]).count > 0 ? 1 : 0;
}

std::uint64_t Counter::weight_rows() {
  const View& w = in(0);
  const std::uint64_t rows = chosen_rows(w.shape[0]);
  counts.row_runs += row_runs(call);
  read(w, rows * row_bytes(w.format, w.shape[1], w.layout));
  if (const View* scales = scales_of(call)) read(*scales, rows * scale_row_bytes(w));
  return rows;
}

}  // namespace vitro::ops
