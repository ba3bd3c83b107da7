#include "engine/parts/weights/stream_residency.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vitro {
namespace {

constexpr std::uint32_t kReadDepth = 4;

// A matrix need not begin on a page: where in its buffer it does.
Bytes skew_of(const Weight& weight, std::uint32_t expert) { return expert * weight.matrix_bytes() % kPageSize; }

}  // namespace

bool StreamResidency::is_kept(const Weight& weight) const { return DenseResidency::is_kept(weight) && !streamed_.contains(&weight); }

Task<void> StreamResidency::load() {
  std::map<Role, Bytes> largest;
  Bytes other = 0, buffers = 0;
  for (const Weight& weight : weights_.all()) {
    if (is_ffn(weight.role)) {
      largest[weight.role] = std::max(largest[weight.role], round_up(weight.matrix_bytes(), kPageSize) + kPageSize);
    } else if (is_kept(weight)) {
      other += round_up(weight.extent.length, kPageSize);
    }
  }
  for (const auto& [role, bytes] : largest) buffers += bytes;
  const Budget& budget = machine_.memory.budget(Placement::dram);
  const Bytes all = weights_.ffn_bytes(), taken = budget.used + options_.keep_free + other;
  const bool fits = options_.ffn_in_dram ? *options_.ffn_in_dram >= 1 : taken + all <= budget.limit;
  if (!fits) {
    if (taken + buffers > budget.limit) {
      throw ConfigError(fmt::format(
          "memory.budget: {} are in use without the FFNs, and {} are needed to buffer matrices, which is more than the budget of {}",
          format_bytes(taken), format_bytes(buffers), format_bytes(budget.limit)));
    }
    Bytes room = budget.limit - taken - buffers;
    if (options_.ffn_in_dram) room = std::min(room, static_cast<Bytes>(*options_.ffn_in_dram * static_cast<double>(all)));
    for (const Weight& weight : weights_.all()) {
      if (!is_ffn(weight.role)) continue;
      const Bytes bytes = round_up(weight.extent.length, kPageSize);
      if (bytes > room) {
        streamed_.insert(&weight);
        room = 0;  // what stays is the beginning of the model
      } else {
        room -= bytes;
      }
    }
    for (const auto& [role, bytes] : largest) {
      buffers_[role] = {machine_.memory.lease(bytes, Placement::dram, Region::cold).value_or_throw(), {}};
    }
  }
  co_await DenseResidency::load();
}

View StreamResidency::view(const Weight& weight, std::uint32_t expert) const {
  if (!streamed_.contains(&weight)) return DenseResidency::view(weight, expert);
  View view;
  view.memory = buffers_.at(weight.role).memory;
  view.offset = skew_of(weight, expert);
  view.shape = {weight.rows, weight.columns, 0};
  view.format = weight.format;
  view.layout = weight.layout;
  return view;
}

void StreamResidency::plan(const UnitQueues& phase) {
  VITRO_CHECK(phase.size() == 1, "weights are streamed for one unit");
  reads_.assign(phase.front().size(), {});
  begins_layer_.assign(phase.front().size(), false);
  const auto layer_of = [&](std::size_t item) {
    const Chain& calls = phase.front()[item].calls;
    return calls.empty() ? -1 : int{calls.front().layer};
  };
  for (std::size_t item = 0; item < reads_.size(); ++item) {
    begins_layer_[item] = item > 0 && layer_of(item) != layer_of(item - 1);
    for (const WeightUse& use : phase.front()[item].uses) {
      if (!is_ffn(use.weight->role)) continue;
      const Matrix needed{use.weight, static_cast<std::uint32_t>(use.offset / use.weight->matrix_bytes())};
      Matrix* holds = streamed_.contains(use.weight) ? &buffers_.at(use.weight->role).holds : nullptr;
      if (holds == nullptr || *holds == needed) {
        ++stats_.hits;
        continue;
      }
      const bool free = std::ranges::none_of(reads_[item], [&](const Matrix& other) { return other.weight->role == use.weight->role; });
      VITRO_CHECK(free, "an item needs two matrices of one buffer");
      ++stats_.misses;
      *holds = needed;
      reads_[item].push_back(needed);
    }
  }
}

Task<void> StreamResidency::fetch(std::size_t, std::size_t item, UnitId) {
  for (const Matrix& matrix : reads_[item]) {
    const Bytes bytes = matrix.weight->matrix_bytes(), skew = skew_of(*matrix.weight, matrix.expert);
    Weight part = *matrix.weight;
    part.extent.offset += matrix.expert * bytes - skew;
    part.extent.length = round_up(skew + bytes, kPageSize);
    machine_.trace.decision("load", part.name, "cold");
    co_await read_weight(&machine_, &part, buffers_.at(part.role).memory, 0, options_.reader, kReadDepth);
  }
}

}  // namespace vitro
