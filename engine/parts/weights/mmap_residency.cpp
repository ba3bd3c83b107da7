#include "engine/parts/weights/mmap_residency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace vitro {
namespace {

constexpr std::uint32_t kLoadDepth = 4;

std::uint32_t page_of(Bytes offset) { return static_cast<std::uint32_t>(offset / kPageSize); }

Bytes end_of_file(const WeightStore& weights) {
  Bytes end = 0;
  for (const Weight& weight : weights.all()) end = std::max(end, weight.extent.offset + weight.extent.length);
  return round_up(end, kPageSize);
}

// Contiguous runs of a page list as (first, count), none of them across a border of two windows.
std::vector<std::pair<std::uint32_t, std::uint32_t>> runs_of(std::vector<std::uint32_t> pages, std::uint32_t window = ~0u) {
  std::sort(pages.begin(), pages.end());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> runs;
  for (const std::uint32_t page : pages) {
    if (!runs.empty() && runs.back().first + runs.back().second == page && page % window != 0) {
      ++runs.back().second;
    } else {
      runs.emplace_back(page, 1);
    }
  }
  return runs;
}

}  // namespace

MmapResidency::MmapResidency(Machine& machine, const WeightStore& weights, MmapOptions options)
    : machine_(machine),
      weights_(weights),
      options_(options),
      window_(static_cast<std::uint32_t>(std::max<Bytes>(options.read_ahead / kPageSize, 1))),
      file_size_(end_of_file(weights)),
      pages_(page_of(file_size_)),
      committed_(page_of(file_size_)),
      mapped_(page_of(file_size_)) {
  for (const Weight& weight : weights.all()) {
    file_ = weight.extent.file;
    if (!managed(weight)) continue;
    for (std::uint32_t p = page_of(weight.extent.offset); p < page_of(round_up(weight.extent.offset + weight.extent.length, kPageSize));
         ++p) {
      mapped_[p] = true;
    }
  }
}

bool MmapResidency::managed(const Weight& weight) const { return !options_.ffn_in_dram || is_ffn(weight.role); }

Task<void> MmapResidency::load() {
  range_ = machine_.memory.reserve(file_size_, Placement::dram, Region::cold).value_or_throw();
  for (const Weight& weight : weights_.all()) {
    if (managed(weight) || is_predictor(weight.role)) continue;
    Result<Lease> lease = machine_.memory.lease(weight.extent.length, Placement::dram, Region::fixed);
    if (!lease.ok()) throw ConfigError("memory.budget: " + lease.status().message);
    pinned_[&weight] = lease.value();
    machine_.trace.decision("load", weight.name, "dram");
    co_await read_weight(&machine_, &weight, lease.value(), 0, machine_.units.front()->caps().id, kLoadDepth);
  }
  const Budget& budget = machine_.memory.budget(Placement::dram);
  const Bytes rest = budget.limit - budget.used;
  const Bytes free = rest > options_.keep_free ? rest - options_.keep_free : 0;
  const Bytes wanted = options_.ffn_in_dram ? static_cast<Bytes>(*options_.ffn_in_dram * static_cast<double>(weights_.ffn_bytes())) : free;
  const std::uint32_t capacity = page_of(std::min({wanted, free, file_size_}));
  if (capacity == 0) {
    throw ConfigError(
        fmt::format("memory.budget: {} of {} are taken by activations, runtime and {} of KV cache; nothing is left for weights",
                    format_bytes(budget.used), format_bytes(budget.limit), format_bytes(options_.keep_free)));
  }
  cache_.emplace(page_of(file_size_), capacity);
}

View MmapResidency::view(const Weight& weight, std::uint32_t expert) const {
  View view;
  const auto pinned = pinned_.find(&weight);
  view.memory = pinned != pinned_.end() ? pinned->second : range_;
  view.offset = (pinned != pinned_.end() ? 0 : weight.extent.offset) + expert * weight.matrix_bytes();
  view.shape = {weight.rows, weight.columns, 0};
  view.format = weight.format;
  view.layout = weight.layout;
  return view;
}

// Calls f(page) for what the item reads, use by use.
template <class F>
void MmapResidency::for_each_page(const WorkItem& item, F f) const {
  for (const WeightUse& use : item.uses) {
    if (!managed(*use.weight) || use.length == 0) continue;
    const Bytes begin = use.weight->extent.offset + use.offset;
    for (std::uint32_t p = page_of(begin); p <= page_of(begin + use.length - 1); ++p) f(p);
  }
}

void MmapResidency::refuse() const {
  throw ConfigError(
      fmt::format("memory.budget: {} for mapped weights is below the smallest working set: one slice of a matrix and its read-ahead of {} "
                  "need more (raise memory.budget or lower engine.weights.read_ahead)",
                  format_bytes(Bytes(cache_->capacity()) * kPageSize), format_bytes(options_.read_ahead)));
}

void MmapResidency::check_room(const UnitQueues& phase) const {
  for (const std::vector<WorkItem>& queue : phase) {
    for (const WorkItem& item : queue) {
      std::set<std::uint32_t> windows;
      for_each_page(item, [&](std::uint32_t page) { windows.insert(page / window_); });
      std::size_t pages = 0;
      for (const std::uint32_t window : windows) {
        const auto first = mapped_.begin() + std::ptrdiff_t{window} * window_;
        pages += static_cast<std::size_t>(std::count(first, first + std::min<std::ptrdiff_t>(window_, mapped_.end() - first), true));
      }
      if (pages > cache_->capacity()) refuse();
    }
  }
}

void MmapResidency::forget_all() {
  std::vector<std::uint32_t> pages;
  for (std::uint32_t page = 0; page < committed_.size(); ++page) {
    if (committed_[page]) pages.push_back(page);
  }
  for (const auto& [first, count] : runs_of(pages)) machine_.memory.decommit(range_, first * kPageSize, count * kPageSize);
  committed_.assign(committed_.size(), false);
  cache_.emplace(page_of(file_size_), cache_->capacity());
  abandoned_ = false;
}

void MmapResidency::plan(const UnitQueues& phase) {
  if (abandoned_) forget_all();
  ++phase_;
  steps_.clear();
  number_.assign(phase.size(), {});
  std::size_t longest = 0;
  const CacheStats before = stats_;
  for (const auto& queue : phase) longest = std::max(longest, queue.size());
  for (std::size_t item = 0; item < longest; ++item) {
    for (std::size_t unit = 0; unit < phase.size(); ++unit) {
      if (item >= phase[unit].size()) continue;
      const auto number = static_cast<std::uint32_t>(steps_.size());
      number_[unit].push_back(number);
      steps_.emplace_back();
      for_each_page(phase[unit][item], [&](std::uint32_t page) { use_page(page, number); });
      if (machine_.trace.enabled()) {
        const std::string where = unit < machine_.units.size() ? machine_.units[unit]->caps().name : fmt::format("queue {}", unit);
        log("evict", steps_.back().evict, where);
        log("load", steps_.back().load, where);
      }
    }
  }
  if (stats_.hits > before.hits) machine_.clock.charge(PolicyWork::cache_lookup, static_cast<std::uint32_t>(stats_.hits - before.hits));
  std::size_t loads = 0;
  for (const Step& step : steps_) loads += step.load.size();
  if (loads > 0) machine_.clock.charge(PolicyWork::cache_update, static_cast<std::uint32_t>(loads));
}

void MmapResidency::use_page(std::uint32_t page, std::uint32_t item) {
  if (cache_->contains(page)) {
    ++stats_.hits;
    cache_->touch(page);
    const Use changed = pages_[page].changed;
    if (changed.phase == phase_ && changed.item != item) steps_[item].after_fetch.push_back(changed.item);
  } else {
    ++stats_.misses;
    fault(page, item);
  }
  pages_[page].used = {phase_, item};
}

void MmapResidency::fault(std::uint32_t page, std::uint32_t item) {
  Step& step = steps_[item];
  const std::uint32_t first = page / window_ * window_;
  const std::uint32_t end = std::min<std::uint32_t>(first + window_, static_cast<std::uint32_t>(pages_.size()));
  const auto bring = [&](std::uint32_t p) {
    const std::uint32_t victim = cache_->insert(p);
    if (victim != PageCache::kNone) {
      Page& gone = pages_[victim];
      const bool own = (gone.used.phase == phase_ && gone.used.item == item) || (gone.changed.phase == phase_ && gone.changed.item == item);
      if (own) refuse();
      step.evict.push_back(victim);
      if (gone.used.phase == phase_) step.after_done.push_back(gone.used.item);
      if (gone.changed.phase == phase_ && gone.changed.item != item) step.after_fetch.push_back(gone.changed.item);
      gone.changed = {phase_, item};
    }
    if (pages_[p].changed.phase == phase_ && pages_[p].changed.item != item) step.after_fetch.push_back(pages_[p].changed.item);
    pages_[p].changed = {phase_, item};
    step.load.push_back(p);
  };
  for (std::uint32_t p = first; p < end; ++p) {
    if (p != page && mapped_[p] && !cache_->contains(p)) bring(p);
  }
  bring(page);  // last: the faulting page is the most recently used one
}

bool MmapResidency::ready(std::size_t unit, std::size_t item) const {
  const Step& step = steps_[number_[unit][item]];
  return step.load.empty() &&
         std::all_of(step.after_fetch.begin(), step.after_fetch.end(), [&](std::uint32_t i) { return steps_[i].fetched; });
}

Task<void> MmapResidency::fetch(std::size_t unit, std::size_t item, UnitId issuer) {
  Step& step = steps_[number_[unit][item]];
  for (const std::uint32_t earlier : step.after_fetch) co_await wait(&steps_[earlier].fetched);
  for (const std::uint32_t earlier : step.after_done) co_await wait(&steps_[earlier].finished);
  if (abandoned_) co_return;
  const auto note = [&](std::uint32_t first, std::uint32_t count, bool committed) {
    std::fill_n(committed_.begin() + std::ptrdiff_t{first}, count, committed);
  };
  for (const auto& [first, count] : runs_of(step.evict)) {
    machine_.memory.decommit(range_, first * kPageSize, count * kPageSize);
    note(first, count, false);
  }
  for (const auto& [first, count] : runs_of(step.load, window_)) {
    machine_.memory.commit(range_, first * kPageSize, count * kPageSize).or_throw();
    note(first, count, true);
    machine_.clock.charge(PolicyWork::page_fault, count);
    ReadRequest request;
    request.from = {file_, first * kPageSize, count * kPageSize};
    request.into = range_;
    request.into_offset = first * kPageSize;
    request.issuer = issuer;
    request.pattern = Pattern::random;
    request.blocks_issuer = true;
    const IoResult result = co_await machine_.storage.read(std::move(request));
    if (!result.status.ok()) throw RunError(fmt::format("page fault at offset {}: {}", first * kPageSize, result.status.message));
  }
  step.fetched = true;
  for (const std::coroutine_handle<> waiter : std::exchange(waiters_, {})) machine_.executor.post(waiter);
}

void MmapResidency::done(std::size_t unit, std::size_t item) {
  steps_[number_[unit][item]].fetched = true;  // items that were ready never went through fetch()
  steps_[number_[unit][item]].finished = true;
  for (const std::coroutine_handle<> waiter : std::exchange(waiters_, {})) machine_.executor.post(waiter);
}

void MmapResidency::abandon() {
  abandoned_ = true;
  for (Step& step : steps_) step.fetched = step.finished = true;
  for (const std::coroutine_handle<> waiter : std::exchange(waiters_, {})) machine_.executor.post(waiter);
}

Task<void> MmapResidency::wait(const bool* flag) {
  struct Park {
    std::vector<std::coroutine_handle<>>& waiters;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) const { waiters.push_back(handle); }
    void await_resume() const {}
  };
  while (!*flag) co_await Park{waiters_};
}

void MmapResidency::log(std::string_view kind, const std::vector<std::uint32_t>& pages, std::string_view where) const {
  for (const auto& [first, count] : runs_of(pages)) machine_.trace.decision(kind, fmt::format("page {}+{}", first, count), where);
}

}  // namespace vitro
