// The simplest out-of-core policy: weights are mapped, a missing page faults, and the fault blocks the core that
// computes. What llama.cpp does with mmap, under a budget that we enforce with direct reads, since the page cache of the
// real system would hide it. Host and sim share the decisions; docs/design/mmap.md compares them with a real mapping.
#pragma once
#include "engine/parts/weights/page_cache.hpp"
#include "engine/parts/weights/residency.hpp"

namespace vitro {

struct MmapOptions {
  Bytes read_ahead = 128 * KiB;       // aligned window that one fault reads (Linux's default read_ahead_kb)
  std::optional<double> ffn_in_dram;  // map the FFN alone, with a cache for this share of it; all else is loaded up front
  Bytes keep_free = 0;                // without a share the cache takes what the budget leaves, but for this (KV to come)
};

class MmapResidency final : public Residency {
 public:
  MmapResidency(Machine& machine, const WeightStore& weights, MmapOptions options);

  Task<void> load() override;
  View view(const Weight& weight, std::uint32_t expert) const override;
  Bytes item_bytes() const override { return options_.read_ahead; }
  // The smallest working set is the pages of one item and their read-ahead.
  void check_room(const UnitQueues& phase) const override;
  // Throws ConfigError as check_room() does, for items whose pages follow from data: rows of an embedding.
  void plan(const UnitQueues& phase) override;
  bool ready(std::size_t unit, std::size_t item) const override;
  Task<void> fetch(std::size_t unit, std::size_t item, UnitId issuer) override;
  void done(std::size_t unit, std::size_t item) override;
  void abandon() override;
  CacheStats stats() const override { return stats_; }

 private:
  // What one item has to do before it may run. Items of a phase are numbered in plan order.
  struct Step {
    std::vector<std::uint32_t> evict, load;  // pages, in the order decided
    std::vector<std::uint32_t> after_fetch;  // earlier items whose fetch this one builds on
    std::vector<std::uint32_t> after_done;   // earlier items that still compute with a page we evict
    bool fetched = false, finished = false;
  };
  struct Use {
    std::uint32_t phase = 0, item = 0;
  };
  struct Page {
    Use changed, used;  // the items that last loaded or evicted it, and last computed with it
  };

  bool managed(const Weight& weight) const;
  template <class F>
  void for_each_page(const WorkItem& item, F f) const;
  [[noreturn]] void refuse() const;
  void use_page(std::uint32_t page, std::uint32_t item);
  void fault(std::uint32_t page, std::uint32_t item);
  // What a phase that failed was about to bring may not have come: nothing is resident any more. Requires: no fetch() is under way.
  void forget_all();
  void log(std::string_view kind, const std::vector<std::uint32_t>& pages, std::string_view where) const;
  Task<void> wait(const bool* flag);

  Machine& machine_;
  const WeightStore& weights_;
  MmapOptions options_;
  std::uint32_t window_;  // pages of read-ahead
  std::map<const Weight*, Lease> pinned_;
  Lease range_;  // of the whole packed file; page p of the file lies at p * kPageSize
  FileId file_{};
  Bytes file_size_ = 0;
  std::optional<PageCache> cache_;  // made by load(), when the budget's rest is known
  std::vector<Page> pages_;
  std::vector<bool> committed_;  // pages that have memory
  bool abandoned_ = false;       // the phase failed
  std::vector<bool> mapped_;  // pages that belong to managed weights: read-ahead stops at others
  std::uint32_t phase_ = 0;
  std::vector<Step> steps_;                         // of the current phase, in plan order
  std::vector<std::vector<std::uint32_t>> number_;  // [unit][item] to plan order
  std::vector<std::coroutine_handle<>> waiters_;
  CacheStats stats_;
};

}  // namespace vitro
