// count(): the work of a call from its shapes alone. An operand byte counts once per call, except that attention reads
// the visible K and V once per batch row and head of the pool, and a gathered row counts every time it is named.
#include "engine/ops/operands.hpp"
#include "engine/ops/variants.hpp"
#include "engine/ops/work.hpp"

namespace vitro {
namespace {

struct Counter {
  const KernelCall& call;
  WorkCounts counts{};

  void read(const View& v, Bytes bytes) { counts.read[static_cast<std::size_t>(v.memory.placement())] += bytes; }
  void write(const View& v, Bytes bytes) { counts.written[static_cast<std::size_t>(v.memory.placement())] += bytes; }
  void read_all(const View& v) { read(v, view_bytes(v)); }
  void write_floats(std::uint64_t n) { write(call.out[0], 4 * n); }
};

// Runs of numbers that follow one another by `step`. Calls name thousands of rows: no branches.
std::uint32_t runs_of(const std::vector<std::uint32_t>& numbers, std::uint32_t step) {
  std::uint32_t runs = numbers.empty() ? 0 : 1;
  for (std::size_t i = 1; i < numbers.size(); ++i) runs += numbers[i] != numbers[i - 1] + step ? 1 : 0;
  return runs;
}

// Rows of [0, n) that the call computes.
std::uint64_t chosen_rows(const KernelCall& call, std::uint32_t n) { return call.rows ? call.rows->size() : sliced(call, n).count; }

// The weight rows that the call names, read once, and the runs in which their bytes stand. Returns their number.
std::uint64_t weight_rows(Counter& c) {
  const View& w = c.call.in[0];
  const Bytes stride = row_bytes(w.format, w.shape[1], w.layout);
  const std::uint64_t rows = chosen_rows(c.call, w.shape[0]);
  if (c.call.places != nullptr) {
    // Rows that do not end with a unit are never followed by another at once.
    const bool whole = stride % kPlaceUnit == 0;
    c.counts.row_runs +=
        whole ? runs_of(*c.call.places, static_cast<std::uint32_t>(stride / kPlaceUnit)) : static_cast<std::uint32_t>(rows);
  } else {
    c.counts.row_runs += c.call.rows ? runs_of(*c.call.rows, 1) : (rows > 0 ? 1 : 0);
  }
  c.read(w, rows * stride);
  if (const View* scales = scales_of(c.call)) c.read(*scales, rows * scale_row_bytes(w));
  return rows;
}

void matmul(Counter& c) {
  const View &w = c.call.in[0], &x = c.call.in[1];
  const std::uint64_t k = w.shape[1], batch = x.shape[0], rows = weight_rows(c);
  c.read_all(x);
  if (const View* bias = bias_of(c.call)) {
    c.read(*bias, 4 * rows);
    c.counts.elementwise += rows * batch;
  }
  c.write_floats(rows * batch);
  c.counts.macs = rows * k * batch;
  if (c.call.variant == variant::kInt8 || c.call.variant == variant::kInt8Tables || c.call.variant == variant::kInt8Rows) {
    c.counts.conversions = k * batch;
  } else if (w.format != Format::f32) {
    c.counts.conversions = rows * k;
  }
}

void rope(Counter& c) {
  const View& x = c.call.in[0];
  const std::uint64_t pairs = static_cast<std::uint64_t>(c.call.params[1]) / 2, heads = sliced(c.call, x.shape[1]).count;
  if (c.call.in.size() > 1) c.read(c.call.in[1], 4 * pairs);
  c.read(x, 4 * x.shape[0] * heads * x.shape[2]);
  c.write_floats(x.shape[0] * heads * x.shape[2]);
  c.counts.elementwise = x.shape[0] * pairs * (work::kAngle + heads * work::kTurn);
}

void kv_append(Counter& c) {
  const View& pool = c.call.out[0];
  const Range heads = sliced(c.call, pool.shape[0]);
  const std::uint32_t copies = copies_of(c.call.in[0], pool);
  const std::uint64_t rows = c.call.batch->size(), n = rows * heads.count * pool.shape[2];
  const std::uint64_t own = heads.count > 0 ? (heads.end() - 1) / copies - heads.first / copies + 1 : 0;
  c.read(c.call.in[0], 4 * rows * own * pool.shape[2]);
  c.read(c.call.in[1], 4 * rows * own * pool.shape[2]);
  c.read(c.call.in[2], 4 * rows);
  c.write(pool, n / pool.shape[2] * kv_pair_bytes(pool.format, pool.shape[2]));
  if (pool.format != Format::f32) c.counts.conversions = 2 * n;
}

void attention(Counter& c) {
  const View &q = c.call.in[0], &pool = c.call.in[1];
  const std::uint64_t dim = pool.shape[2], tokens_per_block = pool.shape[1], batch = c.call.batch->size();
  const std::uint64_t group = elements(q) / batch / dim / pool.shape[0], heads = sliced(c.call, pool.shape[0]).count;
  for (const SeqPos& row : *c.call.batch) {
    const Range tokens = visible(row.position, static_cast<std::uint32_t>(c.call.params[1]));
    const std::uint64_t runs = (tokens.end() - 1) / tokens_per_block - tokens.first / tokens_per_block + 1;
    c.read(c.call.in[2], 4 * 2 * heads * runs);
    c.read(pool, heads * tokens.count * kv_pair_bytes(pool.format, pool.shape[2]));
    c.counts.row_runs += static_cast<std::uint32_t>(2 * heads * runs);
    if (pool.format != Format::f32) c.counts.conversions += 2 * heads * tokens.count * dim;
    c.counts.macs += 2 * heads * group * dim * tokens.count;
    c.counts.elementwise += heads * group * (tokens.count * (work::kSoftmax + 1) + dim);
  }
  c.read(q, 4 * batch * heads * group * dim);
  c.write_floats(batch * heads * group * dim);
}

void glu(Counter& c) {
  const std::uint64_t n = chosen_rows(c.call, columns(c.call.in[0])) * c.call.in[0].shape[0];
  c.read(c.call.in[0], 4 * n);
  c.read(c.call.in[1], 4 * n);
  c.write_floats(n);
  c.counts.elementwise = n * work::activation(static_cast<Activation>(c.call.params[0]));
}

void select(Counter& c) {
  const View& scores = c.call.in[0];
  const std::uint64_t n = chosen_rows(c.call, columns(scores)) * scores.shape[0];
  c.read(scores, 4 * n);
  c.counts.elementwise = n * work::select(c.call.params[1]);
}

void accumulate(Counter& c) {
  const View &w = c.call.in[0], &h = c.call.in[1];
  const std::uint64_t width = w.shape[1], batch = h.shape[0], rows = weight_rows(c);
  c.read(h, 4 * rows * batch);
  if (c.call.params[0] != 0) c.read(c.call.out[0], 4 * batch * width);
  c.write_floats(batch * width);
  c.counts.macs = rows * width * batch;
  if (variant::adds_in_int8(c.call.variant, w.format)) {
    c.counts.conversions = rows * batch * (width / 32);  // one coefficient for each block of a row
  } else if (w.format != Format::f32) {
    c.counts.conversions = rows * width;
  }
}

void expert_sum(Counter& c) {
  const std::uint64_t rows = c.call.out[0].shape[0], k = columns(c.call.in[1]), n = sliced(c.call, columns(c.call.in[0])).count;
  c.read(c.call.in[0], 4 * rows * k * n);
  c.read_all(c.call.in[1]);
  c.read_all(c.call.in[2]);
  c.write_floats(rows * n);
  c.counts.elementwise = 2 * rows * k * n;
}

void sample(Counter& c) {
  const std::uint64_t rows = c.call.in[0].shape[0], vocab = columns(c.call.in[0]), top_k = static_cast<std::uint64_t>(c.call.params[1]);
  c.read_all(c.call.in[0]);
  c.read(c.call.in[1], 4 * rows);
  c.counts.elementwise = rows * vocab;
  if (c.call.params[0] != 0) c.counts.elementwise += rows * work::kSoftmax * (top_k > 0 ? std::min(top_k, vocab) : vocab);
}

}  // namespace

WorkCounts count(const KernelCall& call) {
  Counter c{call};
  switch (call.op) {
    case Op::embed: {
      const std::uint64_t rows = call.out[0].shape[0], width = call.in[0].shape[1];
      c.read(call.in[0], rows * row_bytes(call.in[0].format, width));
      c.read(call.in[1], 4 * rows);
      c.write_floats(rows * width);
      if (call.in[0].format != Format::f32) c.counts.conversions = rows * width;
      c.counts.row_runs = static_cast<std::uint32_t>(rows);
      break;
    }
    case Op::rms_norm: {
      const View& x = call.in[0];
      const std::uint64_t n = std::uint64_t{x.shape[0]} * sliced_heads(call, x).count * columns(x);
      c.read(x, 4 * n);
      c.read_all(call.in[1]);
      c.write_floats(n);
      c.counts.elementwise = work::kNorm * n;
      break;
    }
    case Op::matmul:
      matmul(c);
      break;
    case Op::rope:
      rope(c);
      break;
    case Op::kv_append:
      kv_append(c);
      break;
    case Op::attention:
      attention(c);
      break;
    case Op::glu:
      glu(c);
      break;
    case Op::add: {
      const std::uint64_t n = std::uint64_t{call.in[0].shape[0]} * sliced(call, columns(call.in[0])).count;
      c.read(call.in[0], 4 * n);
      c.read(call.in[1], 4 * n);
      c.write_floats(n);
      c.counts.elementwise = n;
      break;
    }
    case Op::gather:
      c.read(call.in[0], 4 * elements(call.out[0]));
      c.read(call.in[1], Bytes{4} * call.out[0].shape[0]);
      c.write_floats(elements(call.out[0]));
      break;
    case Op::route: {
      const std::uint64_t rows = call.in[0].shape[0], experts = columns(call.in[0]);
      c.read_all(call.in[0]);
      c.counts.elementwise =
          rows * (experts + work::kSoftmax * (call.params[1] != 0 ? static_cast<std::uint64_t>(call.params[0]) : experts));
      break;
    }
    case Op::expert_sum:
      expert_sum(c);
      break;
    case Op::reduce: {
      const std::uint64_t partials = call.in[0].shape[0],
                          n = std::uint64_t{call.out[0].shape[0]} * sliced(call, columns(call.out[0])).count;
      c.read(call.in[0], 4 * partials * n);
      c.write_floats(n);
      c.counts.elementwise = (partials - 1) * n;
      break;
    }
    case Op::sample:
      sample(c);
      break;
    case Op::copy:
      c.read_all(call.in[0]);
      c.write(call.out[0], view_bytes(call.out[0]));
      if (call.in[0].format != call.out[0].format) c.counts.conversions = elements(call.in[0]);
      break;
    case Op::select:
      select(c);
      break;
    case Op::accumulate:
      accumulate(c);
      break;
    case Op::precompute:
      c.read_all(call.in[0]);
      c.counts.elementwise = work::kTable * elements(call.in[0]);
      break;
    case Op::softmax: {
      const auto times = static_cast<std::uint64_t>(call.params[1]);
      c.read_all(call.in[0]);
      c.write_floats(elements(call.in[0]));
      c.counts.elementwise = times * work::kSoftmax * elements(call.in[0]);
      break;
    }
  }
  return c.counts;
}

}  // namespace vitro
