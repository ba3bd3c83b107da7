#include "engine/experiment/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/file.hpp"
#include "engine/decode/generator.hpp"
#include "engine/decode/policies.hpp"
#include "engine/experiment/judge.hpp"
#include "engine/experiment/loaded_model.hpp"
#include "engine/experiment/product_run.hpp"
#include "engine/experiment/read_moe.hpp"
#include "engine/experiment/report.hpp"
#include "engine/host/machine_state.hpp"
#include "engine/kernels/compute_function.hpp"
#include "traces/draw.hpp"
#include "traces/input_sampler.hpp"
#include "traces/perfetto_trace.hpp"
#include "traces/recorder.hpp"
#include "traces/replay.hpp"

namespace vitro {
namespace {

std::unique_ptr<Function> make_function(const Experiment& experiment) {
  const EngineConfig& engine = experiment.engine;
  switch (engine.function) {
    case FunctionKind::compute:
      return std::make_unique<ComputeFunction>(ComputeOptions{engine.kernels});
    case FunctionKind::replay:
      return std::make_unique<ReplayFunction>(Recording::load(engine.replay));
    case FunctionKind::draw:
      return std::make_unique<DrawFunction>(experiment.profile, experiment.workload.seed);
  }
  return nullptr;
}

// Names of the units that the machine has to have: those that compute, the I/O core if it is another, the accelerator.
std::vector<std::string> units_of(const EngineConfig& engine) {
  std::vector<std::string> units = engine.units;
  std::vector<std::string> others{engine.clusters.io_core, engine.hybrid.unit};
  others.insert(others.end(), engine.moe.units.begin(), engine.moe.units.end());
  if (std::ranges::all_of(others, &std::string::empty)) return units;
  for (std::uint32_t i = 0; units.size() < engine.threads && engine.units.empty(); ++i) units.push_back(fmt::format("cpu{}", i));
  for (const std::string& other : others) {
    if (!other.empty() && std::find(units.begin(), units.end(), other) == units.end()) units.push_back(other);
  }
  return units;
}

// The parts of a run that have to outlive each other in this order.
struct Run {
  Run(const Experiment& e, const SessionOptions& options, const MachineFactory& machines, bool traced)
      : experiment(e), model(load_model(e.model, e.engine, options.cache_dir)), function(make_function(e)) {
    if (!e.engine.record.empty()) recorder = std::make_unique<RecordingFunction>(*function);
    if (!options.ffn_inputs.empty()) sampler = std::make_unique<InputSampler>(*function, options.ffn_input_rows);
    if (traced) perfetto = std::make_unique<PerfettoTrace>("vitro " + e.machine);
    MachineRequest request;
    request.kind = e.machine;
    request.device = e.device;
    request.units = units_of(e.engine);
    request.threads = e.engine.threads;
    request.dram_budget = e.memory.budget;
    request.code_products = e.engine.code_products;
    request.phantom = !e.engine.numerics();
    request.seed = e.workload.seed;
    Function& outermost = recorder ? static_cast<Function&>(*recorder) : sampler ? static_cast<Function&>(*sampler) : *function;
    host = machines(request, outermost, trace());
    Machine& m = host->machine();
    if (recorder) recording_storage = std::make_unique<RecordingStorage>(m.storage, reads);
    machine.emplace(Machine{m.executor, m.clock, m.units, recording_storage ? *recording_storage : m.storage, m.memory, m.trace, m.seed});
    weights = model.open(machine->storage);
    if (e.engine.policy == "llm_npu") copy = model.open_int8_copy(machine->storage);
  }

  TraceSink& trace() { return perfetto ? static_cast<TraceSink&>(*perfetto) : null_trace; }

  Policy make_policy(const PolicyLimits& limits) {
    EngineConfig engine = experiment.engine;
    engine.moe = calibrated(experiment, model.config);
    return ::vitro::make_policy(*machine, engine, experiment.memory, model.config, weights, limits, copy ? &*copy : nullptr);
  }

  const Experiment& experiment;
  LoadedModel model;
  std::unique_ptr<Function> function;
  std::unique_ptr<RecordingFunction> recorder;
  std::unique_ptr<InputSampler> sampler;
  NullTrace null_trace;
  std::unique_ptr<PerfettoTrace> perfetto;
  std::unique_ptr<MachineHost> host;
  std::vector<RecordedRead> reads;
  std::unique_ptr<RecordingStorage> recording_storage;
  std::optional<Machine> machine;  // the host's, seen through the recorder
  WeightStore weights;
  std::optional<WeightStore> copy;
};

void save_recording(Run& run) {
  if (!run.recorder) return;
  Recording recording = run.recorder->take();
  recording.about = {{"experiment", run.experiment.name}, {"model", run.model.name}, {"policy", run.experiment.engine.policy}};
  recording.reads = std::move(run.reads);
  recording.save(run.experiment.engine.record);
}

// DRAM by region over time. Once per token: pages come and go too often to show each of them.
void trace_memory(const Machine& machine) {
  if (!machine.trace.enabled()) return;
  const Budget& budget = machine.memory.budget(Placement::dram);
  for (std::size_t r = 0; r < kRegions; ++r) {
    if (budget.region_peak[r] == 0) continue;
    const TrackId track = machine.trace.track("memory", to_string(static_cast<Region>(r)));
    machine.trace.counter(track, machine.clock.now(), static_cast<double>(budget.region_used[r]));
  }
}

Task<void> generate_strands(Run* run, Policy* policy, Judge* judge, GenerationRequest request, RunRecord* record) {
  Machine& machine = *run->machine;
  co_await policy->residency->load();
  if (judge != nullptr && judge->scorer() != nullptr) co_await judge->scorer()->load();
  if (policy->copy != nullptr) co_await policy->copy->load();
  record->loaded = machine.clock.now();
  record->load_bytes = machine.storage.totals().bytes_read;
  request.on_first_token = [&machine, policy, record] {
    record->prefill_bytes = machine.storage.totals().bytes_read - record->load_bytes;
    record->prefill_stats = policy->residency->stats();
    record->prefill_parts = policy->transformer->part_times();
    if (policy->experts != nullptr) record->prefill_experts = *policy->experts;
    policy->residency->decode_begins();
    trace_memory(machine);
  };
  request.on_step = [&machine, progress = std::move(request.on_step)](std::uint64_t done, std::uint64_t total) {
    trace_memory(machine);
    if (progress) progress(done, total);
  };
  trace_memory(machine);
  if (judge == nullptr) {
    record->generation = co_await generate(&machine, policy->transformer.get(), std::move(request));
  } else {
    ScalingRequest scaling{std::move(request), *run->experiment.workload.scaling, run->model.tokenizer.get(), judge->scorer()};
    record->scaling = co_await scale(&machine, policy->transformer.get(), std::move(scaling));
    record->generation = record->scaling->generation;
  }
  record->totals = machine.storage.totals();
  record->stats = policy->residency->stats();
  record->hit_rate_bound = policy->residency->hit_rate_bound();
  if (const KvFlashStats* stats = policy->transformer->kv_flash()) record->kv_flash = *stats;
}

Task<void> score_text(Policy* policy, std::vector<std::int32_t> tokens, std::optional<std::int32_t> bos, std::uint32_t chunk,
                      std::uint32_t step_rows, std::uint32_t vocab, Likelihood* out) {
  co_await policy->residency->load();
  *out = co_await score(policy->transformer.get(), std::move(tokens), bos, chunk, step_rows, vocab);
}

// What a step began for a next one that never comes has to end before the machine does, whatever ended the work.
Task<void> settled(Task<void> work, Policy* policy) {
  std::exception_ptr error;
  try {
    co_await std::move(work);
  } catch (...) {
    error = std::current_exception();
  }
  co_await policy->transformer->settle();
  if (error) std::rethrow_exception(error);
}

void write_files(Run& run, const SessionOptions& options, const nlohmann::ordered_json& result) {
  if (options.out_dir.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options.out_dir, error);
  if (error) throw ConfigError(fmt::format("{}: can not be made a folder: {}", options.out_dir, error.message()));
  run.perfetto->write_json(options.out_dir + "/trace.json");
  run.perfetto->write_decisions(options.out_dir + "/decisions.jsonl");
  OutputFile file(options.out_dir + "/result.json");
  file.write(to_text(result, 2));
  file.commit();
}

nlohmann::ordered_json measure_operators(Run& run, const SessionOptions& options) {
  const Workload& workload = run.experiment.workload;
  if (run.experiment.engine.numerics()) {
    throw ConfigError(
        fmt::format("workload.{}: has no numbers (expected engine.numerics: false)", workload.softmax ? "softmax" : "products"));
  }
  ProductTimes times;
  if (workload.softmax) {
    run.host->run(run_softmax(&*run.machine, &*workload.softmax, &times));
  } else {
    run.host->run(run_products(&*run.machine, &run.experiment.engine, &*workload.products, &times));
  }
  RunRecord record;
  record.generation.tokens.resize(1);
  record.generation.begin = record.generation.first_token = times.begin;
  record.generation.end = times.end;
  record.product_times = std::move(times.each);
  record.budget = run.host->machine().memory.budget(Placement::dram);
  nlohmann::ordered_json result =
      make_result(run.experiment, run.model, record, run.host->report(times.begin, times.end), run.host->machine().storage.caps());
  write_files(run, options, result);
  return result;
}

}  // namespace

void require_outputs(const Experiment& experiment) {
  const std::string& record = experiment.engine.record;
  if (record.empty()) return;
  const Node* named = experiment.resolved.find_path("engine.record");
  const Origin at = named != nullptr ? named->origin() : Origin();
  if (experiment.workload.products || experiment.workload.softmax) {
    fail_at(at, "engine.record", fmt::format("workload.{} has nothing to record", experiment.workload.softmax ? "softmax" : "products"));
  }
  std::error_code unseen;
  if (std::filesystem::is_directory(record, unseen)) {
    fail_at(at, "engine.record", fmt::format("{} is a folder (expected a file to write)", record));
  }
  try {
    const OutputFile leaves_nothing(record);
  } catch (const ConfigError& error) {
    fail_at(at, "engine.record", error.what());
  }
}

nlohmann::ordered_json run_experiment(const Experiment& experiment, const SessionOptions& options, const MachineFactory& machines) {
  require_outputs(experiment);
  Run run(experiment, options, machines, !options.out_dir.empty());
  if (experiment.workload.products || experiment.workload.softmax) return measure_operators(run, options);
  const Workload& workload = experiment.workload;
  GenerationRequest request;
  request.prompt = prompt_tokens(run.model, workload);
  request.output_tokens = workload.output_tokens;
  if (!workload.scaling) request.lengths = workload.lengths;
  request.sequences = workload.scaling ? workload.scaling->samples : workload.batch;
  request.prefill_chunk = experiment.engine.prefill_chunk;
  if (workload.stop_at_eos && run.model.tokenizer) request.stop_token = run.model.tokenizer->eos();
  request.sampling = workload.sampling;
  request.on_step = options.progress;

  const auto prompt = static_cast<std::uint32_t>(request.prompt.size());
  PolicyLimits limits;
  limits.max_rows = std::max(std::min(prompt, request.prefill_chunk), request.sequences);
  limits.max_sampled = limits.sequences = request.sequences;
  limits.max_position = prompt + workload.output_tokens;
  // The prompt is shared; each sequence may own a partly filled block beside its own tokens.
  limits.max_tokens = prompt + request.sequences * (workload.output_tokens + 2 * experiment.engine.kv_block_tokens);

  RunRecord record;
  record.prompt_tokens = prompt;
  std::vector<std::string> notes;
  std::optional<StateSampler> sampler;
  if (experiment.machine == "host") sampler.emplace();
  {
    Policy policy = run.make_policy(limits);
    std::optional<Judge> judge;
    if (workload.scaling) judge.emplace(*run.machine, experiment, options.cache_dir, options.scorer);
    run.host->run(settled(generate_strands(&run, &policy, judge ? &*judge : nullptr, std::move(request), &record), &policy));
    record.seam_calls = policy.transformer->seam_calls() + (judge ? judge->seam_calls() : 0);
    record.budget = run.host->machine().memory.budget(Placement::dram);
    record.accelerator_mapped = policy.graphs->mapped();
    notes = policy.graphs->notes();
  }
  const GenerationResult& generation = record.generation;
  const Picoseconds begin = generation.step_times.empty() ? generation.begin : generation.first_token;
  MachineReport machine = run.host->report(begin, generation.end);
  machine.notes.insert(machine.notes.end(), notes.begin(), notes.end());
  nlohmann::ordered_json result = make_result(experiment, run.model, record, machine, run.host->machine().storage.caps());
  if (sampler) result["machine_state"] = describe(sampler->stop());

  save_recording(run);
  write_files(run, options, result);
  return result;
}

std::string to_text(const nlohmann::ordered_json& result, int indent) {
  return result.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

PerplexityResult measure_perplexity(const Experiment& experiment, const std::string& text, const SessionOptions& options,
                                    const MachineFactory& machines) {
  require_outputs(experiment);
  Run run(experiment, options, machines, false);
  if (!run.model.tokenizer || !experiment.engine.numerics()) throw ConfigError("perplexity needs a model with weights");
  const Tokenizer& tokenizer = *run.model.tokenizer;
  const std::optional<std::int32_t> bos = tokenizer.add_bos() ? tokenizer.bos() : std::nullopt;
  const std::uint32_t context = std::min(run.model.config.context == 0 ? 512u : run.model.config.context, 512u);
  PolicyLimits limits;
  limits.max_position = context;
  limits.max_rows = limits.max_sampled = std::min(context, experiment.engine.prefill_chunk);
  limits.max_tokens = context + experiment.engine.kv_block_tokens;
  Policy policy = run.make_policy(limits);
  Likelihood likelihood;
  run.host->run(settled(score_text(&policy, tokenizer.encode(text), bos, context - 1, limits.max_rows, run.model.config.vocab, &likelihood),
                        &policy));
  if (likelihood.tokens == 0) throw ConfigError("the text is too short: no token of it can be scored");
  save_recording(run);
  if (run.sampler) run.sampler->save(options.ffn_inputs);
  return {std::move(likelihood), policy.residency->stats()};
}

}  // namespace vitro
