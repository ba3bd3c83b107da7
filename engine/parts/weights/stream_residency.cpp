#include "engine/parts/weights/stream_residency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/parts/weights/shared_order.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kReadDepth = 4;

// A matrix need not begin on a page: where in its buffer it does.
Bytes skew_of(const Weight& weight, std::uint32_t expert) { return expert * weight.matrix_bytes() % kPageSize; }

int layer_of(const WorkItem& item) { return item.calls.empty() ? -1 : int{item.calls.front().layer}; }

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
  std::uint32_t experts = 1;
  for (const Weight& weight : weights_.all()) experts = options_.experts_at_once ? std::max(experts, weight.experts) : 1;
  for (const auto& [role, bytes] : largest) buffers += bytes * experts;
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
      for (std::uint32_t expert = 0; expert < experts; ++expert) {
        buffers_[role].push_back({machine_.memory.lease(bytes, Placement::dram, Region::cold).value_or_throw(), {}, {}, {}});
      }
    }
  }
  co_await DenseResidency::load();
}

const StreamResidency::Buffer& StreamResidency::buffer_of(const Weight& weight, std::uint32_t expert) const {
  const std::vector<Buffer>& buffers = buffers_.at(weight.role);
  return buffers[expert % buffers.size()];
}

View StreamResidency::view(const Weight& weight, std::uint32_t expert) const {
  if (!streamed_.contains(&weight)) return DenseResidency::view(weight, expert);
  View view;
  view.memory = buffer_of(weight, expert).memory;
  view.offset = skew_of(weight, expert);
  view.shape = {weight.rows, weight.columns, 0};
  view.format = weight.format;
  view.layout = weight.layout;
  return view;
}

void StreamResidency::plan(const UnitQueues& phase) {
  steps_.clear();
  number_.assign(phase.size(), {});
  for (auto& [role, buffers] : buffers_) {
    for (Buffer& buffer : buffers) {
      buffer.users.clear();
      buffer.reader.reset();
      if (abandoned_) buffer.holds = {};
    }
  }
  abandoned_ = false;
  const auto add = [&](std::size_t unit, std::size_t item) {
    const std::vector<WorkItem>& queue = phase[unit];
    const auto number = static_cast<std::uint32_t>(steps_.size());
    number_[unit].push_back(number);
    Step& step = steps_.emplace_back();
    step.unit = unit;
    step.begins_layer = item > 0 && layer_of(queue[item]) != layer_of(queue[item - 1]);
    plan_item(queue[item], number);
  };
  in_shared_order(phase, [this](const WorkItem& item) { return lacking(item); }, add);
}

std::optional<StreamResidency::Matrix> StreamResidency::lacking(const WorkItem& item) const {
  for (const WeightUse& use : item.uses) {
    const Matrix needed{use.weight, static_cast<std::uint32_t>(use.offset / use.weight->matrix_bytes())};
    if (streamed_.contains(use.weight) && buffer_of(*needed.weight, needed.expert).holds != needed) return needed;
  }
  return std::nullopt;
}

void StreamResidency::plan_item(const WorkItem& item, std::uint32_t number) {
  Step& step = steps_[number];
  for (const WeightUse& use : item.uses) {
    if (!is_ffn(use.weight->role)) continue;
    const Matrix needed{use.weight, static_cast<std::uint32_t>(use.offset / use.weight->matrix_bytes())};
    if (!streamed_.contains(use.weight)) {
      ++stats_.hits;
      continue;
    }
    std::vector<Buffer>& buffers = buffers_.at(use.weight->role);
    Buffer& buffer = buffers[needed.expert % buffers.size()];
    // A unit's own items are in order anyway.
    const auto others = [&](std::uint32_t user) { return steps_[user].unit != step.unit; };
    if (buffer.holds == needed) {
      ++stats_.hits;
      if (buffer.reader && others(*buffer.reader)) step.after_fetch.push_back(*buffer.reader);
    } else {
      ++stats_.misses;
      VITRO_CHECK(buffer.users.empty() || buffer.users.back() != number, "an item needs two matrices of one buffer");
      std::ranges::copy_if(buffer.users, std::back_inserter(step.after_done), others);
      buffer.users.clear();
      buffer.holds = needed;
      buffer.reader = number;
      step.reads.push_back(needed);
    }
    buffer.users.push_back(number);
  }
}

bool StreamResidency::ready(std::size_t unit, std::size_t item) const {
  const Step& step = steps_[number_.at(unit).at(item)];
  return step.reads.empty() && !step.begins_layer && std::ranges::all_of(step.after_fetch, [&](auto i) { return steps_[i].fetched; });
}

Task<void> StreamResidency::fetch(std::size_t unit, std::size_t item, UnitId) {
  Step& own = step(unit, item);
  for (const std::uint32_t reader : own.after_fetch) {
    while (!steps_[reader].fetched) co_await moved_.changed();
  }
  for (const std::uint32_t user : own.after_done) {
    while (!steps_[user].finished) co_await moved_.changed();
  }
  if (abandoned_) co_return;
  for (const Matrix& matrix : own.reads) {
    const Bytes bytes = matrix.weight->matrix_bytes(), skew = skew_of(*matrix.weight, matrix.expert);
    Weight part = *matrix.weight;
    part.extent.offset += matrix.expert * bytes - skew;
    part.extent.length = round_up(skew + bytes, kPageSize);
    machine_.trace.decision("load", part.name, "cold");
    co_await read_weight(&machine_, &part, buffer_of(part, matrix.expert).memory, 0, options_.reader, kReadDepth);
  }
  own.fetched = true;
  moved_.notify();
}

void StreamResidency::done(std::size_t unit, std::size_t item) {
  Step& own = step(unit, item);
  own.fetched = own.finished = true;  // items that were ready never went through fetch()
  moved_.notify();
}

void StreamResidency::abandon() {
  abandoned_ = true;
  for (Step& step : steps_) step.fetched = step.finished = true;
  moved_.notify();
}

}  // namespace vitro
