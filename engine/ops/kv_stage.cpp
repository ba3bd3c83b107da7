#include "engine/ops/kv_stage.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void KvStage::check(const Checker& check) const {
  const View &pool = check.in(0), &table = check.in(1), &out = check.out();
  check.batch(table.shape[0]);
  check.indices(table, "block table", {0, 1});
  check.pool(pool, pool_layers, table, 0);
  if (out.format != Format::f16) check.fail("staged", out, "expected f16");
  check.view(out, "staged", {pool.shape[0], pool.shape[1], pool.shape[2]});
  const Bytes room = (out.memory.size() - out.offset) / KvPool(out, 1, 0).block_bytes();
  if (table.shape[0] > room) check.fail("staged", out, std::to_string(table.shape[0]) + " blocks in room for " + std::to_string(room));
  check.slice(pool.shape[0]);
}

void KvStage::count(Counter& c) const {
  const View& pool = c.in(0);
  const std::uint64_t heads = sliced(c.call, pool.shape[0]).count, dim = pool.shape[2];
  std::uint64_t rows = 0;
  for (const SeqPos& block : *c.call.batch) rows += heads * (block.position + 1);
  c.read(c.in(1), Bytes{4} * c.call.batch->size());
  c.read(pool, rows * kv_pair_bytes(pool.format, pool.shape[2]));
  c.write(c.out(), rows * kv_pair_bytes(Format::f16, pool.shape[2]));
  c.counts.row_runs = static_cast<std::uint32_t>(2 * heads * c.call.batch->size());
  c.counts.conversions = 2 * rows * dim * (pool.format == Format::f32 ? 1 : 2);
}

void KvStage::reference(Reference& r) const {
  const KvPool pool(r.in(0), pool_layers, r.call().layer), staged(r.out(), 1, 0);
  const Range slice = sliced(r.call(), pool.heads);
  std::vector<float> row(pool.dim);
  for (std::size_t s = 0; s < r.call().batch->size(); ++s) {
    const std::uint32_t block = r.index(r.in(1), s, ~0u), positions = (*r.call().batch)[s].position + 1;
    for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
      for (std::uint32_t which = 0; which < 2; ++which) {
        ++r.tally().row_runs;
        for (std::uint32_t t = 0; t < positions; ++t) {
          r.touch(r.in(0), pool.row_bytes(which));
          r.touch_written(r.out(), staged.row_bytes(which));
          read_kv_row(pool.format, which, pool.data + pool.offset(block, which, h) + t * pool.row_bytes(which), pool.dim, row.data());
          write_kv_row(Format::f16, which, row.data(), pool.dim,
                       staged.data + staged.offset(static_cast<std::uint32_t>(s), which, h) + t * staged.row_bytes(which));
          r.tally().conversions += pool.dim * (pool.format == Format::f32 ? 1 : 2);
        }
      }
    }
  }
}

}  // namespace vitro::ops
