#include "engine/kernels/opencl/launch_plan.hpp"

#include <algorithm>
#include <bit>

namespace vitro::opencl {
namespace {

constexpr std::uint32_t kWaves = 4;      // of 64 work items on each compute unit, that hide each other's loads
constexpr std::uint32_t kWave = 64;      // work items of a group: what a wave of mobile GPUs has
constexpr std::uint32_t kMostParts = 4;  // of a row's 16 lanes, four each

std::uint32_t divide_up(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }

WeightPlan cut(std::uint32_t rows, std::uint32_t rows_of_piece, std::uint32_t height) {
  WeightPlan plan{{}, height};
  for (std::uint32_t first = 0; first < rows; first += rows_of_piece) plan.pieces.push_back({first, std::min(rows_of_piece, rows - first)});
  return plan;
}

// Of a group along the rows: a power of two, not beyond a wave, the device's limit, or the rows.
std::uint32_t group_size(std::uint32_t rows, std::uint32_t most) {
  return std::bit_floor(std::clamp(std::bit_ceil(rows), 1u, std::min(kWave, most)));
}

}  // namespace

Result<WeightPlan> plan_image(std::uint32_t rows, std::uint32_t lines, const Limits& limits) {
  if (limits.image_width == 0 || limits.image_height == 0) return Status{Code::unsupported_shape, "it has no images"};
  const std::uint32_t height = std::min(lines, limits.image_height), columns = divide_up(lines, height);
  const Bytes row_bytes = Bytes{columns} * height * kTexelBytes;
  const auto most = static_cast<std::uint32_t>(std::min<Bytes>({rows, limits.image_width / columns, limits.most_bytes / row_bytes}));
  if (most == 0) return Status{Code::unsupported_shape, "a row of weights exceeds its largest image"};
  return cut(rows, most, height);
}

Result<WeightPlan> plan_buffer(std::uint32_t rows, std::uint32_t lines, const Limits& limits) {
  const auto most = static_cast<std::uint32_t>(std::min<Bytes>(rows, limits.most_bytes / (Bytes{lines} * kTexelBytes)));
  if (most == 0) return Status{Code::unsupported_shape, "a row of weights exceeds its largest buffer"};
  return cut(rows, most, lines);
}

WorkSize decode_work(std::uint32_t rows, const Limits& limits) {
  const std::uint32_t wanted = limits.compute_units * kWaves * kWave;
  std::uint32_t parts = 1;
  while (parts < kMostParts && std::uint64_t{rows} * parts < wanted && 2 * parts <= limits.work_group) parts *= 2;
  const std::uint32_t local = group_size(rows, limits.work_group / parts);
  return {{divide_up(rows, local) * local, parts}, {local, parts}};
}

WorkSize prefill_work(std::uint32_t rows, std::uint32_t batch, const Limits& limits) {
  const std::uint32_t local = group_size(rows, limits.work_group);
  return {{divide_up(rows, local) * local, divide_up(batch, kTile)}, {local, 1}};
}

}  // namespace vitro::opencl
