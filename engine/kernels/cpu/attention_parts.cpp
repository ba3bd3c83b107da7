// Attention in three parts: the bits of attention.cpp, since a dot product and a weighted sum have theirs whoever passes beside them.
#include <algorithm>

#include "engine/kernels/cpu/kv_floats.hpp"
#include "engine/kernels/cpu/kv_runs.hpp"

namespace vitro::cpu {
namespace {

// A part's keys or values. `numbers`: [B, H, T], one for each position that a row sees.
struct KvPart {
  KvPart(const KernelCall& call, const KernelSet& set, const View& numbers, std::uint32_t window, std::uint32_t layers)
      : call(call),
        window(window),
        pool(call.in[1], layers, call.layer),
        floats(pool, set),
        slice(sliced(call, pool.heads)),
        heads(numbers.shape[1]),
        group(heads / pool.heads) {}

  // Calls f(first query head of all rows', tokens, run caller) for each row and head of the slice; caller(which, g) calls
  // g(rows of the pool, run) for the pieces of these tokens.
  template <class F>
  void for_each_head(F f) {
    for (std::size_t b = 0; b < call.batch->size(); ++b) {
      const Range tokens = visible((*call.batch)[b].position, window);
      const std::uint32_t* blocks = call.in[2].as<std::uint32_t>() + b * call.in[2].shape[1];
      for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
        f(b * heads + h * group, tokens, [&](std::uint32_t which, auto g) {
          for_each_kv_run(pool, piece_tokens(pool, floats), blocks, which, h, tokens, g);
        });
      }
    }
  }

  const KernelCall& call;
  const std::uint32_t window;
  const KvPool pool;
  KvFloats floats;
  const Range slice;
  const std::uint32_t heads, group;
};

// n elements as floats, in `into` unless they are.
const float* as_floats(const KernelSet& set, const View& view, std::size_t at, std::size_t n, float* into) {
  if (view.format != Format::f16) return view.as<float>() + at;
  set.to_f32(view.as<Half>() + at, n, into);
  return into;
}

}  // namespace

void compute(const ops::AttentionScores& op, const KernelSet& set, const KernelCall& call) {
  const View &q = call.in[0], &s = call.out[0];
  KvPart part(call, set, s, op.window, op.pool_layers);
  const std::size_t dim = part.pool.dim, group = part.group, room = s.shape[2];
  const bool halves = q.format == Format::f16, stored = s.format == Format::f16;
  float* query = scratch<float>(Scratch::b, group * dim);
  Half* as_halves = scratch<Half>(Scratch::d, group * dim);
  part.for_each_head([&](std::size_t first, Range tokens, auto for_runs) {
    const float* from = as_floats(set, q, first * dim, group * dim, query);
    const float factor = op.scales_query ? op.scale : 1.0f;
    for (std::size_t i = 0; i < group * dim; ++i) query[i] = from[i] * factor;
    if (halves) {
      set.to_f16(query, group * dim, as_halves);
      set.to_f32(as_halves, group * dim, query);
    }
    const std::size_t stride = stored ? tokens.count : room;
    float* scores = stored ? scratch<float>(Scratch::a, group * stride) : s.as<float>() + first * room;
    for_runs(0u, [&](const std::byte* keys, KvRun run) {
      float* out = scores + run.first - tokens.first;
      if (part.pool.format != Format::f16) {
        set.dots_f32({part.floats.rows(0, keys, run.skip, run.count), run.count, dim, dim}, {query, group, dim, dim}, out, stride);
        return;
      }
      const Rows<Half> rows{reinterpret_cast<const Half*>(keys) + run.skip * dim, run.count, dim, dim};
      if (halves) {
        set.dots_halves(rows, {as_halves, group, dim, dim}, out, stride);
      } else {
        set.dots_f16(rows, {query, group, dim, dim}, out, stride);
      }
    });
    for (std::size_t g = 0; g < group; ++g) {
      float* row = scores + g * stride;
      if (!op.scales_query) {
        for (std::size_t i = 0; i < tokens.count; ++i) row[i] *= op.scale;
      }
      if (stored) set.to_f16(row, tokens.count, s.as<Half>() + (first + g) * room);
    }
  });
}

void compute(const ops::AttentionWeights& op, const KernelSet& set, const KernelCall& call) {
  const View &s = call.in[0], &e = call.out[0];
  const std::size_t heads = s.shape[1], room = s.shape[2];
  const Range slice = sliced(call, s.shape[1]);
  for (std::size_t b = 0; b < call.batch->size(); ++b) {
    const std::uint32_t seen = visible((*call.batch)[b].position, op.window).count;
    for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
      const std::size_t at = (b * heads + h) * room;
      float* out = e.as<float>() + at;
      const float* in = as_floats(set, s, at, seen, out);
      if (in != out) std::copy_n(in, seen, out);
      set.softmax(out, seen, 1.0f);
    }
  }
}

void compute(const ops::AttentionValues& op, const KernelSet& set, const KernelCall& call) {
  const View &e = call.in[0], &y = call.out[0];
  KvPart part(call, set, e, op.window, op.pool_layers);
  const std::size_t dim = part.pool.dim, group = part.group, room = e.shape[2];
  float* sum = scratch<float>(Scratch::b, group * (dim + 1));
  float* totals = sum + group * dim;
  float* ones = scratch<float>(Scratch::a, room);
  std::fill_n(ones, room, 1.0f);
  part.for_each_head([&](std::size_t first, Range tokens, auto for_runs) {
    const float* weights = e.as<float>() + first * room;
    std::fill_n(sum, group * dim, 0.0f);
    for_runs(1u, [&](const std::byte* values, KvRun run) {
      const float* p = weights + run.first - tokens.first;
      if (part.pool.format == Format::f16) {
        set.weighted_f16({reinterpret_cast<const Half*>(values) + run.skip * dim, run.count, dim, dim}, p, room, group, sum);
      } else {
        set.weighted_f32({part.floats.rows(1, values, run.skip, run.count), run.count, dim, dim}, p, room, group, sum);
      }
    });
    // The lanes of a softmax's sum: fma(e, 1, lane) is lane + e.
    set.dots_f32({weights, group, tokens.count, room}, {ones, 1, tokens.count, room}, totals, group);
    for (std::size_t g = 0; g < group; ++g) {
      float* row = sum + g * dim;
      float* out = y.format == Format::f16 ? row : y.as<float>() + (first + g) * dim;
      for (std::size_t d = 0; d < dim; ++d) out[d] = row[d] / totals[g];
      if (y.format == Format::f16) set.to_f16(out, dim, y.as<Half>() + (first + g) * dim);
    }
  });
}

}  // namespace vitro::cpu
