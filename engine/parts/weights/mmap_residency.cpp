#include "engine/parts/weights/mmap_residency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace vitro {
namespace {

constexpr std::uint32_t kLoadDepth = 4;

// Whoever was told to run before now does so first.
struct NextRound {
  Executor& executor;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle) const { executor.post(handle); }
  void await_resume() const {}
};

std::uint32_t page_of(Bytes offset) { return static_cast<std::uint32_t>(offset / kPageSize); }

Bytes end_of_file(const WeightStore& weights) {
  Bytes end = 0;
  for (const Weight& weight : weights.all()) end = std::max(end, weight.extent.offset + weight.extent.length);
  return round_up(end, kPageSize);
}

// Contiguous runs of a page list as (first, count).
std::vector<std::pair<std::uint32_t, std::uint32_t>> runs_of(std::vector<std::uint32_t> pages) {
  std::sort(pages.begin(), pages.end());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> runs;
  for (const std::uint32_t page : pages) {
    if (!runs.empty() && runs.back().first + runs.back().second == page) {
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
      file_size_(end_of_file(weights)),
      mapped_(page_of(file_size_)),
      memory_(page_of(file_size_)),
      moved_(machine.executor),
      ahead_(machine.executor) {
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
  plan_.emplace(mapped_, static_cast<std::uint32_t>(std::max<Bytes>(options_.read_ahead / kPageSize, 1)), capacity);
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
      fmt::format("memory.budget: {} for mapped weights is below the smallest working set: one slice of a matrix needs more (raise "
                  "memory.budget or lower engine.weights.read_ahead)",
                  format_bytes(Bytes(plan_->capacity()) * kPageSize)));
}

void MmapResidency::check_room(const UnitQueues& phase) const {
  for (const std::vector<WorkItem>& queue : phase) {
    for (const WorkItem& item : queue) {
      std::set<std::uint32_t> pages;
      for_each_page(item, [&](std::uint32_t page) { pages.insert(page); });
      if (pages.size() > plan_->capacity()) refuse();
    }
  }
}

void MmapResidency::forget_all() {
  const PagePlan::Forgotten gone = plan_->forget();
  if (machine_.trace.enabled()) log("evict", gone.pages, "forgotten");
  std::vector<std::uint32_t> there;
  for (std::uint32_t page = 0; page < memory_.size(); ++page) {
    if (memory_[page] == Backing::there) there.push_back(page);
  }
  give_up(there);
  forgotten_ = gone.reads;
  unsure_ = abandoned_ = false;
}

void MmapResidency::plan(const UnitQueues& phase) {
  if (unsure_) forget_all();
  plan_->begin_phase();
  steps_.clear();
  number_.assign(phase.size(), {});
  std::size_t longest = 0, loads = 0;
  const std::uint64_t hits = plan_->hits();
  for (const auto& queue : phase) longest = std::max(longest, queue.size());
  std::vector<std::uint32_t> pages;
  for (std::size_t item = 0; item < longest; ++item) {
    for (std::size_t unit = 0; unit < phase.size(); ++unit) {
      if (item >= phase[unit].size()) continue;
      number_[unit].push_back(static_cast<std::uint32_t>(steps_.size()));
      pages.clear();
      for_each_page(phase[unit][item], [&](std::uint32_t page) { pages.push_back(page); });
      std::optional<std::vector<PageStep>> decided = plan_->touch(pages);
      if (!decided) {
        unsure_ = true;
        refuse();
      }
      for (const PageStep& step : *decided) loads += step.issues ? plan_->read(step.read).load.size() : 0;
      steps_.push_back({*std::move(decided), false});
      if (machine_.trace.enabled()) {
        log_steps(steps_.back(), unit < machine_.units.size() ? machine_.units[unit]->caps().name : fmt::format("queue {}", unit));
      }
    }
  }
  if (plan_->hits() > hits) machine_.clock.charge(PolicyWork::cache_lookup, static_cast<std::uint32_t>(plan_->hits() - hits));
  if (loads > 0) machine_.clock.charge(PolicyWork::cache_update, static_cast<std::uint32_t>(loads));
}

CacheStats MmapResidency::stats() const {
  CacheStats stats;
  if (plan_) stats.hits = plan_->hits(), stats.misses = plan_->misses();
  return stats;
}

bool MmapResidency::ready(std::size_t unit, std::size_t item) const {
  return forgotten_ == 0 && std::ranges::all_of(steps_[number_[unit][item]].pages, [&](const PageStep& step) {
           return !step.issues && plan_->landed(step.read) && plan_->read(step.read).status.ok();
         });
}

Task<void> MmapResidency::fetch(std::size_t unit, std::size_t item, UnitId issuer) {
  // What a phase that failed had begun to read keeps its memory until it has landed.
  while (forgotten_ > 0) co_await moved_.changed();
  const Step& own = steps_[number_[unit][item]];
  for (const PageStep& step : own.pages) {
    if (abandoned_) co_return;
    PageRead& read = plan_->read(step.read);
    if (step.issues) read.state = PageRead::State::begun;
    if (step.issues && read.ahead) {
      ahead_.spawn(carry_out(step.read, issuer));
      co_await NextRound{machine_.executor};  // before the core has other work
      continue;
    }
    if (step.issues) co_await carry_out(step.read, issuer);
    while (!plan_->landed(step.read) && !abandoned_) co_await moved_.changed();
    if (!read.status.ok() && !abandoned_) throw RunError(read.status.message);
  }
}

// What a read gives up, once nobody needs it. Its own unit may be late: any may do so whose pages are to take the room.
Task<void> MmapResidency::evict_for(std::uint32_t number) {
  if (plan_->evicted(number)) co_return;
  PageRead& read = plan_->read(number);
  // All items of an earlier phase have computed.
  const auto computes = [&](std::uint32_t i) { return read.phase == plan_->phase() && !steps_[i].finished; };
  for (const std::uint32_t earlier : read.after_reads) {
    while (!plan_->landed(earlier) && !abandoned_) co_await moved_.changed();
  }
  for (const std::uint32_t earlier : read.after_items) {
    while (computes(earlier)) co_await moved_.changed();
  }
  if (abandoned_ || read.forgotten || read.evicted) co_return;
  give_up(read.evict);
  read.evicted = true;
  moved_.notify();
}

// One read, once there is room for it. Never throws: whoever waits for it hears of an error.
Task<void> MmapResidency::carry_out(std::uint32_t number, UnitId issuer) {
  PageRead& read = plan_->read(number);
  for (const std::uint32_t earlier : read.after_evictions) co_await evict_for(earlier);
  co_await evict_for(number);
  if (abandoned_ || read.forgotten) {
    land(read, {Code::io_error, "given up"});
    co_return;
  }
  land(read, co_await read_pages(read, issuer));
}

Task<Status> MmapResidency::read_pages(const PageRead& read, UnitId issuer) {
  const auto runs = runs_of(read.load);
  for (const auto& [first, count] : runs) {
    if (Status status = machine_.memory.commit(range_, first * kPageSize, count * kPageSize); !status.ok()) {
      if (machine_.trace.enabled()) log("lost", read.load, "over budget");
      co_return status;
    }
    std::fill_n(memory_.begin() + std::ptrdiff_t{first}, count, Backing::coming);
    machine_.clock.charge(PolicyWork::page_fault, count);
  }
  for (const auto& [first, count] : runs) {
    ReadRequest request;
    request.from = {file_, first * kPageSize, count * kPageSize};
    request.into = range_;
    request.into_offset = first * kPageSize;
    request.issuer = issuer;
    request.pattern = Pattern::random;
    request.page_fault = read.ahead ? PageFault::goes_on : PageFault::waits;
    const IoResult result = co_await machine_.storage.read(std::move(request));
    if (!result.status.ok()) {
      std::vector<std::uint32_t> lost = read.load;
      std::erase_if(lost, [&](std::uint32_t page) { return page < first; });
      if (machine_.trace.enabled()) log("lost", lost, "not read");
      co_return Status{result.status.code, fmt::format("page fault at offset {}: {}", first * kPageSize, result.status.message)};
    }
  }
  co_return Status{};
}

// Pages that a failed read was to bring may have no memory.
void MmapResidency::give_up(const std::vector<std::uint32_t>& pages) {
  std::vector<std::uint32_t> with_memory;
  std::ranges::copy_if(pages, std::back_inserter(with_memory), [&](std::uint32_t page) { return memory_[page] != Backing::none; });
  for (const auto& [first, count] : runs_of(std::move(with_memory))) {
    machine_.memory.decommit(range_, first * kPageSize, count * kPageSize);
    std::fill_n(memory_.begin() + std::ptrdiff_t{first}, count, Backing::none);
  }
}

void MmapResidency::land(PageRead& read, Status status) {
  read.state = PageRead::State::landed;
  for (const std::uint32_t page : read.load) {
    if (memory_[page] == Backing::coming) memory_[page] = Backing::there;
  }
  unsure_ |= !status.ok() && !read.forgotten;
  read.status = std::move(status);
  if (read.forgotten) {
    give_up(read.load);
    --forgotten_;
  }
  moved_.notify();
}

void MmapResidency::done(std::size_t unit, std::size_t item) {
  steps_[number_[unit][item]].finished = true;
  moved_.notify();
}

void MmapResidency::abandon() {
  unsure_ = abandoned_ = true;
  for (Step& step : steps_) step.finished = true;
  moved_.notify();
}

Task<void> MmapResidency::settle() { co_await ahead_.join(); }

void MmapResidency::log_steps(const Step& step, const std::string& where) {
  for (const PageStep& page : step.pages) {
    if (!page.issues) continue;
    log("evict", plan_->read(page.read).evict, where);
    log("load", plan_->read(page.read).load, where);
  }
}

void MmapResidency::log(std::string_view kind, const std::vector<std::uint32_t>& pages, std::string_view where) const {
  for (const auto& [first, count] : runs_of(pages)) machine_.trace.decision(kind, fmt::format("page {}+{}", first, count), where);
}

}  // namespace vitro
