#include <algorithm>

#include "engine/kernels/cpu/weight_rows.hpp"
#include "engine/ops/variants.hpp"

namespace vitro::cpu {
namespace {

void add_weighted(const KernelSet& set, Format stored, const RowGroup& group, std::size_t width, const float* p, float* y) {
  if (stored == Format::f16) return set.placed_weighted_f16(group.rows<Half>(width), p, y);
  if (stored == Format::q4_0) return set.placed_weighted_q4_0(group.rows<std::byte>(width), p, y);
  if (stored == Format::q4_nibbles) return set.placed_weighted_nibbles(group.rows<std::byte>(width), group.scales, p, y);
  set.placed_weighted_f32(group.rows<float>(width), p, y);
}

// Neurons that rest in a row of the batch are not read for it; the others meet it in groups, over the whole call.
void accumulate_int8(const KernelSet& set, const KernelCall& call) {
  const View &w = call.in[0], &h = call.in[1];
  const View* scales = scales_of(call);
  const std::size_t neurons = w.shape[0], width = w.shape[1], batch = h.shape[0];
  const float* weights = h.as<float>();
  float* y = call.out[0].as<float>();
  auto* data = scratch<const std::byte*>(Scratch::a, neurons);
  auto* of_blocks = scratch<const Half*>(Scratch::b, neurons);
  auto* p = scratch<float>(Scratch::c, neurons);
  for (std::size_t b = 0; b < batch; ++b) {
    std::size_t count = 0;
    for_each_row(call, [&](std::uint32_t row, Bytes at) {
      p[count] = weights[b * neurons + row];
      data[count] = w.data() + at;
      if (scales != nullptr) of_blocks[count] = scales->as<Half>() + row * (width / kBlock);
      count += p[count] != 0;
    });
    const PlacedRows<std::byte> rows{data, count, width};
    if (scales != nullptr) {
      set.placed_coefficients_nibbles(rows, of_blocks, p, y + b * width);
    } else {
      set.placed_coefficients_q4_0(rows, p, y + b * width);
    }
  }
}

}  // namespace

// A group of rows stays in the second-level cache while the batch passes; y of one batch row stays in the first.
void compute(const ops::Accumulate& op, const KernelSet& set, const KernelCall& call) {
  const View &w = call.in[0], &h = call.in[1];
  const std::size_t neurons = w.shape[0], width = w.shape[1], batch = h.shape[0];
  const float* weights = h.as<float>();
  float* y = call.out[0].as<float>();
  if (!op.continues) std::fill_n(y, batch * width, 0.0f);
  if (variant::adds_in_int8(call.variant, w.format)) return accumulate_int8(set, call);
  const auto fires = [&](std::uint32_t neuron) {
    for (std::size_t b = 0; b < batch; ++b) {
      if (weights[b * neurons + neuron] != 0) return true;
    }
    return false;
  };
  const bool as_stored = w.format == Format::f32 || w.format == Format::f16 || w.format == Format::q4_0 || w.format == Format::q4_nibbles;
  for_each_row_group(set, call, as_stored, fires, [&](const RowGroup& group) {
    for (std::size_t b = 0; b < batch; ++b) {
      RowGroup firing;
      float p[RowGroup::kMost];
      for (std::size_t i = 0; i < group.count; ++i) {
        p[firing.count] = weights[b * neurons + group.ids[i]];
        firing.data[firing.count] = group.data[i];
        firing.scales[firing.count] = group.scales[i];
        firing.count += p[firing.count] != 0;
      }
      add_weighted(set, as_stored ? w.format : Format::f32, firing, width, p, y + b * width);
    }
  });
}

}  // namespace vitro::cpu
