// The simplest out-of-core policy: weights are mapped, a missing page faults, and the fault blocks the core that
// computes, while the window behind it is read ahead. What llama.cpp does with mmap, under a budget that we enforce with
// direct reads, since the page cache of the real system would hide it. Host and sim share the decisions; docs/design/mmap.md
// compares them with a real mapping.
#pragma once
#include "engine/machine/signal.hpp"
#include "engine/parts/weights/page_plan.hpp"
#include "engine/parts/weights/residency.hpp"

namespace vitro {

struct MmapOptions {
  Bytes read_ahead = 128 * KiB;       // the window that one fault reads (Linux's default read_ahead_kb)
  std::optional<double> ffn_in_dram;  // map the FFN alone, with a cache for this share of it; all else is loaded up front
  Bytes keep_free = 0;                // without a share the cache takes what the budget leaves, but for this (KV, an accelerator's copy)
};

class MmapResidency final : public Residency {
 public:
  MmapResidency(Machine& machine, const WeightStore& weights, MmapOptions options);

  Task<void> load() override;
  View view(const Weight& weight, std::uint32_t expert) const override;
  Bytes item_bytes() const override { return options_.read_ahead; }
  // The smallest working set is the pages of one item: read-ahead takes what else there is.
  void check_room(const UnitQueues& phase) const override;
  // Throws ConfigError as check_room() does, for items whose pages follow from data: rows of an embedding.
  void plan(const UnitQueues& phase) override;
  bool ready(std::size_t unit, std::size_t item) const override;
  Task<void> fetch(std::size_t unit, std::size_t item, UnitId issuer) override;
  void done(std::size_t unit, std::size_t item) override;
  void abandon() override;
  Task<void> settle() override;
  CacheStats stats() const override;

 private:
  // What one item has to do before it may run. Items of a phase are numbered in plan order.
  struct Step {
    std::vector<PageStep> pages;
    bool finished = false;
  };

  bool managed(const Weight& weight) const;
  template <class F>
  void for_each_page(const WorkItem& item, F f) const;
  [[noreturn]] void refuse() const;
  // What a phase that failed was about to bring may not have come: nothing is resident any more. Requires: no fetch() is under way.
  void forget_all();
  void log_steps(const Step& step, const std::string& where);
  void log(std::string_view kind, const std::vector<std::uint32_t>& pages, std::string_view where) const;
  Task<void> evict_for(std::uint32_t number);
  Task<void> carry_out(std::uint32_t number, UnitId issuer);
  Task<Status> read_pages(const PageRead& read, UnitId issuer);
  void give_up(const std::vector<std::uint32_t>& pages);
  void land(PageRead& read, Status status);

  Machine& machine_;
  const WeightStore& weights_;
  MmapOptions options_;
  std::map<const Weight*, Lease> pinned_;
  Lease range_;  // of the whole packed file; page p of the file lies at p * kPageSize
  FileId file_{};
  Bytes file_size_ = 0;
  std::vector<bool> mapped_;  // pages that belong to managed weights: read-ahead stops at others
  enum class Backing : std::uint8_t { none, coming, there };
  std::vector<Backing> memory_;                     // of each page: a read that brings it may be under way
  std::optional<PagePlan> plan_;                    // made by load(), when the budget's rest is known
  bool unsure_ = false;                             // a read failed, or the phase did: what is there may not be what the plan says
  bool abandoned_ = false;                          // the phase failed
  std::uint32_t forgotten_ = 0;                     // reads that count for nothing, and have not landed
  std::vector<Step> steps_;                         // of the current phase, in plan order
  std::vector<std::vector<std::uint32_t>> number_;  // [unit][item] to plan order
  Signal moved_;
  TaskScope ahead_;
};

}  // namespace vitro
