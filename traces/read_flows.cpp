#include "traces/read_flows.hpp"

#include <algorithm>

#include "engine/quant/blocks.hpp"

namespace vitro {

std::uint64_t ReadFlows::arrived(std::uint64_t block, Bytes offset, Bytes length) {
  Places& places = blocks_[block];
  std::vector<std::uint64_t> overwritten;
  take(places, offset, offset + length, overwritten);
  places[offset] = {offset + length, ++last_};
  order_.push_back({block, offset, last_});
  ++kept_;
  while (kept_ > kMost || order_.size() > 2 * kMost) forget_oldest();
  return last_;
}

void ReadFlows::forget_oldest() {
  const Arrival oldest = order_.front();
  order_.pop_front();
  const auto block = blocks_.find(oldest.block);
  if (block == blocks_.end()) return;
  const auto place = block->second.find(oldest.offset);
  if (place == block->second.end() || place->second.flow != oldest.flow) return;
  block->second.erase(place);
  --kept_;
  if (block->second.empty()) blocks_.erase(block);
}

void ReadFlows::forget_all() {
  blocks_.clear();
  order_.clear();
  kept_ = 0;
}

void ReadFlows::take(Places& places, Bytes begin, Bytes end, std::vector<std::uint64_t>& flows) {
  auto place = places.upper_bound(begin);
  if (place != places.begin() && std::prev(place)->second.end > begin) --place;
  while (place != places.end() && place->first < end) {
    flows.push_back(place->second.flow);
    place = places.erase(place);
    --kept_;
  }
}

// The bytes that the call reads of an operand: rows that it names, those of its slice, or all.
void ReadFlows::take_operand(const KernelCall& call, std::size_t operand, Places& places, std::vector<std::uint64_t>& flows) {
  const View& view = call.in[operand];
  const std::uint32_t columns = view.shape[2] > 0 ? view.shape[2] : view.shape[1] > 0 ? view.shape[1] : view.shape[0];
  const Bytes whole_blocks = columns - columns % view.format.block;
  const Bytes row = row_bytes(view.format, whole_blocks, view.layout);
  const auto rows = [&](const IndexList& which, Bytes unit) {
    for (const std::uint32_t r : *which) take(places, view.offset + r * unit, view.offset + r * unit + row, flows);
  };
  if (operand == 0 && call.rows && (call.row_offsets == nullptr || call.is<ops::Copy>())) {
    return rows(call.rows, call.is<ops::Copy>() ? kRowOffsetUnit : row);
  }
  if (operand == 0 && call.row_offsets) return rows(call.row_offsets, kRowOffsetUnit);
  const Bytes lines = view.shape[2] > 0 ? Bytes{view.shape[0]} * view.shape[1] : view.shape[1] > 0 ? view.shape[0] : 1;
  const bool sliced = operand == 0 && call.is<ops::Matmul>() && call.slice.count != ~0u;
  const Bytes first = sliced ? call.slice.first : 0, count = sliced ? call.slice.count : lines;
  take(places, view.offset + first * row, view.offset + (first + count) * row, flows);
}

std::vector<std::uint64_t> ReadFlows::taken(const KernelCall& call) {
  std::vector<std::uint64_t> flows;
  for (std::size_t i = 0; i < call.in.size() && kept_ > 0; ++i) {
    if (!call.in[i].memory) continue;
    const auto found = blocks_.find(call.in[i].memory.id());
    if (found == blocks_.end()) continue;
    take_operand(call, i, found->second, flows);
    if (found->second.empty()) blocks_.erase(found);
  }
  std::ranges::sort(flows);
  return flows;
}

}  // namespace vitro
