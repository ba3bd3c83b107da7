#include "engine/host/probes/probe_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "engine/base/rng.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/kv_rows.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kBlockTokens = 16, kHeadDim = 64, kQueriesPerHead = 4;  // of attention; rows are KV heads

bool is_product(Op op) { return is<ops::Matmul, ops::Accumulate>(op); }

View leased(Memory& memory, Format format, std::uint32_t a, std::uint32_t b, std::uint32_t c = 0, Region region = Region::activation) {
  View view;
  view.format = format;
  view.shape = {a, b, c};
  view.memory = memory.lease(round_up(view_bytes(view), kPageSize), Placement::dram, region).value_or_throw();
  return view;
}

// Values around 0, none of them denormal.
View floats(Memory& memory, std::uint32_t a, std::uint32_t b, std::uint32_t c = 0) {
  View view = leased(memory, Format::f32, a, b, c);
  Rng rng(2);
  for (std::size_t i = 0; view.data() != nullptr && i < elements(view); ++i) view.as<float>()[i] = static_cast<float>(rng.uniform() - 0.5);
  return view;
}

// One group of rows, repeated: how fast a kernel runs does not depend on what it multiplies.
View weights(Memory& memory, const CallShape& shape, std::uint64_t copies) {
  const Bytes row = row_bytes(shape.format, shape.columns), packed = row_bytes(shape.format, shape.columns, shape.layout);
  View view;
  view.format = shape.format;
  view.layout = shape.layout;
  view.shape = {shape.rows, shape.columns, 0};
  view.memory = memory.lease(round_up(copies * shape.rows * packed, kPageSize), Placement::dram, Region::fixed).value_or_throw();
  if (view.data() == nullptr) return view;
  std::vector<std::byte> rows(kTileRows * row), tile(kTileRows * packed);
  std::vector<float> values(shape.columns);
  Rng rng(1);
  for (std::uint32_t r = 0; r < kTileRows; ++r) {
    for (float& w : values) w = static_cast<float>(rng.uniform() - 0.5);
    if (can_quantise(shape.format)) {
      quantise_row(shape.format, values.data(), &rows[r * row], values.size());
    } else {
      // Formats that only converters write: small numbers in every field, scales among them.
      std::fill_n(&rows[r * row], row, std::byte{0x11});
    }
  }
  if (shape.layout != Layout::rows) {
    pack_tile(shape.format, shape.columns, rows.data(), tile.data(), shape.layout);
    rows = tile;
  }
  for (Bytes at = 0; at < copies * shape.rows * packed; at += rows.size()) std::memcpy(view.data() + at, rows.data(), rows.size());
  return view;
}

Batch batch_of(std::uint32_t rows, std::uint32_t position) {
  std::vector<SeqPos> batch;
  for (std::uint32_t b = 0; b < rows; ++b) batch.push_back({b, position});
  return std::make_shared<const std::vector<SeqPos>>(std::move(batch));
}

// Gives a call the operands of a shape, on the first copy and whole, and an operator the parameters that are probed.
struct ProbedOperands {
  Memory& memory;
  const CallShape& s;
  std::uint64_t copies;
  KernelCall& call;

  View rows_of_floats() const { return floats(memory, s.batch, s.columns); }
  View result(std::uint32_t columns) const { return leased(memory, Format::f32, s.batch, columns); }

  void operator()(ops::Matmul&) const {
    call.in = {weights(memory, s, copies), rows_of_floats()};
    call.out = {result(s.rows)};
  }
  void operator()(ops::Accumulate&) const {
    call.in = {weights(memory, s, copies), floats(memory, s.batch, s.rows)};
    call.out = {result(s.columns)};
  }
  void operator()(ops::RmsNorm& norm) const {
    norm.eps = 1e-5f;
    call.in = {rows_of_floats(), floats(memory, s.columns, 0)};
    call.out = {result(s.columns)};
  }
  void operator()(ops::Add&) const { two_alike(); }
  void operator()(ops::Glu& glu) const {
    glu.activation = Activation::silu;
    two_alike();
  }
  void operator()(ops::Select& select) const {
    select.activation = Activation::relu;
    call.in = {rows_of_floats()};
  }
  void operator()(ops::Reduce&) const {
    call.in = {floats(memory, s.rows, s.batch, s.columns)};
    call.out = {result(s.columns)};
  }
  void operator()(ops::Rope& rope) const {
    rope = {10000, kHeadDim, RopeStyle::interleaved, 1};
    call.in = {floats(memory, s.batch, s.rows, kHeadDim)};
    call.out = {call.in[0]};
  }
  void operator()(ops::Attention& attention) const {
    attention = {0.125f, 0, 1};
    const std::uint32_t blocks = (s.context + kBlockTokens - 1) / kBlockTokens;
    View pool;
    pool.format = s.format;
    pool.shape = {s.rows, kBlockTokens, kHeadDim};
    pool.memory = memory.lease(round_up(copies * operand_bytes(s), kPageSize), Placement::dram, Region::kv).value_or_throw();
    View table = leased(memory, Format::index32, s.batch, blocks);
    for (std::uint32_t i = 0; table.data() != nullptr && i < s.batch * blocks; ++i) table.as<std::uint32_t>()[i] = i % blocks;
    const std::uint32_t queries = s.rows * (s.columns > 0 ? s.columns : kQueriesPerHead);
    call.in = {floats(memory, s.batch, queries, kHeadDim), pool, table};
    call.out = {leased(memory, Format::f32, s.batch, queries, kHeadDim)};
  }
  void operator()(auto& other) const {
    throw ConfigError(fmt::format(
        "probe: {} is not probed (expected matmul, accumulate, attention, rms_norm, glu, add, rope, select or reduce)", other.kName));
  }

 private:
  void two_alike() const {
    call.in = {rows_of_floats(), rows_of_floats()};
    call.out = {result(s.columns)};
  }
};

KernelCall whole_call(Memory& memory, const CallShape& s, std::uint64_t copies) {
  KernelCall call;
  call.op = s.op;
  call.variant = s.variant;
  call.layer = 0;
  call.batch = batch_of(s.batch, s.context > 0 ? s.context - 1 : 0);
  std::visit(ProbedOperands{memory, s, copies, call}, call.op);
  return call;
}

// As many of the columns as the shape has rows, evenly spread: a cluster's neurons.
IndexList spread_rows(const CallShape& s) {
  std::vector<std::uint32_t> chosen(s.rows);
  for (std::uint32_t i = 0; i < s.rows; ++i) chosen[i] = static_cast<std::uint32_t>(std::uint64_t{i} * s.columns / s.rows);
  return std::make_shared<const std::vector<std::uint32_t>>(std::move(chosen));
}

// Row numbers [first, first + count), and where each lies when the matrix is shuffled.
void scatter(KernelCall& call, const CallShape& s, Slice share) {
  const auto pitch = static_cast<std::uint32_t>(row_bytes(s.format, s.columns) / kRowOffsetUnit);
  std::vector<std::uint32_t> order(s.rows), rows(share.count), places(share.count);
  std::iota(order.begin(), order.end(), 0u);
  Rng rng(3);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  for (std::uint32_t i = 0; i < share.count; ++i) {
    rows[i] = share.first + i;
    places[i] = order[share.first + i] * pitch;
  }
  call.rows = std::make_shared<const std::vector<std::uint32_t>>(std::move(rows));
  call.row_offsets = std::make_shared<const std::vector<std::uint32_t>>(std::move(places));
}

void check(const CallShape& s, std::size_t units) {
  const auto refuse = [](const std::string& why) { throw ConfigError("probe: " + why); };
  if (s.batch == 0) refuse("batch: 0 (expected 1 or more)");
  if (is_product(s.op)) {
    if (s.rows == 0 || s.rows % (kTileRows * units) != 0) {
      refuse(fmt::format("rows: {} (expected a multiple of {})", s.rows, kTileRows * units));
    }
    if (s.columns == 0 || s.columns % block_elements(s.format) != 0) {
      refuse(fmt::format("columns: {} (expected a multiple of {})", s.columns, block_elements(s.format)));
    }
    if (!variant::supports(s.variant, s.format, s.layout)) {
      refuse(fmt::format("the contract {} has no kernel for {} in this layout", variant::name(s.variant), to_string(s.format)));
    }
    if (s.scattered && row_bytes(s.format, s.columns) % kRowOffsetUnit != 0)
      refuse(fmt::format("columns: a row of {} columns is not a whole number of cache lines", s.columns));
  } else if (is<ops::Attention>(s.op) && (s.context == 0 || s.rows == 0)) {
    refuse("rows or context: 0 (attention expects 1 or more KV heads and a context)");
  }
}

}  // namespace

void add(WorkCounts& sum, const WorkCounts& more) {
  for (std::size_t i = 0; i < kPlacements; ++i) {
    sum.read[i] += more.read[i];
    sum.written[i] += more.written[i];
  }
  sum.macs += more.macs;
  sum.elementwise += more.elementwise;
  sum.lookups += more.lookups;
  sum.conversions += more.conversions;
  sum.row_runs += more.row_runs;
}

Bytes operand_bytes(const CallShape& s) {
  if (is_product(s.op)) return s.rows * row_bytes(s.format, s.columns, s.layout);
  if (!is<ops::Attention>(s.op)) return 0;
  const Bytes tokens = round_up(s.context, kBlockTokens);
  return s.rows * tokens * kv_pair_bytes(s.format, kHeadDim);
}

std::vector<Chain> make_chains(Memory& memory, const CallShape& shape, std::uint64_t copies, std::size_t units) {
  check(shape, units);
  const KernelCall whole = whole_call(memory, shape, copies);
  const std::size_t operand = is<ops::Attention>(shape.op) ? 1 : 0;
  std::vector<Chain> chains(units);
  for (std::size_t unit = 0; unit < units; ++unit) {
    KernelCall call = whole;
    if (is_product(shape.op)) {
      const auto share = static_cast<std::uint32_t>(shape.rows / units);
      call.slice = {static_cast<std::uint32_t>(unit) * share, share};
      if (shape.scattered) scatter(call, shape, call.slice);
    }
    if ((is<ops::Select, ops::Glu>(shape.op)) && shape.rows > 0) call.rows = spread_rows(shape);
    // Sums over rows are whole outputs, and what is not split at all is done by each: outputs of their own.
    if (unit > 0 && !whole.out.empty() && !is<ops::Matmul, ops::Rope>(shape.op)) {
      const View& out = whole.out[0];
      call.out = {leased(memory, Format::f32, out.shape[0], out.shape[1], out.shape[2])};
    }
    if (unit > 0 && is<ops::Rope>(shape.op)) call.in = call.out = {floats(memory, shape.batch, shape.rows, kHeadDim)};
    for (std::uint64_t i = 0; i < copies; ++i) {
      chains[unit].push_back(call);
      chains[unit].back().in[operand].offset += i * operand_bytes(shape);
    }
  }
  return chains;
}

}  // namespace vitro
