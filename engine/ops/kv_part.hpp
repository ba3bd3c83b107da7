// What the parts of attention have in common that read keys or values: operand 1 is the KV pool, 2 its block table, and another operand
// [B, H, T] holds a number for each position that a row sees.
#pragma once
#include <Eigen/Core>

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

// Requires: `numbers` passed view() and has as many rows as the batch.
void check_room(const Checker& check, const View& numbers, const char* name, std::uint32_t window);
void check_kv_part(const Checker& check, const View& numbers, const char* name, std::uint32_t window, std::uint32_t layers);

// Of all rows: their query heads in the slice, and what these see.
struct KvPartWork {
  std::uint64_t queries = 0, scores = 0;
};
// Counts rows of K (which = 0) or V (1), the table, and their products.
KvPartWork count_kv_part(Counter& c, std::uint32_t which, const View& numbers, std::uint32_t window);

// Query heads [first, first + group) of a batch row, which share a head of the pool.
struct KvHead {
  std::size_t row = 0;
  std::uint32_t first = 0, group = 1;
};
// A head's visible rows of K or V, [dim, tokens], with their tally and that of the group's products with them.
Eigen::MatrixXd read_kv_head(Reference& r, const KvPool& pool, std::uint32_t which, const KvHead& head, Range tokens);

// Calls f(KvHead, keys or values [dim, tokens]) for each row and head of the slice.
template <class F>
void for_each_kv_head(Reference& r, std::uint32_t which, const View& numbers, std::uint32_t window, std::uint32_t layers, F f) {
  const KvPool pool(r.in(1), layers, r.call().layer);
  const Range slice = sliced(r.call(), pool.heads);
  const std::uint32_t group = numbers.shape[1] / pool.heads;
  for (std::size_t b = 0; b < r.call().batch->size(); ++b) {
    const Range tokens = visible((*r.call().batch)[b].position, window);
    for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
      const KvHead head{b, h * group, group};
      f(head, read_kv_head(r, pool, which, head, tokens));
    }
  }
}

}  // namespace vitro::ops
