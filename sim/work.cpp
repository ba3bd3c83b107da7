#include "sim/work.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/counter.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/group_formats.hpp"
#include "sim/query_tiles.hpp"

namespace vitro::sim {
namespace {

constexpr Bytes kTableBytes = 8;  // per activation: 16 sums of 16 bits for four of them (T-MAN 4.3)

// The operand whose format decides the rate: the weights, or the keys and values.
Format priced_format(const KernelCall& call) {
  if (call.in.empty()) return Format::f32;
  if (call.is<ops::Precompute>()) return call.get<ops::Precompute>().weights;
  if (call.in[0].format == Format::q4_nibbles) return Format::q4_0;  // the same loops, which take the scales from elsewhere
  return reads_kv(call) ? call.in[1].format : call.in[0].format;
}

// A format whose loops do the same per code, for tables that lack this one.
std::optional<Format> priced_like(Format format) {
  if (format.is_group() && format.bits == 8) return Format::q8_0;
  if (format == Format::q4_0_tile) return Format::q4_0;
  if (format == Format::w4_outliers) return Format::w(4, 32, 'r');
  if (!format.is_group() || !format.zero_point || !format.row_scale) return std::nullopt;
  return Format::w(format.bits, format.block, 'z');
}

// Bytes that cross the DRAM bus, whichever unit has them mapped; tightly coupled memory is inside the unit.
Bytes dram_bytes(const std::array<Bytes, kPlacements>& by_placement) {
  return by_placement[static_cast<std::size_t>(Placement::dram)] + by_placement[static_cast<std::size_t>(Placement::npu_mapped)] +
         by_placement[static_cast<std::size_t>(Placement::gpu)];
}

// What the call's operands occupy of the unit's own memory, each lease once however often it is read.
Bytes tcm_bytes(const KernelCall& call) {
  boost::container::static_vector<std::uint64_t, 5> seen;
  Bytes sum = 0;
  const auto add = [&](const View& view) {
    if (!view.memory || view.memory.placement() != Placement::npu_tcm) return;
    if (std::find(seen.begin(), seen.end(), view.memory.id()) != seen.end()) return;
    seen.push_back(view.memory.id());
    sum += view.memory.size();
  };
  for (const View& view : call.in) add(view);
  for (const View& view : call.out) add(view);
  return sum;
}

// Rows of weights meet rows of activations.
bool is_product(const KernelCall& call) { return call.is<ops::Matmul, ops::AddProduct>(); }

bool is_activation(const View& view) {
  const Block* block = view.memory.block();
  return block != nullptr && block->region == Region::activation && block->placement == Placement::dram;
}

struct OperandBytes {
  Bytes young = 0;   // of what a product or attention reads beside the operand that outlives the step
  Bytes recent = 0;  // of operands that the step itself has just made; where a call reads the KV pool or writes it, that outweighs them
};

OperandBytes operand_bytes(const KernelCall& call, const WorkCounts& counts) {
  const bool attends = reads_kv(call), product = is_product(call);
  const bool has_old = attends || product || call.is<ops::Accumulate, ops::KvStage>();
  const bool weighs = call.is<ops::AttentionValues>();  // what it weighs values with is as long as they are
  const bool has_recent = weighs || (!attends && !call.is<ops::KvAppend, ops::KvStage>());
  OperandBytes sum;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    const bool young = has_old && i != (attends ? 1 : 0), recent = has_recent && !(product && i == 0) && is_activation(call.in[i]);
    if (!young && !recent) continue;
    // The room of the weights is that of the longest sequence.
    const Bytes bytes = weighs && i == 0 ? counts.macs / call.in[1].shape[2] * call.in[0].format.block_bytes() : view_bytes(call.in[i]);
    if (young) sum.young += bytes;
    if (recent) sum.recent += bytes;
  }
  return sum;
}

// Of one row, those that share a head of the pool: of scores and weights [B, H, T], or of q, whose heads may be folded.
std::uint32_t query_heads(const KernelCall& call) {
  const View &pool = call.in[1], &numbers = call.is<ops::AttentionScores>() ? call.out[0] : call.in[0];
  if (!call.is<ops::Attention>()) return numbers.shape[1] / pool.shape[0];
  return static_cast<std::uint32_t>(elements(numbers) / call.batch->size() / pool.shape[2] / pool.shape[0]);
}

// The rows of a batch stand sequence by sequence.
std::uint32_t rows_per_sequence(const Batch& batch) {
  if (!batch || batch->empty()) return 1;
  std::uint32_t sequences = 1;
  for (std::size_t i = 1; i < batch->size(); ++i) sequences += (*batch)[i].sequence != (*batch)[i - 1].sequence;
  return static_cast<std::uint32_t>(batch->size()) / sequences;
}

// Of `rows` rows as a vendor's graph has them: a scale for each row, whatever groups the format has that stands for it (T-MAN 3).
Bytes native_bytes(Format format, std::uint64_t rows, std::uint32_t depth) {
  const bool codes = format.is_group() || format.family == Format::Family::block || format.family == Format::Family::tile;
  const std::uint32_t bits = codes ? format.bits : 0;
  return rows * (bits > 0 ? (Bytes{depth} * bits + 7) / 8 + 2 : row_bytes(format, depth));
}

// Dot products of float16 numbers, which some cores add up without a conversion.
bool meets_halves(const KernelCall& call) {
  if (reads_kv(call)) return call.in[0].format == Format::f16 && call.in[1].format == Format::f16;
  return call.is<ops::Matmul>() && call.in[0].format == Format::f16 && call.in[1].format == Format::f16;
}

// Contracts with tables of their own, whatever method is named.
bool has_tables(VariantId variant) { return variant == variant::kInt8Tables || variant == variant::kInt16Tables; }

// What a table may price apart; empty for the rest. Attention's parts have the loops of the whole.
std::string_view own_kind(const KernelCall& call) {
  if (reads_kv(call)) return ops::Attention::kName;
  if (call.is<ops::Accumulate>()) return to_string(call.op);
  const bool integers = call.is<ops::Matmul>() && call.variant == variant::kInt8;
  return integers && call.in[0].layout != Layout::tiled ? to_string(call.in[0].layout) : "";
}

}  // namespace

const hw::KernelCost& WorkBuilder::price(const KernelCall& call) {
  const Format format = priced_format(call);
  const Layout layout = call.in.empty() ? Layout::rows : call.in[0].layout;
  const bool halves = format == Format::f16 && meets_halves(call);
  for (const Known& known : known_) {
    if (known.variant == call.variant && known.format == format && known.op == kind_of(call.op) && known.layout == layout &&
        known.method == call.method && known.halves == halves) {
      return known.price;
    }
  }
  // Attention has one price, whichever way its exponentials are found (price_scores); so have operators without variants.
  const bool plain = call.variant == VariantId::none || variant::attends_in_fp16(call.variant);
  const bool rounded = call.method == Method::lut && has_tables(call.variant);  // another kernel of the same way
  const std::string_view name = call.method != Method::automatic && !rounded ? to_string(call.method)
                                : plain                                      ? variant::name(variant::kFloat)
                                                                             : variant::name(call.variant);
  hw::KernelCost price;
  if (halves) price = model_.kernel(name, reads_kv(call) ? "f16.halves_attention" : "f16.halves");
  if (const std::string_view kind = own_kind(call); !kind.empty() && !price.from_table) {
    price = model_.kernel(name, fmt::format("{}.{}", to_string(format), kind));
  }
  if (!price.from_table) price = model_.kernel(name, to_string(format));
  if (!price.from_table && reads_kv(call) && format.is_for_kv()) {  // a unit whose table has no unpacking
    price = model_.kernel(name, fmt::format("{}.{}", to_string(Format::f16), ops::Attention::kName));
    if (!price.from_table) price = model_.kernel(name, to_string(Format::f16));
    unpriced_.insert(fmt::format("{}.{}.attention on {} (as f16)", name, to_string(format), core_class_));
  }
  // Rounding the activations is nothing beside the product.
  if (!price.from_table && call.variant == variant::kA16) price = model_.kernel(variant::name(variant::kFloat), to_string(format));
  if (!price.from_table && call.variant == variant::kHalfSums) {  // no slower than sums in float32
    price = model_.kernel(variant::name(variant::kFloat), "f16.halves");
    if (!price.from_table) price = model_.kernel(variant::name(variant::kFloat), to_string(format));
    if (price.from_table) unpriced_.insert(fmt::format("{}.f16 on {} (as float32 sums)", name, core_class_));
  }
  if (const auto like = priced_like(format); like && !price.from_table) {
    price = model_.kernel(name, to_string(*like));
    if (price.from_table) unpriced_.insert(fmt::format("{}.{} on {} (as {})", name, to_string(format), core_class_, to_string(*like)));
  }
  known_.push_back({call.variant, format, kind_of(call.op), layout, call.method, halves, price});
  if (!price.from_table) unpriced_.insert(fmt::format("{}.{} on {}", name, to_string(format), core_class_));
  return known_.back().price;
}

const hw::KernelCost& WorkBuilder::operator_price(const Op& op) {
  for (const auto& [known, price] : operators_) {
    if (known == kind_of(op)) return price;
  }
  operators_.emplace_back(kind_of(op), model_.kernel("op", to_string(op)));
  return operators_.back().second;
}

const hw::KernelCost& WorkBuilder::softmax_price(std::string_view of, Exponential exponential) {
  const std::pair key{of, exponential};
  for (const auto& [known, price] : softmaxes_) {
    if (known == key) return price;
  }
  softmaxes_.emplace_back(key, model_.kernel(of, fmt::format("exp_{}", to_string(exponential))));
  return softmaxes_.back().second;
}

const hw::KernelCost& WorkBuilder::quotient_price() {
  if (!quotient_) quotient_ = model_.kernel("attention", "quotient");
  return *quotient_;
}

// A unit whose table has softmax pays for the exponential of the call's contract; `exact` pays for the polynomial in float32. Where it has
// the steps of attention, these are its price (engine/base/attention_plan.hpp).
void WorkBuilder::price_scores(const KernelCall& call, const WorkCounts& counts, hw::Work& work) {
  const Exponential exponential = variant::exponential_of(call.variant).value_or(Exponential::f32);
  const hw::KernelCost blocks = softmax_price("attention", exponential);
  const hw::KernelCost own = blocks.per_element ? blocks : softmax_price("softmax", exponential);
  if (!own.per_element) return;
  work.kv_heads = sliced(call, call.in[1].shape[0]).count;
  work.head_columns = call.in[1].shape[2];
  work.in_blocks = blocks.per_element;
  work.exponential = exponential;
  if (blocks.per_element) work.quotient = quotient_price().id;
  work.has_own_softmax = true;
  work.softmax = own.id;
  work.elements = counts.macs / (2 * call.in[1].shape[2]);
  work.elementwise -= std::min(work.elementwise, work.elements * work::kSoftmax);
}

// Look-ups need no weight converted; tables stay in the unit from `precompute` to the last product that reads them.
void WorkBuilder::price_tables(const KernelCall& call, hw::Work& work) const {
  const View& x = call.in[call.is<ops::Matmul>() ? 1 : 0];
  work.conversions = work.elementwise = 0;
  const bool precomputed = call.is<ops::Matmul>() && call.get<ops::Matmul>().precomputed;
  if (!precomputed) work.table_inputs = elements(x);
  if (!call.is<ops::Matmul>()) return;
  work.table_bytes = kTableBytes * elements(x);
  if (!precomputed) return;
  work.read_bytes -= std::min(work.read_bytes, view_bytes(x));
  work.recent_read_bytes = 0;
}

// Tables are of sums of int8 activations, which somebody has to make of the floats that the call before left. A core's price of a product
// has that in its conversions; an accelerator's has a kernel of its own for it, done once where tables are made once.
void WorkBuilder::price_rounding(const KernelCall& call, hw::Work& work) {
  const auto block = static_cast<std::uint32_t>(block_elements(priced_format(call)));
  const std::string_view kind = call.variant == variant::kInt16Tables ? "int16_activations" : "int8_activations";
  const std::pair key{kind, block};
  auto known = std::ranges::find(roundings_, key, [](const auto& entry) { return entry.first; });
  if (known == roundings_.end()) {
    roundings_.emplace_back(key, model_.kernel(kind, fmt::format("g{}", block)));
    known = roundings_.end() - 1;
  }
  if (known->second.per_element) {
    work.rounds_activations = true;
    work.rounding = known->second.id;
    work.conversions = 0;
  } else if (call.method == Method::lut) {
    unpriced_.insert(fmt::format("{}.g{} on {} (as nothing)", kind, block, core_class_));
  }
}

// Weights that the unit does not read as the operand lies: a vendor's graph has its form of them, an accelerator its panels, which hold
// a row's one scale once as tiles do.
void WorkBuilder::take_own_layout(const KernelCall& call, hw::Work& work) const {
  const Format format = call.in[0].format;
  Bytes own = work.weight_bytes;
  if (ways_.lays_out) own = std::min(own, work.columns * row_bytes(format, work.depth, Layout::tiled));
  if (call.method == Method::native) own = std::min(own, native_bytes(format, work.columns, work.depth));
  const Bytes spared = work.weight_bytes - own;
  work.weight_bytes -= spared;
  work.read_bytes -= spared;
  work.reused_bytes -= std::min(spared, work.reused_bytes);
}

const hw::Work& WorkBuilder::build(const KernelCall& call) {
  const CallForm form(call);
  if (!form) return single_ = work_of(call);
  KnownWorks::Known& known = works_.at(form);
  if (known.form == form) {
    if (known.work.row_runs > 0) known.work.row_runs = ops::row_runs(call);
  } else {
    known = {form, work_of(call)};
    model_.prepare(known.work);
  }
  return known.work;
}

hw::Work WorkBuilder::work_of(const KernelCall& call) {
  WorkCounts counts = count_(call);
  hw::Work work;
  // Attention in fp16 has tiles of its own, and its table prices it row by row.
  if (ways_.tiles_queries && call.is<ops::Attention>() && !variant::attends_in_fp16(call.variant)) {
    const SharedKeys shared = share_keys(call, query_heads(call), counts);
    work.shared_macs = shared.macs;
    work.tile_queries = shared.queries;
  }
  if (counts.macs > 0 || call.is<ops::Precompute>()) {
    work.kernel = price(call).id;
  } else if (call.is<ops::Softmax>()) {
    const auto& softmax = call.get<ops::Softmax>();
    const hw::KernelCost& own = softmax_price("softmax", softmax.exponential);
    work.kernel = own.id;
    work.has_own_rate = own.from_table;
    work.elements = softmax.times * elements(call.in[0]);
  } else if (counts.elementwise > 0) {
    const hw::KernelCost& own = operator_price(call.op);
    work.kernel = own.id;
    work.has_own_rate = own.from_table;
  }
  if (call.is<ops::KvStage>()) {  // no table has its loop
    unpriced_.insert(fmt::format("{}.{} on {} (general conversions)", to_string(call.in[0].format), to_string(call.op), core_class_));
  }
  work.rows = call.batch ? static_cast<std::uint32_t>(call.batch->size()) : 1;
  if (call.is<ops::AddProduct>()) work.rows = call.in[1].shape[0];  // those of one adapter, of a batch of several
  if (is_product(call)) {
    const View& weights = call.in[0];
    work.columns =
        call.rows ? static_cast<std::uint32_t>(call.rows->size()) : std::min(call.slice.count, weights.shape[0] - call.slice.first);
    work.depth = weights.shape[1];
    if (weights.memory.placement() != Placement::npu_tcm) {
      work.weight_bytes = work.columns * row_bytes(weights.format, work.depth, weights.layout);
    }
  }
  if (call.is<ops::Accumulate>()) {
    const View& weights = call.in[0];
    work.columns = weights.shape[1];
    work.depth =
        call.rows ? static_cast<std::uint32_t>(call.rows->size()) : std::min(call.slice.count, weights.shape[0] - call.slice.first);
    work.transposed = true;
    work.weight_bits = priced_format(call).bits;
    work.weight_bytes = work.depth * row_bytes(weights.format, weights.shape[1]);
  }
  if (reads_kv(call)) {
    work.sequence_rows = rows_per_sequence(call.batch);
    work.query_heads = query_heads(call);
  }
  work.read_bytes = dram_bytes(counts.read);
  const OperandBytes operands = operand_bytes(call, counts);
  // Weights, keys and values; the rest of what a product or attention reads is as young as the call before.
  if (is_product(call) || reads_kv(call) || call.is<ops::Accumulate, ops::KvStage>()) {
    work.reused_bytes = work.read_bytes - std::min(work.read_bytes, operands.young);
  }
  work.written_bytes = dram_bytes(counts.written);
  // A slice reads less than its operands hold: never more than what is read beside the weights.
  work.recent_read_bytes = std::min(operands.recent, work.read_bytes - std::min(work.read_bytes, work.weight_bytes));
  work.recent_written_bytes = !call.out.empty() && is_activation(call.out[0]) ? work.written_bytes : 0;
  work.tcm_bytes = tcm_bytes(call);
  work.macs = counts.macs;
  work.elementwise = counts.elementwise;
  work.lookups = counts.lookups;
  work.conversions = counts.conversions;
  work.row_runs = counts.row_runs;
  work.in_places = call.is<ops::Matmul>() && call.row_offsets != nullptr;
  if (call.is<ops::Matmul>()) {
    const Format format = priced_format(call);
    work.group = static_cast<std::uint32_t>(block_elements(format));
    work.weight_bits = format.bits;
    work.zero_points = format.zero_point;
  }
  if (call.is<ops::Attention>()) price_scores(call, counts, work);
  if (call.method == Method::lut) price_tables(call, work);
  // The variant looks up whatever way is named: a unit that prices tables apart from quantising makes them in this call.
  if (call.is<ops::Matmul>() && call.method == Method::automatic && has_tables(call.variant)) {
    work.table_inputs = elements(call.in[1]);
    work.table_bytes = kTableBytes * work.table_inputs;
  }
  if (work.table_inputs > 0) price_rounding(call, work);
  if (call.is<ops::Matmul>() && work.weight_bytes > 0) take_own_layout(call, work);
  return work;
}

}  // namespace vitro::sim
