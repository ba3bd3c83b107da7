#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/kernels/cpu/ops.hpp"
#include "engine/ops/operands.hpp"

namespace vitro::cpu {
namespace {

std::size_t index_below(const KernelCall& call, const View& indices, std::size_t i, std::size_t bound) {
  const std::uint32_t index = indices.as<std::uint32_t>()[i];
  if (index >= bound) {
    throw RunError(std::string(to_string(call.op)) + ": index " + std::to_string(index) + " at row " + std::to_string(i) +
                   " is outside [0, " + std::to_string(bound) + ")");
  }
  return index;
}

// act(scores[i]): act(g) * 1. Valid until the next use of Scratch::a.
const float* activated(const KernelSet& set, Activation act, const float* scores, std::size_t n) {
  float* values = scratch<float>(Scratch::a, 2 * n);
  std::fill(values + n, values + 2 * n, 1.0f);
  set.activate(act, scores, values + n, n, values);
  return values;
}

float inverse_rms(const KernelSet& set, const float* x, std::size_t width, float eps) {
  float squares = 0;
  set.dots_f32({x, 1, width, width}, {x, 1, width, width}, &squares, 1);
  return 1.0f / std::sqrt(squares / static_cast<float>(width) + eps);
}

}  // namespace

void compute(const ops::Embed&, const KernelSet& set, const KernelCall& call) {
  const View &table = call.in[0], &tokens = call.in[1], &out = call.out[0];
  const std::size_t width = table.shape[1];
  const Bytes stride = row_bytes(table.format, width);
  for (std::size_t b = 0; b < out.shape[0]; ++b) {
    const std::byte* row = table.data() + index_below(call, tokens, b, table.shape[0]) * stride;
    float* y = out.as<float>() + b * width;
    if (table.format == Format::f16) {
      set.to_f32(reinterpret_cast<const Half*>(row), width, y);
    } else {
      set.dequantise(table.format, row, y, width);
    }
  }
}

void compute(const ops::RmsNorm& op, const KernelSet& set, const KernelCall& call) {
  const View& in = call.in[0];
  const std::size_t width = columns(in), heads = in.shape[2] == 0 ? 1 : in.shape[1];
  const Range slice = sliced_heads(call, in);
  for (std::size_t r = 0; r < in.shape[0]; ++r) {
    for (std::size_t h = slice.first; h < slice.end(); ++h) {
      const std::size_t at = (r * heads + h) * width;
      const float* x = in.as<float>() + at;
      set.scale(x, inverse_rms(set, x, width, op.eps), call.in[1].as<float>(), width, call.out[0].as<float>() + at);
    }
  }
}

void compute(const ops::InverseRms& op, const KernelSet& set, const KernelCall& call) {
  const std::size_t width = columns(call.in[0]);
  for (std::size_t r = 0; r < call.in[0].shape[0]; ++r) {
    call.out[0].as<float>()[r] = inverse_rms(set, call.in[0].as<float>() + r * width, width, op.eps);
  }
}

void compute(const ops::ScaleRows&, const KernelSet& set, const KernelCall& call) {
  const std::size_t width = columns(call.in[0]);
  for (std::size_t r = 0; r < call.in[0].shape[0]; ++r) {
    set.scale(call.in[0].as<float>() + r * width, call.in[1].as<float>()[r], call.in[2].as<float>(), width,
              call.out[0].as<float>() + r * width);
  }
}

void compute(const ops::LayerNorm& op, const KernelSet& set, const KernelCall& call) {
  const std::size_t width = columns(call.in[0]);
  const float* bias = call.in[2].as<float>();
  float* centred = scratch<float>(Scratch::a, 2 * width);
  float* ones = centred + width;
  std::fill(ones, ones + width, 1.0f);
  for (std::size_t r = 0; r < call.in[0].shape[0]; ++r) {
    const float* x = call.in[0].as<float>() + r * width;
    float* y = call.out[0].as<float>() + r * width;
    float mean = 0;
    set.dots_f32({x, 1, width, width}, {ones, 1, width, width}, &mean, 1);
    mean /= static_cast<float>(width);
    for (std::size_t i = 0; i < width; ++i) centred[i] = x[i] - mean;
    set.scale(centred, inverse_rms(set, centred, width, op.eps), call.in[1].as<float>(), width, y);
    for (std::size_t i = 0; i < width; ++i) y[i] += bias[i];
  }
}

Outcome compute(const ops::Glu& op, const KernelSet& set, const KernelCall& call) {
  const std::size_t rows = call.in[0].shape[0];
  const std::uint32_t width = columns(call.in[0]);
  ActiveSet active;
  for (std::size_t r = 0; r < rows; ++r) {
    const float* gate = call.in[0].as<float>() + r * width;
    const float* up = call.in[1].as<float>() + r * width;
    float* h = call.out[0].as<float>() + r * width;
    std::vector<std::uint32_t> ids;
    for_each_run(call, width, [&](Range run) {
      if (op.report_active) {  // before h may overwrite the gate
        const float* value = activated(set, op.activation, gate + run.first, run.count);
        for (std::uint32_t i = 0; i < run.count; ++i) {
          if (value[i] != 0) ids.push_back(run.first + i);
        }
      }
      set.activate(op.activation, gate + run.first, up + run.first, run.count, h + run.first);
    });
    if (op.report_active) active.rows.push_back(std::make_shared<const std::vector<std::uint32_t>>(std::move(ids)));
  }
  if (!op.report_active) return {};
  return active;
}

Outcome compute(const ops::Select& op, const KernelSet& set, const KernelCall& call) {
  const std::uint32_t width = columns(call.in[0]);
  ActiveSet active;
  for (std::size_t r = 0; r < call.in[0].shape[0]; ++r) {
    std::vector<std::uint32_t> ids;
    for_each_run(call, width, [&](Range run) {
      const float* score = call.in[0].as<float>() + r * width + run.first;
      if (op.activation) score = activated(set, *op.activation, score, run.count);
      for (std::uint32_t i = 0; i < run.count; ++i) {
        if ((op.activation ? std::abs(score[i]) : score[i]) > op.threshold) ids.push_back(run.first + i);
      }
    });
    active.rows.push_back(std::make_shared<const std::vector<std::uint32_t>>(std::move(ids)));
  }
  return active;
}

void compute(const ops::Add&, const KernelSet& set, const KernelCall& call) {
  const std::uint32_t width = columns(call.in[0]);
  const Range slice = sliced(call, width);
  if (call.out[0].format == Format::f16) {
    for (std::size_t r = 0; r < call.in[0].shape[0]; ++r) {
      const std::size_t at = r * width + slice.first;
      set.add_halves(call.in[0].as<Half>() + at, call.in[1].as<Half>() + at, slice.count, call.out[0].as<Half>() + at);
    }
    return;
  }
  for (std::size_t r = 0; r < call.in[0].shape[0]; ++r) {
    const float *a = call.in[0].as<float>() + r * width, *b = call.in[1].as<float>() + r * width;
    float* y = call.out[0].as<float>() + r * width;
    for (std::uint32_t n = slice.first; n < slice.end(); ++n) y[n] = a[n] + b[n];
  }
}

// A sigmoid is silu(g) / g, but for g = 0: silu of the set keeps the bits equal on all sets, and exp does not overflow in it.
void compute(const ops::AddGated&, const KernelSet& set, const KernelCall& call) {
  const std::uint32_t width = columns(call.in[0]);
  const std::size_t inputs = columns(call.in[2]);
  const Range slice = sliced(call, width);
  for (std::size_t r = 0; r < call.in[0].shape[0]; ++r) {
    float logit = 0;
    set.dots_f32({call.in[3].as<float>(), 1, inputs, inputs}, {call.in[2].as<float>() + r * inputs, 1, inputs, inputs}, &logit, 1);
    const float gate = logit == 0 ? 0.5f : *activated(set, Activation::silu, &logit, 1) / logit;
    const float *a = call.in[0].as<float>() + r * width, *b = call.in[1].as<float>() + r * width;
    float* y = call.out[0].as<float>() + r * width;
    for (std::uint32_t n = slice.first; n < slice.end(); ++n) y[n] = std::fma(gate, b[n], a[n]);
  }
}

namespace {

// All indices are looked at before an element is written, without a branch: the one that is wrong is looked for where there is one.
template <class T>
void gather_columns(const KernelCall& call) {
  const View &x = call.in[0], &out = call.out[0];
  const std::size_t from = x.shape[1], to = out.shape[1];
  const auto* const ids = call.in[1].as<std::uint32_t>();
  std::uint32_t largest = 0;
  for (std::size_t s = 0; s < to; ++s) largest = std::max(largest, ids[s]);
  for (std::size_t s = 0; largest >= from && s < to; ++s) index_below(call, call.in[1], s, from);
  for (std::size_t r = 0; r < out.shape[0]; ++r) {
    const T* row = x.as<T>() + r * from;
    T* y = out.as<T>() + r * to;
    for (std::size_t s = 0; s < to; ++s) y[s] = row[ids[s]];
  }
}

}  // namespace

void compute(const ops::Gather& op, const KernelSet&, const KernelCall& call) {
  const View &x = call.in[0], &out = call.out[0];
  if (op.columns) return x.format == Format::f16 ? gather_columns<Half>(call) : gather_columns<float>(call);
  const Bytes row = row_bytes(x.format, columns(x));
  for (std::size_t s = 0; s < out.shape[0]; ++s) {
    std::memcpy(out.data() + s * row, x.data() + index_below(call, call.in[1], s, x.shape[0]) * row, row);
  }
}

void compute(const ops::ExpertSum&, const KernelSet& set, const KernelCall& call) {
  const View &partials = call.in[0], &sources = call.in[1], &out = call.out[0];
  const std::uint32_t width = columns(partials), chosen = columns(sources);
  const Range slice = sliced(call, width);
  for (std::size_t b = 0; b < out.shape[0]; ++b) {
    float* y = out.as<float>() + b * width + slice.first;
    std::fill(y, y + slice.count, 0.0f);
    for (std::size_t j = 0; j < chosen; ++j) {
      const std::size_t source = index_below(call, sources, b * chosen + j, partials.shape[0]);
      const float* weight = call.in[2].as<float>() + b * chosen + j;
      set.weighted_f32({partials.as<float>() + source * width + slice.first, 1, slice.count, width}, weight, 1, 1, y);
    }
  }
}

void compute(const ops::Reduce&, const KernelSet&, const KernelCall& call) {
  const View &partials = call.in[0], &out = call.out[0];
  const std::size_t rows = out.shape[0], width = columns(out);
  const Range slice = sliced(call, static_cast<std::uint32_t>(width));
  for (std::size_t r = 0; r < rows; ++r) {
    float* y = out.as<float>() + r * width;
    for (std::uint32_t p = 0; p < partials.shape[0]; ++p) {
      const float* x = partials.as<float>() + (p * rows + r) * width;
      for (std::uint32_t n = slice.first; n < slice.end(); ++n) y[n] = p == 0 ? x[n] : y[n] + x[n];
    }
  }
}

void compute(const ops::Copy&, const KernelSet&, const KernelCall& call) {
  const View &x = call.in[0], &out = call.out[0];
  const std::size_t width = columns(x), rows = elements(x) / width;
  if (call.row_offsets != nullptr) {
    const Bytes row = row_bytes(x.format, static_cast<std::uint32_t>(width));
    for (std::size_t r = 0; r < rows; ++r) {
      std::memcpy(out.data() + (*call.row_offsets)[r] * kRowOffsetUnit, x.data() + (*call.rows)[r] * kRowOffsetUnit, row);
    }
    return;
  }
  if (x.format == out.format) {
    std::memcpy(out.data(), x.data(), view_bytes(x));
    return;
  }
  float* row = scratch<float>(Scratch::a, width);
  for (std::size_t r = 0; r < rows; ++r) {
    dequantise_row(x.format, x.data() + r * row_bytes(x.format, width), row, width);
    quantise_row(out.format, row, out.data() + r * row_bytes(out.format, width), width);
  }
}

namespace {

template <class T>
void move(const KernelCall& call) {
  for (const CopyRegion& region : *call.regions) {
    const bool rows = region.src.stride[2] == 1 && region.dst.stride[2] == 1;
    for (std::uint32_t i = 0; i < region.size[0]; ++i) {
      for (std::uint32_t j = 0; j < region.size[1]; ++j) {
        const T* x = call.in[0].as<T>() + region.src.at({i, j, 0});
        T* y = call.out[0].as<T>() + region.dst.at({i, j, 0});
        if (rows) {
          std::memcpy(y, x, region.size[2] * sizeof(T));
          continue;
        }
        for (std::size_t k = 0; k < region.size[2]; ++k) y[k * region.dst.stride[2]] = x[k * region.src.stride[2]];
      }
    }
  }
}

}  // namespace

void compute(const ops::Move&, const KernelSet&, const KernelCall& call) {
  call.out[0].format == Format::f16 ? move<Half>(call) : move<float>(call);
}

}  // namespace vitro::cpu
