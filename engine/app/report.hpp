// Turns what was measured into the fields of `vitro.result/1` (docs/reference/results.md).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "engine/app/loaded_model.hpp"
#include "engine/app/scaling/search.hpp"
#include "engine/host/machine_state.hpp"
#include "engine/machine/counted_machine.hpp"
#include "engine/machine/machine.hpp"
#include "engine/parts/ffn/moe_stats.hpp"
#include "engine/parts/weights/residency.hpp"
#include "engine/transformer/generator.hpp"
#include "engine/transformer/part_times.hpp"

namespace vitro {

// Sums until the end of each decode step of the last request, in their order.
struct StepRecord {
  std::vector<std::uint64_t> hits, accesses;  // of the weight cache
  std::vector<Bytes> bytes_read;              // from flash

  void add(Bytes read, const CacheStats& stats) {
    hits.push_back(stats.hits);
    accesses.push_back(stats.hits + stats.misses);
    bytes_read.push_back(read);
  }
};

// Where the decode steps begin that metrics are of, after `workload.warmup_tokens`.
struct WarmUp {
  Picoseconds end{};
  std::size_t steps = 0;
  std::uint64_t decoded = 0;  // tokens in them
  Bytes bytes_read = 0;       // until then
  CacheStats cached;
  PartTimes parts{};
  std::optional<ExpertCacheStats> expert_cache = std::nullopt;
};

using PartJoules = std::array<double, kPartNames.size()>;

struct RunRecord {
  Picoseconds loaded{};
  Bytes load_bytes = 0, prefill_bytes = 0;
  StorageTotals totals;
  CacheStats prefill_stats, stats;
  std::optional<KvFlashStats> kv_flash;
  std::optional<double> hit_rate_bound;
  StepRecord steps;
  std::optional<WarmUp> warm_up;  // of the last request; none before its end, or without one
  PartTimes prefill_parts{}, decode_parts{};
  std::vector<PartWindow> prefill_windows;    // of the first request's prompt
  std::optional<PartJoules> prefill_joules;  // in them; none where nothing measures energy, or there are several requests
  std::optional<MoeStats> prefill_experts;
  std::optional<NeuronsAheadStats> neurons_ahead;                          // of the whole run
  std::optional<ExpertCacheStats> prefill_expert_cache, expert_cache;  // until the first token; of the whole run
  GenerationResult generation;             // of the last request
  std::vector<GenerationResult> requests;  // all of them, where there are several
  std::optional<ScalingResult> scaling;
  std::optional<MoveCounts> moves;         // with engine.graph.fuse other than all, of all requests
  std::optional<BypassCounts> bypasses;    // with engine.lora, of all requests
  std::vector<Picoseconds> product_times;  // of workload.products
  Budget budget;
  GraphLoads graph_loads;                          // of units with static shapes
  Bytes accelerator_mapped = 0;                    // by its sessions (GraphCache::mapped)
  SubmissionCounts load_submissions, submissions;  // until the prompt; after it

  // Of what metrics of decoding are of; of the prompt where nothing was decoded.
  Picoseconds window_begins() const {
    if (warm_up) return warm_up->end;
    return generation.step_times.empty() ? generation.begin : generation.first_token;
  }

  // Of a request, by what was read from flash and cached until then. Its steps follow.
  void prompt_ends(Bytes read, const CacheStats& cached) {
    prefill_bytes = read - load_bytes;
    prefill_stats = cached;
    steps = {};
    warm_up.reset();
  }
};

// {"mean", "p50", "p90", "p99"} by nearest rank, in seconds times `scale`; nulls when there is nothing to sum up.
nlohmann::ordered_json latency_summary(std::vector<Picoseconds> times, double scale);

// {"top_khz", "throttled", "samples": [{"at_s", "clock_khz", "cap_khz", "celsius"}]}; CPUs and zones by name, none where they are hidden.
nlohmann::ordered_json describe(const MachineStates& states);

// `metrics.experts`.
nlohmann::ordered_json expert_metrics(const MoeStats& stats);

// A metric that does not apply is null, never 0.
nlohmann::ordered_json make_result(const Experiment& experiment, const LoadedModel& model, const RunRecord& record,
                                   const MachineReport& machine, const StorageCaps& storage);

}  // namespace vitro
