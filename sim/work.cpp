#include "sim/work.hpp"

#include <fmt/format.h>

#include "engine/kernels/variants.hpp"

namespace vitro::sim {
namespace {

// The operand whose format decides the rate: the weights, or the keys and values.
Format priced_format(const KernelCall& call) {
  if (call.in.empty()) return Format::f32;
  return call.op == Op::attention && call.in.size() > 1 ? call.in[1].format : call.in[0].format;
}

// Bytes that cross the DRAM bus, whichever unit has them mapped; tightly coupled memory is inside the unit.
Bytes dram_bytes(const std::array<Bytes, kPlacements>& by_placement) {
  return by_placement[static_cast<std::size_t>(Placement::dram)] + by_placement[static_cast<std::size_t>(Placement::npu_mapped)] +
         by_placement[static_cast<std::size_t>(Placement::gpu)];
}

}  // namespace

const hw::KernelPrice& WorkBuilder::price(VariantId variant, Format format) {
  for (const Known& known : known_) {
    if (known.variant == variant && known.format == format) return known.price;
  }
  // Operators without variants (attention) follow the float contract.
  const std::string_view name = variant::name(variant == VariantId::none ? variant::kFloat : variant);
  known_.push_back({variant, format, model_.kernel(name, to_string(format))});
  if (!known_.back().price.from_table) unpriced_.insert(fmt::format("{}.{} on {}", name, to_string(format), core_class_));
  return known_.back().price;
}

hw::Work WorkBuilder::build(const KernelCall& call) {
  const WorkCounts counts = count_(call);
  hw::Work work;
  if (counts.macs > 0) work.kernel = price(call.variant, priced_format(call)).id;
  work.rows = call.batch ? static_cast<std::uint32_t>(call.batch->size()) : 1;
  work.read_bytes = dram_bytes(counts.read);
  work.written_bytes = dram_bytes(counts.written);
  work.macs = counts.macs;
  work.elementwise = counts.elementwise;
  work.lookups = counts.lookups;
  work.conversions = counts.conversions;
  work.row_runs = counts.row_runs;
  return work;
}

}  // namespace vitro::sim
