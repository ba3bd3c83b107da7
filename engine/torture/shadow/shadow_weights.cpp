#include "engine/torture/shadow/shadow_weights.hpp"

#include <fmt/format.h>

#include "engine/ops/operands.hpp"

namespace vitro {

void ShadowWeights::add(const WeightStore& weights) {
  for (const Weight& weight : weights.all()) all_.push_back(&weight);
}

std::optional<ShadowWeights::Place> ShadowWeights::at(FileId file, Bytes offset) const {
  for (const Weight* weight : all_) {
    const Extent& extent = weight->extent;
    if (extent.file != file || offset < extent.offset || offset >= extent.offset + extent.length) continue;
    const Bytes within = offset - extent.offset, matrix = weight->matrix_bytes();
    return Place{weight, static_cast<std::uint32_t>(within / matrix), within % matrix};
  }
  return std::nullopt;
}

namespace {

// Whether `count` rows from `first` on may be q, k or v, Gate or Up of a joined matrix. Keys and values have as many rows each.
bool is_part(const Weight& weight, std::uint64_t first, std::uint64_t count) {
  if (weight.role == Role::ffn_gate_up) return 2 * count == weight.rows && (first == 0 || first == count);
  if (weight.role != Role::attn_qkv || count > weight.rows) return false;
  return first == 0 ? (weight.rows - count) % 2 == 0 : first + count == weight.rows || first + 2 * count == weight.rows;
}

}  // namespace

std::string ShadowWeights::mismatch(const KernelCall& call, const Place& place, std::uint32_t row, Bytes expected) {
  const Weight& weight = *place.weight;
  const bool other_layer = call.layer >= 0 && weight.layer >= 0 && weight.layer != call.layer;
  const bool other_expert = call.expert >= 0 && weight.experts > 1 && place.expert != static_cast<std::uint32_t>(call.expert);
  bool other_row = false;
  if (weight.role == Role::ffn_bundle) {
    const BundleLayout layout = weight.bundles();
    other_row = place.offset / layout.piece() % layout.blocks() != layout.block_of(row);
  } else {
    const View& view = call.in[0];
    const Bytes row_size = row_bytes(view.format, view.shape[1], view.layout), before = place.offset - expected;
    const bool part = place.offset >= expected && before % row_size == 0 && is_part(weight, before / row_size, view.shape[0]);
    other_row = place.offset != expected && !part;
  }
  if (!other_layer && !other_expert && !other_row) return "";
  return fmt::format("{} of layer {} expert {} row {} computes with byte {} of {} expert {}", to_string(call.op), call.layer, call.expert,
                     row, place.offset, weight.name, place.expert);
}

}  // namespace vitro
