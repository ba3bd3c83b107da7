#include "engine/app/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/app/cache_metrics.hpp"
#include "engine/base/json_value.hpp"

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

Json optional_number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json rate(double amount, Picoseconds time) { return time.count() > 0 && amount > 0 ? Json(amount / to_seconds(time)) : Json(nullptr); }

Json regions(const Budget& budget) {
  Json out = Json::object();
  for (std::size_t r = 0; r < kRegions; ++r) {
    if (budget.region_peak[r] > 0) out[std::string(to_string(static_cast<Region>(r)))] = budget.region_peak[r];
  }
  return out;
}

std::string decode_text(const LoadedModel& model, const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += model.tokenizer->piece(token);
  return text;
}

// Steps and tokens per second while that many sequences decode: {"batch_4": {...}, ...}, the most first.
Json decode_by_batch(const GenerationResult& generation, std::size_t first_step) {
  struct Steps {
    std::uint64_t count = 0;
    Picoseconds time{0};
  };
  std::map<std::uint32_t, Steps, std::greater<>> sizes;
  for (std::size_t i = first_step; i < generation.step_times.size(); ++i) {
    Steps& steps = sizes[generation.step_tokens[i]];
    ++steps.count;
    steps.time += generation.step_times[i];
  }
  Json out = Json::object();
  for (const auto& [size, steps] : sizes) {
    const auto tokens = static_cast<double>(size * steps.count);
    out[fmt::format("batch_{}", size)] = {{"steps", steps.count}, {"tokens_per_s", rate(tokens, steps.time)}};
  }
  return out;
}

Json ranking_name(const std::optional<Ranking>& ranking) {
  constexpr const char* kNames[] = {"attention_output", "router_weight", "random"};
  return ranking ? Json(kNames[static_cast<std::size_t>(*ranking)]) : Json(nullptr);
}

Json parts(const PartTimes& times) {
  Json out = Json::object();
  for (std::size_t part = 0; part < times.size(); ++part) {
    if (times[part].count() > 0) out[std::string(kPartNames[part])] = to_seconds(times[part]) * 1e3;
  }
  return out;
}

Json parts(const PartJoules& joules) {
  Json out = Json::object();
  for (std::size_t part = 0; part < joules.size(); ++part) {
    if (joules[part] > 0) out[std::string(kPartNames[part])] = joules[part];
  }
  return out;
}

// Differences of neighbouring sums; the first one less what was counted before it.
template <typename T>
std::vector<T> differences(const std::vector<T>& sums, T before) {
  std::vector<T> out;
  for (const T sum : sums) out.push_back(sum - std::exchange(before, sum));
  return out;
}

// What each decode step took: arrays of one length. Searches over samples run several generations, whose steps are not told apart.
Json describe_steps(const RunRecord& record) {
  const GenerationResult& g = record.generation;
  Json out{{"latency_ms", Json::array()}, {"sequences", g.step_tokens}};
  for (const Picoseconds time : g.step_times) out["latency_ms"].push_back(to_seconds(time) * 1e3);
  if (record.steps.hits.size() != g.step_times.size()) return out;
  const CacheStats& before = record.prefill_stats;
  out["bytes_read"] = differences(record.steps.bytes_read, record.load_bytes + record.prefill_bytes);
  out["hits"] = differences(record.steps.hits, before.hits);
  out["accesses"] = differences(record.steps.accesses, before.hits + before.misses);
  return out;
}

Json scaling_metrics(const ScalingResult& result) {
  const Picoseconds latency = result.generation.end - result.generation.begin;
  return {{"latency_ms", to_seconds(latency) * 1e3},
          {"scoring_ms", to_seconds(result.scoring) * 1e3},
          {"scoring_rows", result.scored_rows},
          {"rounds", result.rounds},
          {"generated_tokens", result.generated},
          {"generated_tokens_per_s", rate(static_cast<double>(result.generated), latency)}};
}

Json describe(const ScalingConfig& config, const ScalingResult& result) {
  Json out{{"method", to_string(config.method)}};
  out["scorer"] = config.answer ? Json(nullptr) : Json(to_string(config.scorer.kind));
  out["chosen"] = result.chosen;
  out["answer"] = result.samples[result.chosen].answer ? Json(*result.samples[result.chosen].answer) : Json(nullptr);
  if (config.answer) out["votes"] = result.votes;
  out["samples"] = Json::array();
  for (const Sample& sample : result.samples) {
    out["samples"].push_back({{"score", optional_number(sample.score)},
                              {"log_probability", optional_number(sample.log_probability)},
                              {"answer", sample.answer ? Json(*sample.answer) : Json(nullptr)},
                              {"tokens", sample.tokens},
                              {"text", sample.text}});
  }
  return out;
}

// Of the predictions, those made after `before`.
CacheStats predicted_since(CacheStats stats, const CacheStats& before) {
  stats.predicted -= before.predicted;
  stats.predicted_firing -= before.predicted_firing;
  stats.firing -= before.firing;
  return stats;
}

// What writing costs the device's life.
Json flash_write_metrics(Bytes written, const MachineReport& machine) {
  const auto over = [](std::optional<double> part, std::optional<double> whole) {
    return part && whole ? Json(*part / *whole) : Json(nullptr);
  };
  return {{"bytes", written},
          {"write_amplification", over(machine.flash_programmed_bytes, written)},
          {"share_of_rated", over(written, machine.flash_rated_bytes)}};
}

Json describe(const Experiment& experiment, const LoadedModel& model, const std::vector<GenerationResult>& served) {
  const std::vector<std::string> names = experiment.engine.lora.names();
  Json out = Json::array();
  for (std::size_t i = 0; i < served.size(); ++i) {
    const GenerationResult& g = served[i];
    Json adapters = Json::array();
    for (const std::uint32_t a : experiment.workload.requests[i].adapters) adapters.push_back(names[a]);
    const auto ms = [](bool there, Picoseconds time) { return there ? Json(to_seconds(time) * 1e3) : Json(nullptr); };
    out.push_back({{"adapters", std::move(adapters)},
                   {"ttft_ms", to_seconds(g.first_token - g.begin) * 1e3},
                   {"prefill_rows", g.prefill_rows},
                   {"kept_rows", g.kept_rows},
                   {"restore_ms", ms(g.kept_rows > 0, g.restoring)},
                   {"keep_ms", ms(!experiment.workload.requests[i].keep_as.empty(), g.keeping)},
                   {"decode_tokens_per_s", rate(static_cast<double>(g.decoded), g.end - g.first_token)},
                   {"sequences", g.tokens},
                   {"text", model.tokenizer ? Json(decode_text(model, g.tokens.front())) : Json(nullptr)}});
  }
  return out;
}

}  // namespace

// Of the prompt: decoding drops nothing and pads nothing.
Json expert_metrics(const MoeStats& stats) {
  return {{"token_drop_rate", optional_number(stats.drop_rate())},
          {"padded_share", optional_number(stats.padded_share())},
          {"masked_keys_share", optional_number(stats.masked_keys_share())},
          {"cpu_share", optional_number(stats.cpu_share())},
          {"launches_per_layer", optional_number(stats.launches_per_layer())},
          {"expected_overflow", optional_number(stats.expected_overflow)},
          {"hot_overlap", optional_number(stats.hot_overlap)},
          {"half_overlap", optional_number(stats.half_overlap)},
          {"retiers", stats.retiers},
          {"overflow_ranked_by", ranking_name(stats.ranked_by)},
          {"graphs", stats.graphs},
          {"graphs_left_to_cores", stats.left_graphs},
          {"graph_loads", stats.graph_loads}};
}

Json latency_summary(std::vector<Picoseconds> times, double scale) {
  if (times.empty()) return {{"mean", nullptr}, {"p50", nullptr}, {"p90", nullptr}, {"p99", nullptr}};
  std::sort(times.begin(), times.end());
  // Nearest rank: a latency that really occurred.
  const auto percentile = [&](double share) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(times.size())));
    return to_seconds(times[std::max<std::size_t>(rank, 1) - 1]) * scale;
  };
  Picoseconds sum{0};
  for (const Picoseconds time : times) sum += time;
  return {{"mean", to_seconds(sum) * scale / static_cast<double>(times.size())},
          {"p50", percentile(0.50)},
          {"p90", percentile(0.90)},
          {"p99", percentile(0.99)}};
}

Json describe(const MachineStates& states) {
  const auto by_cpu = [](const std::map<int, std::uint64_t>& values) {
    Json out = Json::object();
    for (const auto& [cpu, value] : values) out["cpu" + std::to_string(cpu)] = value;
    return out;
  };
  Json samples = Json::array();
  for (const MachineState& state : states.samples) {
    samples.push_back(
        {{"at_s", to_seconds(state.at)}, {"clock_khz", by_cpu(state.clock)}, {"cap_khz", by_cpu(state.cap)}, {"celsius", state.celsius}});
  }
  const std::string throttled = states.throttled();
  return {{"top_khz", by_cpu(states.top)}, {"throttled", throttled.empty() ? Json(nullptr) : Json(throttled)}, {"samples", samples}};
}

Json make_result(const Experiment& experiment, const LoadedModel& model, const RunRecord& record, const MachineReport& machine,
                 const StorageCaps& storage) {
  const GenerationResult& g = record.generation;
  const WarmUp warm_up = record.warm_up.value_or(
      WarmUp{.end = g.first_token, .bytes_read = record.load_bytes + record.prefill_bytes, .cached = record.prefill_stats});
  const auto decoded = static_cast<double>(g.decoded - warm_up.decoded);
  const std::uint64_t hits = record.stats.hits - warm_up.cached.hits;
  const std::uint64_t accesses = hits + record.stats.misses - warm_up.cached.misses;
  const std::vector<Picoseconds> measured(g.step_times.begin() + static_cast<std::ptrdiff_t>(warm_up.steps), g.step_times.end());

  Json metrics;
  metrics["decode_tokens_per_s"] = rate(decoded, g.end - warm_up.end);
  metrics["prefill_tokens_per_s"] = rate(g.prefill_rows, g.first_token - g.begin);
  metrics["ttft_ms"] = to_seconds(g.first_token - g.begin) * 1e3;
  metrics["token_latency_ms"] = latency_summary(measured, 1e3);
  if (Json by_batch = decode_by_batch(g, warm_up.steps); by_batch.size() > 1) metrics["decode_by_batch"] = std::move(by_batch);
  if (!record.product_times.empty()) metrics["product_us"] = latency_summary(record.product_times, 1e6);
  metrics["exposed_io_share"] = optional_number(machine.io_share);
  metrics["io_share"] = metrics["exposed_io_share"];  // the name that older scripts know
  metrics["cpu_utilization"] = optional_number(machine.cpu_utilization);
  metrics["cache_hit_rate"] = accesses > 0 ? Json(static_cast<double>(hits) / static_cast<double>(accesses)) : Json(nullptr);
  const CacheStats predicted = record.warm_up ? predicted_since(record.stats, warm_up.cached) : record.stats;
  metrics["predictor_recall"] = optional_number(predicted.recall());
  metrics["predictor_precision"] = optional_number(predicted.precision());
  if (experiment.engine.weights.neurons.report_bound) {
    metrics["belady_hit_rate"] = record.warm_up ? Json(nullptr) : optional_number(record.hit_rate_bound);  // of all accesses of decoding
  }
  metrics["dram_bandwidth_gb_per_s"] = optional_number(machine.dram_bandwidth_gb_per_s);
  metrics["energy_j_per_token"] = machine.energy_j && decoded > 0 ? Json(*machine.energy_j / decoded) : Json(nullptr);
  // Without a second token the window is the prompt.
  const bool prompt_only = g.step_times.empty();
  const Picoseconds window = g.end - record.window_begins();
  metrics["prefill_energy_j_per_token"] =
      machine.energy_j && prompt_only && g.prefill_rows > 0 ? Json(*machine.energy_j / g.prefill_rows) : Json(nullptr);
  metrics["mean_power_w"] = machine.energy_j ? rate(*machine.energy_j, window) : Json(nullptr);
  metrics["peak_power_w"] = optional_number(machine.peak_power_w);
  metrics["energy_parts_j"] = Json(nullptr);
  for (const auto& [part, joules] : machine.energy_parts_j) metrics["energy_parts_j"][part] = joules;
  for (const auto& [unit, joules] : machine.energy_by_unit_j) metrics["energy_by_unit_j"][unit] = joules;
  for (const auto& [kind, joules] : machine.energy_by_kind_j) metrics["energy_by_kind_j"][kind] = joules;
  if (!machine.energy_causes_j.empty()) {
    for (const auto& [cause, joules] : machine.energy_causes_j) metrics["energy_causes_j"][cause] = joules;
    for (const auto& [part, joules] : machine.communication_parts_j) metrics["communication_parts_j"][part] = joules;
  }
  metrics["cpu_busy_s"] = optional_number(machine.cpu_busy_s);
  metrics["cpu_cycles"] = optional_number(machine.cpu_cycles);
  if (record.expert_cache) {
    const ExpertCacheStats prefill = record.prefill_expert_cache.value_or(ExpertCacheStats{});
    metrics["expert_cache"] = expert_cache_metrics(*record.expert_cache, prefill, warm_up.expert_cache.value_or(prefill));
  }
  if (record.neurons_ahead) metrics["neurons_ahead"] = neurons_ahead_metrics(*record.neurons_ahead);
  if (record.prefill_experts) metrics["experts"] = expert_metrics(*record.prefill_experts);
  if (g.prefill_rows > 0) metrics["prefill_parts_ms"] = parts(record.prefill_parts);
  if (record.prefill_joules) metrics["prefill_parts_j"] = parts(*record.prefill_joules);
  if (g.prefill_rows > 0 && !prompt_only) metrics["decode_parts_ms"] = parts(record.decode_parts);
  metrics["peak_memory_bytes"] = record.budget.peak;
  if (const GraphLoads& graphs = record.graph_loads; graphs.loads > 0) {
    metrics["graph_loads"] = {{"loads", graphs.loads}, {"waits", graphs.waits}, {"waited_ms", to_seconds(graphs.waited) * 1e3}};
  }
  metrics["accelerator_mapped_bytes"] = record.accelerator_mapped > 0 ? Json(record.accelerator_mapped) : Json(nullptr);
  metrics["load_ms"] = to_seconds(record.loaded) * 1e3;
  metrics["flash_bytes_read"] = {{"load", record.load_bytes},
                                 {"prefill", record.prefill_bytes},
                                 {"decode", record.totals.bytes_read - warm_up.bytes_read}};
  if (record.warm_up) metrics["flash_bytes_read"]["warmup"] = warm_up.bytes_read - record.load_bytes - record.prefill_bytes;
  const auto per_token = [&](std::uint64_t count) {
    return g.step_times.empty() ? Json(nullptr) : Json(static_cast<double>(count) / static_cast<double>(g.step_times.size() + 1));
  };
  metrics["unit_submissions_per_token"] = per_token(record.submissions.unit_submissions);
  metrics["storage_submissions_per_token"] = per_token(record.submissions.storage_submissions);
  metrics["seam_calls_per_token"] = metrics["unit_submissions_per_token"];  // the name that older scripts know

  if (record.kv_flash) metrics["kv_flash"] = kv_flash_metrics(*record.kv_flash);
  if (record.totals.bytes_written > 0) metrics["flash_writes"] = flash_write_metrics(record.totals.bytes_written, machine);
  if (record.moves) {
    metrics["moves"] = {{"calls", record.moves->calls}, {"read_bytes", record.moves->read}, {"written_bytes", record.moves->written}};
    metrics["scores"] = {{"read_bytes", record.moves->scores_read}, {"written_bytes", record.moves->scores_written}};
  }
  if (record.bypasses) metrics["lora"] = {{"macs", record.bypasses->macs}, {"accesses", record.bypasses->accesses}};
  if (record.scaling) metrics["scaling"] = scaling_metrics(*record.scaling);

  Json result;
  result["schema"] = "vitro.result/1";
  result["experiment"] = experiment.name;
  result["machine"] = experiment.machine;
  result["model"] = model.name;
  result["policy"] = experiment.engine.policy;
  result["seed"] = experiment.workload.seed;
  result["metrics"] = std::move(metrics);
  result["peak_memory"] = regions(record.budget);
  const std::vector<std::int32_t>& answer = g.tokens[record.scaling ? record.scaling->chosen : 0];
  result["tokens"] = answer;
  if (g.tokens.size() > 1 && !record.scaling) result["sequences"] = g.tokens;
  result["text"] = model.tokenizer ? Json(decode_text(model, answer)) : Json(nullptr);
  if (!record.requests.empty()) result["requests"] = describe(experiment, model, record.requests);
  if (record.scaling) result["scaling"] = describe(*experiment.workload.scaling, *record.scaling);
  if (!g.step_times.empty()) result["steps"] = describe_steps(record);
  result["wall_s"] = nullptr;  // filled in by whoever started the run: policies and models never see a wall clock
  result["simulated_s"] = experiment.machine == "sim" ? Json(to_seconds(g.end)) : Json(nullptr);
  result["event_hash"] = machine.event_hash.empty() ? Json(nullptr) : Json(machine.event_hash);
  result["assumed_parameters"] = machine.assumed_parameters;
  result["unpriced_calls"] = machine.unpriced_calls;
  result["counts"] = Json::object();
  for (const auto& [what, count] : machine.counts) result["counts"][what] = count;
  result["storage_path"] = storage.path;
  result["notes"] = machine.notes;
  result["experiment_resolved"] = to_json_value(experiment.resolved);
  return result;
}

}  // namespace vitro
