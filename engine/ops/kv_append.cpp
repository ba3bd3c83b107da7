#include "engine/ops/kv_append.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void KvAppend::check(const Checker& check) const {
  const View &k = check.in(0), &pool = check.out();
  check.batch(k.shape[0]);
  check.pool(pool, pool_layers, check.in(2), 1);
  const std::uint64_t all = std::uint64_t{k.shape[0]} * pool.shape[0] * pool.shape[2], n = elements(k);
  if (n == 0 || all % n != 0 || n % (std::uint64_t{k.shape[0]} * pool.shape[2]) != 0) {
    check.fail("k", k, "the pool's " + std::to_string(pool.shape[0]) + " heads have to be a multiple of its heads");
  }
  check.float_elements(k, "k", n);
  check.float_elements(check.in(1), "v", n);
  check.slice(pool.shape[0]);
}

void KvAppend::count(Counter& c) const {
  const View& pool = c.out();
  const Range heads = sliced(c.call, pool.shape[0]);
  const std::uint32_t copies = copies_of(c.in(0), pool);
  const std::uint64_t rows = c.call.batch->size(), n = rows * heads.count * pool.shape[2];
  const std::uint64_t own = heads.count > 0 ? (heads.end() - 1) / copies - heads.first / copies + 1 : 0;
  c.read_floats(c.in(0), rows * own * pool.shape[2]);
  c.read_floats(c.in(1), rows * own * pool.shape[2]);
  c.read(c.in(2), 4 * rows);
  c.write(pool, n / pool.shape[2] * kv_pair_bytes(pool.format, pool.shape[2]));
  if (pool.format != Format::f32) c.counts.conversions = 2 * n;
}

void KvAppend::reference(Reference& r) const {
  const KvPool pool(r.out(), pool_layers, r.call().layer);
  const Range slice = sliced(r.call(), pool.heads);
  const std::uint32_t copies = copies_of(r.in(0), r.out());
  for (std::size_t b = 0; b < r.call().batch->size(); ++b) {
    const std::uint32_t position = (*r.call().batch)[b].position;
    const std::uint32_t block = r.index(r.in(2), b * r.in(2).shape[1] + position / pool.block_tokens, ~0u);
    for (std::uint32_t which = 0; which < 2; ++which) {
      Vector x;
      for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
        if (h == slice.first || h % copies == 0) x = r.read(r.in(which), (b * pool.heads / copies + h / copies) * pool.dim, pool.dim);
        r.touch_written(r.out(), pool.row_bytes(which));
        const Eigen::VectorXf rounded = x.cast<float>();
        write_kv_row(pool.format, which, rounded.data(), pool.dim,
                     r.out().data() + pool.offset(block, which, h) + position % pool.block_tokens * pool.row_bytes(which));
        if (pool.format != Format::f32) r.tally().conversions += pool.dim;
      }
    }
  }
}

}  // namespace vitro::ops
