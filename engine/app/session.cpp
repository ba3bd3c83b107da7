#include "engine/app/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/app/loaded_model.hpp"
#include "engine/app/opened_model.hpp"
#include "engine/app/operator_run.hpp"
#include "engine/app/report.hpp"
#include "engine/app/run_files.hpp"
#include "engine/app/run_setup.hpp"
#include "engine/app/sample_scorer.hpp"
#include "engine/app/serving.hpp"
#include "engine/app/setup_notes.hpp"
#include "engine/app/unstated_share.hpp"
#include "engine/base/file.hpp"
#include "engine/faults/faulty_machine.hpp"
#include "engine/host/machine_state.hpp"
#include "engine/transformer/decoder.hpp"
#include "engine/transformer/generator.hpp"
#include "traces/input_sampler.hpp"
#include "traces/perfetto_stream.hpp"
#include "traces/json_trace.hpp"
#include "traces/recorder.hpp"

namespace vitro {
namespace {

// The parts of a run that have to outlive each other in this order.
struct Run {
  Run(const Experiment& e, const SessionOptions& options, const MachineFactory& machines, bool traced)
      : experiment(e), model(load_model(e.model, e.engine, options.cache_dir)), function(make_function(e)) {
    if (!e.engine.record.empty()) recorder = std::make_unique<RecordingFunction>(*function);
    if (!options.ffn_inputs.empty()) sampler = std::make_unique<InputSampler>(*function, options.ffn_input_rows);
    if (!options.out_dir.empty() && traced) {
      const std::string process = "vitro " + e.machine;
      if (e.trace.format == TraceFormat::json) file = std::make_unique<JsonTrace>(process, TraceLimits{.flows = e.trace.flows});
      else file = std::make_unique<PerfettoStream>(process, options.out_dir, e.trace.flows);
      follow_window(0);
    }
    Function& outermost = recorder ? static_cast<Function&>(*recorder) : sampler ? static_cast<Function&>(*sampler) : *function;
    host = machines(machine_request(e, model), outermost, trace());
    if (e.faults) host = std::make_unique<FaultyMachine>(std::move(host), *e.faults, !e.engine.kv.checksums);
    Machine& m = host->machine();
    if (recorder) recording_storage = std::make_unique<RecordingStorage>(m.storage, reads);
    counted.emplace(Machine{m.executor, m.clock, m.units, recording_storage ? *recording_storage : m.storage, m.memory, m.trace, m.seed});
    machine = &counted->machine();
    opened.emplace(e, model, *machine);
  }

  TraceSink& trace() { return file ? static_cast<TraceSink&>(*file) : null_trace; }
  // To be told when so many tokens were generated.
  void follow_window(std::uint64_t generated) {
    if (file) file->set_open(experiment.trace.holds(generated));
  }

  const Experiment& experiment;
  LoadedModel model;
  std::unique_ptr<Function> function;
  std::unique_ptr<RecordingFunction> recorder;
  std::unique_ptr<InputSampler> sampler;
  NullTrace null_trace;
  std::unique_ptr<TraceFile> file;
  std::unique_ptr<MachineHost> host;
  std::vector<RecordedRead> reads;
  std::unique_ptr<RecordingStorage> recording_storage;
  std::optional<CountedMachine> counted;
  Machine* machine = nullptr;  // the host's, seen through the recorder and what counts
  std::optional<OpenedModel> opened;
};

void save_recording(Run& run) {
  if (!run.recorder) return;
  Recording recording = run.recorder->take();
  recording.about = {{"experiment", run.experiment.name}, {"model", run.model.name}, {"policy", run.experiment.engine.policy},
                     {Recording::kTokens, Recording::kDrawn}};
  if (run.recorder->predicted() && !run.experiment.engine.ffn.clusters.measure) recording.about[Recording::kLookedAt] = Recording::kNamed;
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

std::optional<PartJoules> joules_of_parts(MachineHost& host, const std::vector<PartWindow>& windows) {
  if (windows.empty()) return std::nullopt;
  PartJoules joules{};
  for (const PartWindow& window : windows) {
    const std::optional<double> drawn = host.joules(window.begin, window.end);
    if (!drawn) return std::nullopt;
    joules[static_cast<std::size_t>(window.part)] += *drawn;
  }
  return joules;
}

// Writes down what a run did, and traces its memory.
class RunWatch final : public ServingWatch {
 public:
  // progress: of SessionOptions. All outlive it.
  RunWatch(Run& run, Decoder& decoder, std::size_t requests, const std::function<void(std::uint64_t, std::uint64_t)>& progress,
           RunRecord& record)
      : run_(run), machine_(*run.machine), decoder_(decoder), requests_(requests), progress_(progress), record_(record) {}

  void loaded() override {
    record_.loaded = machine_.clock.now();
    record_.load_bytes = machine_.storage.totals().bytes_read;
    record_.load_submissions = run_.counted->counts();
  }
  void begins() override {
    run_.follow_window(0);
    trace_memory(machine_);
  }
  void prompt_ended() override {
    run_.follow_window(1);
    record_.prompt_ends(machine_.storage.totals().bytes_read, decoder_.cache_stats());
    record_.prefill_parts = decoder_.transformer->part_times();
    if (record_.requests.empty()) record_.prefill_windows = decoder_.transformer->take_part_windows();
    if (const MoeStats* experts = decoder_.experts()) record_.prefill_experts = *experts;
    if (const ExpertCacheStats* stats = decoder_.residency->expert_stats()) record_.prefill_expert_cache = *stats;
  }
  void decoding() override { trace_memory(machine_); }
  void step(std::uint64_t done, std::uint64_t total) override {
    record_.steps.add(machine_.storage.totals().bytes_read, decoder_.cache_stats());
    if (done == run_.experiment.workload.warmup_tokens) {
      record_.warm_up = {machine_.clock.now(), done, 0, machine_.storage.totals().bytes_read, decoder_.cache_stats(),
                         decoder_.transformer->part_times()};
      if (const ExpertCacheStats* stats = decoder_.residency->expert_stats()) record_.warm_up->expert_cache = *stats;
    }
    trace_memory(machine_);
    run_.follow_window(done + 1);
    if (progress_) progress_(done, total);
  }
  void served(GenerationResult result, ScalingResult* scaling) override {
    record_.generation = std::move(result);
    if (scaling != nullptr) record_.scaling = std::move(*scaling);
    if (requests_ > 1) record_.requests.push_back(record_.generation);
  }

 private:
  Run& run_;
  Machine& machine_;
  Decoder& decoder_;
  std::size_t requests_;
  const std::function<void(std::uint64_t, std::uint64_t)>& progress_;
  RunRecord& record_;
};

Task<void> generate_all(Run* run, Serving serving, std::vector<GenerationRequest> requests, ServingWatch* watch, RunRecord* record) {
  co_await serve_all(serving, std::move(requests), watch);
  Machine& machine = *run->machine;
  Decoder* const decoder = serving.decoder;
  // The end of the text may come in the last step of warm-up: then nothing is left to measure apart.
  if (record->warm_up && record->warm_up->steps >= record->generation.step_times.size()) record->warm_up.reset();
  if (std::optional<WarmUp>& warm_up = record->warm_up) {
    const auto& tokens = record->generation.step_tokens;
    warm_up->decoded = std::accumulate(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(warm_up->steps), std::uint64_t{0});
  }
  record->decode_parts = since(decoder->transformer->part_times(), record->warm_up ? record->warm_up->parts : record->prefill_parts);
  record->totals = machine.storage.totals();
  record->stats = decoder->cache_stats();
  if (const ExpertCacheStats* stats = decoder->residency->expert_stats()) record->expert_cache = *stats;
  if (const NeuronsAheadStats* stats = decoder->residency->neurons_ahead_stats()) record->neurons_ahead = *stats;
  record->hit_rate_bound = decoder->residency->hit_rate_bound();
  if (run->experiment.engine.fuse != Fuse::all) record->moves = decoder->transformer->move_counts();
  if (decoder->adapters != nullptr) record->bypasses = decoder->transformer->bypass_counts();
  if (const KvFlashStats* stats = decoder->transformer->kv_flash()) record->kv_flash = *stats;
}

Task<void> score_text(Decoder* decoder, std::vector<std::int32_t> tokens, std::optional<std::int32_t> bos, std::uint32_t chunk,
                      std::uint32_t step_rows, std::uint32_t vocab, std::uint32_t adapter, Likelihood* out) {
  co_await decoder->load();
  *out = co_await score(decoder->transformer.get(), std::move(tokens), bos, chunk, step_rows, vocab, adapter);
}

void write_traces(Run& run, const SessionOptions& options) {
  if (options.out_dir.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options.out_dir, error);
  if (error) throw ConfigError(fmt::format("{}: the folder can not be made: {}", options.out_dir, error.message()));
  run.file->finish(options.out_dir);
  const bool json = run.experiment.trace.format == TraceFormat::json;
  std::filesystem::remove(options.out_dir + (json ? "/trace.pftrace" : "/trace.json"), error);  // of an earlier run
}

nlohmann::ordered_json measure_operators(Run& run, const SessionOptions& options) {
  const Workload& workload = run.experiment.workload;
  if (run.experiment.engine.numerics()) {
    throw ConfigError(fmt::format("workload.{}: measures time alone and computes no values (expected engine.numerics: off)",
                                  workload.softmax ? "softmax" : "products"));
  }
  MatmulTimes times;
  if (workload.softmax) {
    run.host->run(run_softmax(run.machine, &*workload.softmax, &times));
  } else {
    run.host->run(run_matmuls(run.machine, &run.experiment.engine, &*workload.products, &times));
  }
  RunRecord record;
  record.generation.tokens.resize(1);
  record.generation.begin = record.generation.first_token = times.begin;
  record.generation.end = times.end;
  record.product_times = std::move(times.each);
  record.budget = run.host->machine().memory.budget(Placement::dram);
  nlohmann::ordered_json result =
      make_result(run.experiment, run.model, record, run.host->report(times.begin, times.end), run.host->machine().storage.caps());
  write_traces(run, options);
  return result;
}

// Positions of the windows that a text is scored in. A shorter text needs no more than its own tokens and BOS.
std::uint32_t window_of(const ModelConfig& model, std::uint32_t asked, std::size_t text_tokens) {
  constexpr std::uint32_t kUnstated = 512;
  const std::uint32_t most = model.context == 0 ? std::numeric_limits<std::uint32_t>::max() : model.context;
  if (asked != 0 && (asked < 2 || asked > most)) {
    throw ConfigError(model.context == 0 ? fmt::format("--context: {} (expected 2 or more)", asked)
                                         : fmt::format("--context: {} (expected from 2 to {}, the context of the model)", asked, most));
  }
  const std::uint32_t wanted = asked != 0 ? asked : model.context == 0 ? kUnstated : model.context;
  return static_cast<std::uint32_t>(std::max<std::size_t>(std::min<std::size_t>(wanted, text_tokens + 1), 2));
}

}  // namespace

nlohmann::ordered_json run_experiment(const Experiment& experiment, const SessionOptions& options, const MachineFactory& machines) {
  require_outputs(experiment);
  Run run(experiment, options, machines, !options.out_dir.empty());
  if (experiment.workload.products || experiment.workload.softmax) return measure_operators(run, options);
  const Workload& workload = experiment.workload;
  std::optional<SavedSequence> saved;
  if (!workload.restore_kv.empty()) saved.emplace(open_sequence(workload.restore_kv));
  std::vector<GenerationRequest> requests = generation_requests(experiment, run.model, saved ? &*saved : nullptr);
  const PolicyLimits limits = limits_of(requests, experiment.engine, workload.kept_in);
  if (saved || !workload.save_kv.empty()) {
    for (GenerationRequest& request : requests) request.origin = sequence_origin(experiment, run.model.config, limits.max_position);
  }

  RunRecord record;
  std::vector<std::string> notes;
  std::optional<StateSampler> sampler;
  if (experiment.machine == "host") sampler.emplace();
  {
    Decoder decoder = run.opened->make_decoder(limits);
    if (saved) check_sequence(*saved, requests.front().origin, decoder.transformer->kv().shape());
    KeptSequences kept(run.machine, decoder.transformer.get(), workload.kept_in, longest_kept(requests));
    for (GenerationRequest& request : requests) request.kept = &kept;
    std::optional<SampleScorer> sample_scorer;
    if (workload.scaling) {
      const GenerationRequest& first = requests.front();
      sample_scorer.emplace(*run.machine, experiment, RewardModel::Prompt{prompt_text(experiment, run.model, first), first.prompt}, decoder,
                            options.cache_dir, options.scorer);
    }
    const Serving serving{&experiment, &run.model, run.machine, &decoder, sample_scorer ? &*sample_scorer : nullptr};
    RunWatch watch(run, decoder, requests.size(), options.progress, record);
    run.host->run(settled(generate_all(&run, serving, std::move(requests), &watch, &record), &decoder));
    record.submissions = run.counted->counts() - record.load_submissions;
    record.budget = run.host->machine().memory.budget(Placement::dram);
    record.graph_loads = decoder.transformer->graph_loads();
    record.accelerator_mapped = decoder.graphs->mapped();
    notes = decoder.graphs->notes();
    if (decoder.ffn.stage() != nullptr) std::ranges::move(decoder.ffn.stage()->notes(), std::back_inserter(notes));
  }
  const GenerationResult& generation = record.generation;
  MachineReport machine = run.host->report(record.window_begins(), generation.end);
  if (record.requests.empty()) record.prefill_joules = joules_of_parts(*run.host, record.prefill_windows);
  if (workload.warmup_tokens > 0 && !record.warm_up) {
    machine.notes.push_back(fmt::format("warmup_tokens: generation ended within the {} tokens of warm-up, so metrics are of all steps",
                                        workload.warmup_tokens));
  }
  machine.notes.insert(machine.notes.end(), notes.begin(), notes.end());
  std::ranges::copy(run.model.notes, std::back_inserter(machine.notes));
  std::ranges::move(run.function->notes(), std::back_inserter(machine.notes));
  if (std::string note = unstated_share(experiment, run.model.config); !note.empty()) machine.notes.push_back(std::move(note));
  const Bytes flash_bytes = record.totals.bytes_read - record.load_bytes - record.prefill_bytes;
  std::ranges::move(setup_notes(experiment, run.model, run.opened->weights(), flash_bytes), std::back_inserter(machine.notes));
  nlohmann::ordered_json result = make_result(experiment, run.model, record, machine, run.host->machine().storage.caps());
  if (sampler) result["machine_state"] = describe(sampler->stop());

  save_recording(run);
  write_traces(run, options);
  return result;
}

std::string to_text(const nlohmann::ordered_json& result, int indent) {
  return result.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void write_result(const std::string& folder, const nlohmann::ordered_json& result) {
  OutputFile file(folder + "/result.json");
  file.write(to_text(result, 2));
  file.commit();
}

PerplexityResult measure_perplexity(const Experiment& experiment, const std::string& text, const SessionOptions& options,
                                    const MachineFactory& machines) {
  require_outputs(experiment);
  Run run(experiment, options, machines, false);
  if (!run.model.tokenizer || !experiment.engine.numerics())
    throw ConfigError("perplexity needs a model with weights (expected a GGUF file)");
  const Tokenizer& tokenizer = *run.model.tokenizer;
  const std::optional<std::int32_t> bos = tokenizer.add_bos() ? tokenizer.bos() : std::nullopt;
  std::vector<std::int32_t> tokens = tokenizer.encode(text);
  const std::uint32_t context = window_of(run.model.config, options.context, tokens.size());
  PolicyLimits limits{.max_position = context};
  limits.max_rows = limits.max_sampled = std::min(context, experiment.engine.prefill_chunk);
  limits.max_tokens = context + experiment.engine.kv.block_tokens;
  Decoder decoder = run.opened->make_decoder(limits);
  const std::vector<Request>& requests = experiment.workload.requests;
  const std::uint32_t adapter = requests.empty() || requests.front().adapters.empty() ? 0 : requests.front().adapters.front();
  Likelihood likelihood;
  run.host->run(
      settled(score_text(&decoder, std::move(tokens), bos, context - 1, limits.max_rows, run.model.config.vocab, adapter, &likelihood),
              &decoder));
  if (likelihood.tokens == 0) throw ConfigError("the text is too short: it has no token that can be scored (expected two tokens or more)");
  save_recording(run);
  if (run.sampler) run.sampler->save(options.ffn_inputs);
  PerplexityResult result{std::move(likelihood), decoder.cache_stats(), std::nullopt};
  if (const MoeStats* experts = decoder.experts()) result.experts = *experts;
  return result;
}

}  // namespace vitro
