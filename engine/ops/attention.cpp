#include "engine/ops/attention.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/kv_part.hpp"
#include "engine/ops/reference.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/float16.hpp"

namespace vitro::ops {

void Attention::check(const Checker& check) const {
  const View &q = check.in(0), &pool = check.in(1);
  check.batch(q.shape[0]);
  check.pool(pool, pool_layers, check.in(2), window);
  const std::uint64_t group_elements = std::uint64_t{q.shape[0]} * pool.shape[0] * pool.shape[2];
  if (elements(q) % group_elements != 0) check.fail("q", q, "heads have to be a multiple of the pool's " + std::to_string(pool.shape[0]));
  check.float_elements(q, "q", elements(q));
  check.float_elements(check.out(), "y", elements(q));
  if (scales_query && variant::attends_in_fp16(check.call().variant)) {
    check.fail(std::string(variant::name(check.call().variant)) + " scales products of queries and keys, not queries");
  }
  check.slice(pool.shape[0]);
  for (const SeqPos& row : *check.call().batch) {
    if (keys == 0 || row.position < keys) continue;
    check.fail("position " + std::to_string(row.position) + " is beyond the " + std::to_string(keys) + " keys of its graph");
  }
}

void Attention::count(Counter& c) const {
  const View &q = c.in(0), &pool = c.in(1);
  const std::uint64_t dim = pool.shape[2], batch = c.call.batch->size();
  const std::uint64_t group = elements(q) / batch / dim / pool.shape[0], heads = sliced(c.call, pool.shape[0]).count;
  for (const SeqPos& row : *c.call.batch) {
    Range tokens = visible(row.position, window);
    if (keys > 0) tokens = {0, keys};
    const std::uint64_t runs = blocks_of(tokens, pool.shape[1]);
    c.read(c.in(2), 4 * 2 * heads * runs);
    c.read(pool, heads * tokens.count * kv_pair_bytes(pool.format, pool.shape[2]));
    c.counts.row_runs += static_cast<std::uint32_t>(2 * heads * runs);
    if (pool.format != Format::f32) c.counts.conversions += 2 * heads * tokens.count * dim;
    c.counts.macs += 2 * heads * group * dim * tokens.count;
    c.counts.elementwise += heads * group * (tokens.count * work::kSoftmax + (scales_query ? dim : tokens.count) + dim);
  }
  c.read_floats(q, batch * heads * group * dim);
  c.write_floats(batch * heads * group * dim);
}

namespace {

// As float16 holds it where activations are float16.
Vector stored(bool halves, const Vector& x) {
  if (!halves) return x;
  return x.unaryExpr([](double v) { return double{half_to_float(float_to_half(static_cast<float>(v)))}; });
}

// Of one head of the pool and its queries: what a static shape computes beyond what the row sees.
void tally_masked(const Attention& op, Reference& r, const KvPool& pool, Range seen, std::size_t group) {
  const std::uint64_t masked = op.keys - seen.count, dim = pool.dim;
  const std::uint64_t runs = blocks_of({0, op.keys}, pool.block_tokens) - blocks_of(seen, pool.block_tokens);
  r.touch(r.in(2), 4 * 2 * runs);
  r.touch(r.in(1), masked * (pool.row_bytes(0) + pool.row_bytes(1)));
  r.tally().row_runs += static_cast<std::uint32_t>(2 * runs);
  if (pool.format != Format::f32) r.tally().conversions += 2 * masked * dim;
  r.tally().macs += 2 * group * dim * masked;
  r.tally().elementwise += group * masked * (work::kSoftmax + (op.scales_query ? 0 : 1));
}

}  // namespace

void Attention::reference(Reference& r) const {
  const KvPool pool(r.in(1), pool_layers, r.call().layer);
  const std::size_t batch = r.call().batch->size(), dim = pool.dim, heads = elements(r.in(0)) / batch / dim, group = heads / pool.heads;
  const Range slice = sliced(r.call(), pool.heads);
  for (std::size_t b = 0; b < batch; ++b) {
    const Range tokens = visible((*r.call().batch)[b].position, window);
    for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
      const KvHead head{b, h * static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group)};
      const Eigen::MatrixXd keys = read_kv_head(r, pool, 0, head, tokens), values = read_kv_head(r, pool, 1, head, tokens);
      if (this->keys > 0) tally_masked(*this, r, pool, tokens, group);
      for (std::size_t g = 0; g < group; ++g) {
        const std::size_t at = (b * heads + h * group + g) * dim;
        const bool halves = r.in(0).format == Format::f16;
        const Vector q = stored(halves, r.read(r.in(0), at, dim) * (scales_query ? double{scale} : 1.0));
        const Vector scores = stored(halves, keys.transpose() * q);
        const Vector p = r.softmax(scores * (scales_query ? 1.0 : double{scale}));
        r.write(r.out(), at, values * p);
        r.tally().elementwise += (scales_query ? dim : tokens.count) + dim;  // the scale, and the division by the sum
      }
    }
  }
}

}  // namespace vitro::ops
