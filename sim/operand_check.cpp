#include "sim/operand_check.hpp"

#include <fmt/format.h>

#include "engine/base/hash.hpp"
#include "engine/ops/operands.hpp"

namespace vitro::sim {
namespace {

bool overlap(const View& a, Bytes a_bytes, const View& b, Bytes b_bytes) {
  if (a.memory.id() != b.memory.id()) return false;
  return a.offset < b.offset + b_bytes && b.offset < a.offset + a_bytes;
}

// Of the memory behind an operand's offset, what the call may touch: rows in places may stand anywhere in it.
Bytes reach(const View& view, bool at_row_offsets) { return at_row_offsets ? view.memory.size() - view.offset : view_bytes(view); }

bool reads_row_offsets(const KernelCall& call, std::size_t operand) { return operand == 0 && call.row_offsets != nullptr; }

// Whether the call writes where operand `view` of another call, or of itself, may be read.
bool writes_into(const KernelCall& call, const View& view, bool at_row_offsets) {
  return !call.out.empty() && call.out[0].memory && view.memory &&
         overlap(view, reach(view, at_row_offsets), call.out[0], reach(call.out[0], call.is<ops::Copy>() && call.row_offsets != nullptr));
}

bool in_place(const KernelCall& call) { return !call.in.empty() && writes_into(call, call.in[0], reads_row_offsets(call, 0)); }

bool written_by_others(const KernelCall& call, std::size_t operand) {
  const bool pool = reads_kv(call) && operand == 1;
  return pool || (operand == 0 && in_place(call));
}

std::uint64_t sum_bytes(const KernelCall& call, std::size_t operand) {
  const View& view = call.in[operand];
  Hash hash;
  const bool rows_only = (call.is<ops::Matmul>() || call.is<ops::Accumulate>()) && operand == 0 && view.layout == Layout::rows;
  if (rows_only) {
    const Bytes row = row_bytes(view.format, columns(view));
    for_each_row(call, [&](std::uint32_t, Bytes at) { hash.add({view.data() + at, row}); });
  } else if (call.is<ops::Copy>() && call.row_offsets != nullptr) {
    for (const std::uint32_t place : *call.rows) hash.add({view.data() + place * kRowOffsetUnit, row_bytes(view.format, columns(view))});
  } else if (view.layout == Layout::rows) {
    hash.add({view.data(), view_bytes(view)});
  }
  return hash.value();
}

}  // namespace

std::vector<OperandSums> sum_operands(const Chain& chain) {
  std::vector<OperandSums> all(chain.size());
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const KernelCall& call = chain[i];
    for (std::size_t operand = 0; operand < call.in.size(); ++operand) {
      const View& view = call.in[operand];
      if (!view.memory || view.data() == nullptr || written_by_others(call, operand)) continue;
      bool written = false;
      for (std::size_t j = 0; j < i && !written; ++j) {
        written = writes_into(chain[j], view, reads_row_offsets(call, operand));
      }
      if (!written) all[i].push_back({operand, sum_bytes(call, operand)});
    }
  }
  return all;
}

void check_operands(const KernelCall& call, const OperandSums& sums, std::string_view unit) {
  for (const OperandSum& sum : sums) {
    if (sum_bytes(call, sum.operand) == sum.sum) continue;
    throw RunError(fmt::format("{}: operand {} of {} (layer {}) was overwritten while the call was in flight", unit, sum.operand,
                               to_string(call.op), call.layer));
  }
}

}  // namespace vitro::sim
