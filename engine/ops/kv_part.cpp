#include "engine/ops/kv_part.hpp"

namespace vitro::ops {

void check_room(const Checker& check, const View& numbers, const char* name, std::uint32_t window) {
  for (const SeqPos& row : *check.call().batch) {
    const std::uint32_t seen = visible(row.position, window).count;
    if (seen > numbers.shape[2]) {
      check.fail(name, numbers, "position " + std::to_string(row.position) + " sees " + std::to_string(seen) + " positions");
    }
  }
}

void check_kv_part(const Checker& check, const View& numbers, const char* name, std::uint32_t window, std::uint32_t layers) {
  const View& pool = check.in(1);
  check.floats(numbers, name, {0, 0, 0});
  check.batch(numbers.shape[0]);
  check.pool(pool, layers, check.in(2), window);
  if (numbers.shape[1] % pool.shape[0] != 0) {
    check.fail(name, numbers, "heads have to be a multiple of the pool's " + std::to_string(pool.shape[0]));
  }
  check_room(check, numbers, name, window);
  check.slice(pool.shape[0]);
}

KvPartWork count_kv_part(Counter& c, std::uint32_t which, const View& numbers, std::uint32_t window) {
  const View& pool = c.in(1);
  const std::uint64_t dim = pool.shape[2], heads = sliced(c.call, pool.shape[0]).count;
  const std::uint64_t queries = heads * (numbers.shape[1] / pool.shape[0]);
  KvPartWork work;
  for (const SeqPos& row : *c.call.batch) {
    const Range tokens = visible(row.position, window);
    const std::uint64_t runs = blocks_of(tokens, pool.shape[1]);
    c.read(c.in(2), 4 * heads * runs);
    c.read(pool, heads * tokens.count * kv_row_bytes(pool.format, which, pool.shape[2]));
    c.counts.row_runs += static_cast<std::uint32_t>(heads * runs);
    if (pool.format != Format::f32) c.counts.conversions += heads * tokens.count * dim;
    c.counts.macs += queries * dim * tokens.count;
    work.queries += queries;
    work.scores += queries * tokens.count;
  }
  return work;
}

Eigen::MatrixXd read_kv_head(Reference& r, const KvPool& pool, std::uint32_t which, const KvHead& head, Range tokens) {
  Eigen::MatrixXd rows(pool.dim, tokens.count);
  const View& table = r.in(2);
  std::uint32_t block = 0;
  for (std::uint32_t i = 0; i < tokens.count; ++i) {
    const std::uint32_t t = tokens.first + i, inside = t % pool.block_tokens;
    if (i == 0 || inside == 0) {
      block = r.index(table, head.row * table.shape[1] + t / pool.block_tokens, ~0u);
      ++r.tally().row_runs;
    }
    Eigen::VectorXf row(pool.dim);
    r.touch(r.in(1), pool.row_bytes(which));
    const Bytes at = pool.offset(block, which, head.first / head.group) + inside * pool.row_bytes(which);
    read_kv_row(pool.format, which, r.in(1).data() + at, pool.dim, row.data());
    rows.col(i) = row.cast<double>();
    if (pool.format != Format::f32) r.tally().conversions += pool.dim;
  }
  r.tally().macs += std::uint64_t{head.group} * pool.dim * tokens.count;
  return rows;
}

}  // namespace vitro::ops
