#include <algorithm>

#include "engine/kernels/cpu/ops.hpp"
#include "engine/kernels/lut/attention_call.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/variants.hpp"

namespace vitro::cpu {

void compute(const ops::Rope& op, const KernelSet&, const KernelCall& call) {
  const View& view = call.out[0];
  const std::uint32_t heads = view.shape[1], dim = view.shape[2], pairs = op.dims / 2;
  const bool interleaved = op.style == RopeStyle::interleaved;
  const std::uint32_t step = interleaved ? 2 : 1, apart = interleaved ? 1 : pairs;
  const Range slice = sliced(call, heads);
  float* cosines = scratch<float>(Scratch::a, 2 * pairs);
  float* sines = cosines + pairs;
  for (std::size_t b = 0; b < view.shape[0]; ++b) {
    const std::uint32_t position = (*call.batch)[b].position;
    if (b == 0 || position != (*call.batch)[b - 1].position) rope_angles(op, call, position, cosines, sines);
    for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
      const std::size_t at = (b * heads + h) * dim;
      const float* x = call.in[0].as<float>() + at;
      float* y = view.as<float>() + at;
      for (std::uint32_t i = 0; i < pairs; ++i) {
        const float first = x[i * step], second = x[i * step + apart];
        y[i * step] = first * cosines[i] - second * sines[i];
        y[i * step + apart] = first * sines[i] + second * cosines[i];
      }
      if (x != y) std::copy(x + 2 * pairs, x + dim, y + 2 * pairs);
    }
  }
}

void compute(const ops::KvAppend& op, const KernelSet& set, const KernelCall& call) {
  const KvPool pool(call.out[0], op.pool_layers, call.layer);
  const View& table = call.in[2];
  const Range slice = sliced(call, pool.heads);
  const std::uint32_t copies = copies_of(call.in[0], call.out[0]);
  for (std::size_t b = 0; b < call.batch->size(); ++b) {
    const std::uint32_t position = (*call.batch)[b].position;
    const std::uint32_t block = table.as<std::uint32_t>()[b * table.shape[1] + position / pool.block_tokens];
    for (std::uint32_t which = 0; which < 2; ++which) {
      for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
        const float* from = call.in[which].as<float>() + (b * pool.heads / copies + h / copies) * pool.dim;
        std::byte* to = pool.data + pool.offset(block, which, h) + position % pool.block_tokens * pool.row_bytes(which);
        if (pool.format == Format::f16) {
          set.to_f16(from, pool.dim, reinterpret_cast<Half*>(to));
        } else {
          write_kv_row(pool.format, which, from, pool.dim, to);
        }
      }
    }
  }
}

namespace {

// Calls f(pointer to the first token, tokens, index of the first) for the runs of tokens that lie together in the pool.
template <class F>
void for_each_kv_run(const KvPool& pool, const std::uint32_t* table, std::uint32_t which, std::uint32_t head, Range tokens, F f) {
  for (std::uint32_t t = tokens.first; t < tokens.end();) {
    const std::uint32_t inside = t % pool.block_tokens;
    const std::uint32_t count = std::min(pool.block_tokens - inside, tokens.end() - t);
    f(pool.data + pool.offset(table[t / pool.block_tokens], which, head) + inside * pool.row_bytes(which), count, t - tokens.first);
    t += count;
  }
}

// Rows of the pool as float32: where they lie, or unpacked into scratch.
const float* as_floats(const KvPool& pool, std::uint32_t which, const std::byte* rows, std::size_t count) {
  if (pool.format == Format::f32) return reinterpret_cast<const float*>(rows);
  float* out = scratch<float>(Scratch::c, count * pool.dim);
  for (std::size_t t = 0; t < count; ++t) read_kv_row(pool.format, which, rows + t * pool.row_bytes(which), pool.dim, out + t * pool.dim);
  return out;
}

}  // namespace

void compute(const ops::KvStage& op, const KernelSet& set, const KernelCall& call) {
  const KvPool pool(call.in[0], op.pool_layers, call.layer), staged(call.out[0], 1, 0);
  const std::uint32_t* blocks = call.in[1].as<std::uint32_t>();
  const Range slice = sliced(call, pool.heads);
  for (std::uint32_t s = 0; s < call.batch->size(); ++s) {
    const std::size_t positions = (*call.batch)[s].position + 1;
    for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
      for (std::uint32_t which = 0; which < 2; ++which) {
        const std::byte* rows = pool.data + pool.offset(blocks[s], which, h);
        Half* out = reinterpret_cast<Half*>(staged.data + staged.offset(s, which, h));
        set.to_f16(as_floats(pool, which, rows, positions), positions * pool.dim, out);
      }
    }
  }
}

// Per batch row and KV head, all query heads of the group together, so that K and V are read once for the group.
void compute(const ops::Attention& op, const KernelSet& set, const KernelCall& call) {
  if (call.variant == variant::kLutExp) return lut::attend(call);
  const View &q = call.in[0], &table = call.in[2];
  const KvPool pool(call.in[1], op.pool_layers, call.layer);
  const std::size_t batch = call.batch->size(), dim = pool.dim;
  const std::size_t heads = elements(q) / batch / dim, group = heads / pool.heads;
  const Range slice = sliced(call, pool.heads);
  for (std::size_t b = 0; b < batch; ++b) {
    const Range tokens = visible((*call.batch)[b].position, op.window);
    const std::uint32_t* blocks = table.as<std::uint32_t>() + b * table.shape[1];
    float* scores = scratch<float>(Scratch::a, group * tokens.count);
    for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
      const std::size_t at = (b * heads + h * group) * dim;
      const Rows<float> queries{q.as<float>() + at, group, dim, dim};
      float* out = call.out[0].as<float>() + at;
      for_each_kv_run(pool, blocks, 0, h, tokens, [&](const std::byte* keys, std::size_t count, std::size_t first) {
        if (pool.format == Format::f16) {
          set.dots_f16({reinterpret_cast<const Half*>(keys), count, dim, dim}, queries, scores + first, tokens.count);
        } else {
          set.dots_f32({as_floats(pool, 0, keys, count), count, dim, dim}, queries, scores + first, tokens.count);
        }
      });
      float* sums = scratch<float>(Scratch::b, group);
      for (std::size_t g = 0; g < group; ++g) sums[g] = set.softmax(scores + g * tokens.count, tokens.count, op.scale);
      std::fill(out, out + group * dim, 0.0f);
      for_each_kv_run(pool, blocks, 1, h, tokens, [&](const std::byte* values, std::size_t count, std::size_t first) {
        if (pool.format == Format::f16) {
          set.weighted_f16({reinterpret_cast<const Half*>(values), count, dim, dim}, scores + first, tokens.count, group, out);
        } else {
          set.weighted_f32({as_floats(pool, 1, values, count), count, dim, dim}, scores + first, tokens.count, group, out);
        }
      });
      for (std::size_t g = 0; g < group; ++g) {
        for (std::size_t d = 0; d < dim; ++d) out[g * dim + d] /= sums[g];
      }
    }
  }
}

}  // namespace vitro::cpu
