#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/kernels/cpu/int8_matmul.hpp"
#include "engine/kernels/cpu/weight_rows.hpp"
#include "engine/kernels/hexagon/hmx_matmul.hpp"
#include "engine/ops/variants.hpp"

namespace vitro::cpu {
namespace {

// The activations of kA16, as floats.
const float* rounded_to_halves(const View& x) {
  const std::size_t n = elements(x);
  auto* rounded = scratch<float>(Scratch::b, n);
  std::transform(x.as<float>(), x.as<float>() + n, rounded, [](float value) { return half_to_float(float_to_half(value)); });
  return rounded;
}

// Of W in f16, rows in order or one by one.
void matmul_half_sums(const KernelSet& set, const KernelCall& call, MatmulShape shape) {
  const View& x = call.in[1];
  const Half* halves = x.format == Format::f16 ? x.as<Half>() : nullptr;
  if (halves == nullptr) {
    auto* rounded = scratch<Half>(Scratch::b, elements(x));
    set.to_f16(x.as<float>(), elements(x), rounded);
    halves = rounded;
  }
  const Rows<Half> batch{halves, shape.batch, shape.k, shape.k};
  float* y = call.out[0].as<float>();
  if (call.rows == nullptr) {
    const Range run = sliced(call, shape.n);
    return set.half_sums({call.in[0].as<Half>() + std::size_t{run.first} * shape.k, run.count, shape.k, shape.k}, batch, y + run.first,
                         shape.n);
  }
  for_each_row_group(
      set, call, true, [](std::uint32_t) { return true; },
      [&](const RowGroup& group) {
        const PlacedRows<Half> rows = group.rows<Half>(shape.k);
        for (std::size_t i = 0; i < rows.count; ++i) set.half_sums({rows.data[i], 1, shape.k, shape.k}, batch, y + group.ids[i], shape.n);
      });
}

// Each group of weight rows meets the whole batch before the next ones come.
void matmul_float(const KernelSet& set, const KernelCall& call, MatmulShape shape) {
  const View& w = call.in[0];
  if (call.in[1].format == Format::f16) {  // of W in f16, rows in order
    const Range run = sliced(call, shape.n);
    const Rows<Half> rows{w.as<Half>() + std::size_t{run.first} * shape.k, run.count, shape.k, shape.k};
    return set.dots_halves(rows, {call.in[1].as<Half>(), shape.batch, shape.k, shape.k}, call.out[0].as<float>() + run.first, shape.n);
  }
  const float* given = call.variant == variant::kA16 ? rounded_to_halves(call.in[1]) : call.in[1].as<float>();
  const Rows<float> x{given, shape.batch, shape.k, shape.k};
  float* y = call.out[0].as<float>();
  const bool as_stored = w.format == Format::f16 || w.format == Format::f32;
  if (as_stored && call.rows == nullptr) {
    const Range run = sliced(call, shape.n);
    const std::size_t first = std::size_t{run.first} * shape.k;
    if (w.format == Format::f16) return set.dots_f16({w.as<Half>() + first, run.count, shape.k, shape.k}, x, y + run.first, shape.n);
    return set.dots_f32({w.as<float>() + first, run.count, shape.k, shape.k}, x, y + run.first, shape.n);
  }
  for_each_row_group(
      set, call, as_stored, [](std::uint32_t) { return true; },
      [&](const RowGroup& group) {
        if (w.format == Format::f16) return set.placed_dots_f16(group.rows<Half>(shape.k), group.ids, x, y, shape.n);
        set.placed_dots_f32(group.rows<float>(shape.k), group.ids, x, y, shape.n);
      });
}

}  // namespace

void compute(const ops::Matmul&, const KernelSet& set, const KernelCall& call) {
  const MatmulShape shape{call.in[0].shape[0], call.in[0].shape[1], call.in[1].shape[0]};
  if (call.variant == variant::kHalfSums) {
    matmul_half_sums(set, call, shape);
  } else if (call.variant == variant::kHmx) {
    hexagon::hmx_matmul(set, call);
  } else if (call.variant == variant::kInt16Tables) {
    hexagon::int16_tables_matmul(call);
  } else if (call.variant == variant::kInt8Rows) {
    hexagon::int8_rows_matmul(call);
  } else {
    call.variant == variant::kFloat || call.variant == variant::kA16 ? matmul_float(set, call, shape) : matmul_int8(set, call, shape);
  }
  if (bias_of(call) == nullptr) return;
  const float* bias = bias_of(call)->as<float>();
  for_each_run(call, shape.n, [&](Range run) {
    for (std::size_t b = 0; b < shape.batch; ++b) {
      float* y = call.out[0].as<float>() + b * shape.n;
      for (std::uint32_t n = run.first; n < run.end(); ++n) y[n] += bias[n];
    }
  });
}

// The products of a group of weight rows with the whole batch go to scratch, and from there into y.
void compute(const ops::AddProduct& op, const KernelSet& set, const KernelCall& call) {
  const View& w = call.in[0];
  const std::size_t n = w.shape[0], k = w.shape[1], batch = call.in[1].shape[0];
  const Rows<float> x{call.in[1].as<float>(), batch, k, k};
  float* y = call.out[0].as<float>();
  float* products = scratch<float>(Scratch::b, batch * RowGroup::kMost);
  std::uint32_t in_order[RowGroup::kMost];
  std::iota(std::begin(in_order), std::end(in_order), 0u);
  const bool as_stored = w.format == Format::f16 || w.format == Format::f32;
  for_each_row_group(
      set, call, as_stored, [](std::uint32_t) { return true; },
      [&](const RowGroup& group) {
        if (w.format == Format::f16) {
          set.placed_dots_f16(group.rows<Half>(k), in_order, x, products, RowGroup::kMost);
        } else {
          set.placed_dots_f32(group.rows<float>(k), in_order, x, products, RowGroup::kMost);
        }
        for (std::size_t b = 0; b < batch; ++b) {
          for (std::size_t i = 0; i < group.count; ++i) {
            float& sum = y[b * n + group.ids[i]];
            const float product = products[b * RowGroup::kMost + i];
            sum = op.continues ? std::fma(op.scale, product, sum) : op.scale * product;
          }
        }
      });
}

}  // namespace vitro::cpu
