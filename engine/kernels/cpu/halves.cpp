#include "engine/kernels/cpu/halves.hpp"

#include <algorithm>
#include <utility>

#include "engine/ops/operands.hpp"
#include "engine/ops/variants.hpp"

namespace vitro::cpu {
namespace {

const ops::Arity& arity_of(const KernelCall& call) {
  return *std::visit([](const auto& op) { return &std::decay_t<decltype(op)>::kArity; }, call.op);
}

bool is_half(const KernelCall& call, std::size_t i) { return (arity_of(call).f16_in >> i & 1) != 0 && call.in[i].format == Format::f16; }
bool out_is_half(const KernelCall& call) { return arity_of(call).f16_out && call.out[0].format == Format::f16; }

bool all_half(const KernelCall& call) {
  return call.in[0].format == Format::f16 && call.in[1].format == Format::f16 && call.out[0].format == Format::f16;
}

bool is_relu_product(const KernelCall& call) {
  return call.is<ops::Glu>() && call.get<ops::Glu>().activation == Activation::relu && !call.get<ops::Glu>().report_active &&
         all_half(call);
}

bool taken_as_they_are(const KernelCall& call) {
  if (call.is<ops::Attention>()) return !variant::attends_in_fp16(call.variant);
  if (call.is<ops::AttentionScores, ops::AttentionWeights, ops::AttentionValues>()) return true;
  return call.is<ops::Gather, ops::Move>() || (call.is<ops::Add>() && all_half(call));
}

// An input that the kernel reads in float16 though its output is float32.
bool read_as_it_is(const KernelCall& call, std::size_t i) {
  if (call.is<ops::Matmul>() && call.variant == variant::kHalfSums) return i == 1;
  return call.is<ops::Matmul>() && i == 1 && call.in[0].format == Format::f16 && call.rows == nullptr &&
         (call.variant == variant::kFloat || call.variant == variant::kA16);
}

// An activation operand as a matrix: heads are folded.
struct Matrix {
  std::size_t rows, width;
};

Matrix matrix_of(const KernelCall& call, const View& v) {
  const std::size_t n = elements(v), width = call.is<ops::Reduce>() || v.shape[1] == 0 ? columns(v) : n / v.shape[0];
  return {n / width, width};
}

// Columns that the call touches of an operand whose columns its slice cuts; all of another one.
Range touched(const KernelCall& call, const View& v, std::size_t width, bool out) {
  const auto all = static_cast<std::uint32_t>(width);
  const bool by_heads = call.is<ops::Rope, ops::RmsNorm>() && v.shape[2] != 0;
  if (by_heads) {
    const Range heads = sliced_heads(call, v);
    return {heads.first * v.shape[2], heads.count * v.shape[2]};
  }
  if (call.is<ops::Attention>()) {  // sliced by heads of the pool, each with its share of the queries
    const std::uint32_t pool = call.in[1].shape[0], each = all / pool;
    const Range heads = sliced(call, pool);
    return {heads.first * each, heads.count * each};
  }
  const bool cut = call.is<ops::Add, ops::Glu, ops::Select, ops::Reduce, ops::ExpertSum>() ||
                   (out && call.is<ops::Matmul, ops::AddProduct>()) ||
                   (call.is<ops::AddGated>() && &v != &call.in[ops::AddGated::kGateInput]);
  return cut ? sliced(call, all) : Range{0, all};
}

// Calls f(columns) for what the call writes of each row of its output.
template <class F>
void for_each_written(const KernelCall& call, std::size_t width, F f) {
  if (call.is<ops::Matmul, ops::AddProduct, ops::Glu>()) return for_each_run(call, static_cast<std::uint32_t>(width), f);
  f(touched(call, call.out[0], width, true));
}

void widen(const KernelSet& set, const KernelCall& call, const View& v, bool out, float* into) {
  const Matrix m = matrix_of(call, v);
  const Range part = touched(call, v, m.width, out);
  for (std::size_t r = 0; r < m.rows; ++r) {
    const std::size_t at = r * m.width + part.first;
    set.to_f32(v.as<Half>() + at, part.count, into + at);
  }
}

bool reads_its_output(const KernelCall& call) {
  if (call.is<ops::Accumulate>()) return call.get<ops::Accumulate>().continues;
  return call.is<ops::AddProduct>() && call.get<ops::AddProduct>().continues;
}

// max(gate, 0) * up is one operation: float16 instructions round it as it is stored.
void relu_product(const KernelSet& set, const KernelCall& call) {
  const std::uint32_t width = columns(call.in[0]);
  for (std::size_t r = 0; r < call.in[0].shape[0]; ++r) {
    for_each_run(call, width, [&](Range run) {
      const std::size_t at = r * width + run.first;
      set.relu_halves(call.in[0].as<Half>() + at, call.in[1].as<Half>() + at, run.count, call.out[0].as<Half>() + at);
    });
  }
}

Outcome compute_as_is(const KernelSet& set, const KernelCall& call) {
  return std::visit([&](const auto& op) { return outcome_of([&] { return compute(op, set, call); }); }, call.op);
}

}  // namespace

bool has_halves(const KernelCall& call) {
  const ops::Arity& arity = arity_of(call);
  if (arity.f16_in == 0 && !arity.f16_out) return false;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (is_half(call, i)) return true;
  }
  return out_is_half(call);
}

Outcome compute_halves(const KernelSet& set, const KernelCall& call) {
  if (taken_as_they_are(call)) return compute_as_is(set, call);
  if (is_relu_product(call)) {
    relu_product(set, call);
    return {};
  }
  std::size_t total = 0;
  const auto room_for = [&](const View& v) { return std::exchange(total, total + elements(v)); };
  std::size_t begins[4] = {}, out_begins = 0;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (is_half(call, i) && !read_as_it_is(call, i)) begins[i] = room_for(call.in[i]);
  }
  if (out_is_half(call)) out_begins = room_for(call.out[0]);

  thread_local const auto block = std::make_shared<Block>();
  float* floats = scratch<float>(Scratch::halves, total);
  block->data = reinterpret_cast<std::byte*>(floats);
  block->size = total * sizeof(float);
  const Lease lease(block);
  KernelCall wide = call;
  const auto replace = [&](View& v, std::size_t begin) {
    v.memory = lease;
    v.offset = begin * sizeof(float);
    v.format = Format::f32;
  };
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!is_half(call, i) || read_as_it_is(call, i)) continue;
    widen(set, call, call.in[i], false, floats + begins[i]);
    replace(wide.in[i], begins[i]);
  }
  if (!out_is_half(call)) return compute_as_is(set, wide);
  float* results = floats + out_begins;
  if (reads_its_output(call)) widen(set, call, call.out[0], true, results);
  replace(wide.out[0], out_begins);
  Outcome outcome = compute_as_is(set, wide);
  const Matrix m = matrix_of(call, call.out[0]);
  for_each_written(call, m.width, [&](Range part) {
    for (std::size_t r = 0; r < m.rows; ++r) {
      const std::size_t at = r * m.width + part.first;
      set.to_f16(results + at, part.count, call.out[0].as<Half>() + at);
    }
  });
  return outcome;
}

}  // namespace vitro::cpu
