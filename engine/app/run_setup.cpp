#include "engine/app/run_setup.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/kernels/compute_function.hpp"
#include "engine/parts/placement/useful_threads.hpp"
#include "engine/parts/register_parts.hpp"
#include "traces/draw.hpp"
#include "traces/replay.hpp"

namespace vitro {
namespace {

// Names of the units that the machine has to have: those that compute, the I/O core if it is another, the accelerator.
std::vector<std::string> units_of(const EngineConfig& engine) {
  const PlacementConfig& placement = engine.placement;
  std::vector<std::string> units = placement.units;
  std::vector<std::string> others{engine.ffn.clusters.io_core, placement.unit};
  // What goes through a cache or a pool is moved by a core.
  const bool moves = engine.weights.bundles || engine.ffn.kind == "experts";
  if (moves && !units.empty() && std::ranges::none_of(units, is_core_name)) others.emplace_back("cpu0");
  others.insert(others.end(), placement.graph_units.begin(), placement.graph_units.end());
  if (std::ranges::all_of(others, &std::string::empty)) return units;
  const std::uint32_t threads = std::max(placement.threads, 1u);
  for (std::uint32_t i = 0; units.size() < threads && placement.units.empty(); ++i) units.push_back(fmt::format("cpu{}", i));
  for (const std::string& other : others) {
    if (!other.empty() && std::find(units.begin(), units.end(), other) == units.end()) units.push_back(other);
  }
  return units;
}

// How many cores a run asks for that leaves it to the engine. Parts that hand work out by themselves have one core, and so has a run
// that names other units.
std::uint32_t threads_of(const EngineConfig& engine, const LoadedModel& model) {
  if (engine.placement.threads > 0) return engine.placement.threads;
  const bool dense = engine.ffn.kind == "dense" && engine.weights.kind == "dram" && engine.placement.kind == "cores";
  return dense && units_of(engine).empty() ? useful_threads(model.bytes_per_token(), model.config.layers, 1024) : 1;
}

// before: positions that the prompt goes on after, at most.
GenerationRequest generation_request(const Experiment& experiment, const LoadedModel& model, const Request& asked,
                                     const SavedSequence* saved, std::uint32_t before) {
  const Workload& workload = experiment.workload;
  GenerationRequest request;
  request.restored = saved;
  request.prompt = prompt_tokens(model, workload, asked, saved);
  request.save_to = workload.save_kv;
  request.goes_on = asked.goes_on;
  request.keep_as = asked.keep_as;
  request.before = before;
  request.output_tokens = workload.output_tokens;
  if (!workload.scaling) request.lengths = workload.lengths;
  request.sequences = workload.scaling ? workload.scaling->samples : workload.batch;
  request.adapters = asked.adapters;
  if (!request.adapters.empty()) request.adapters.resize(request.sequences, request.adapters.front());  // samples of one batch
  request.prefill_chunk = experiment.engine.prefill_chunk;
  if (workload.stop_at_eos && model.tokenizer) request.stop_token = model.tokenizer->eos();
  request.sampling = workload.sampling;
  const std::uint64_t context = std::uint64_t{before} + request.prompt_rows();
  if (model.config.context > 0 && context + workload.output_tokens > model.config.context) {
    const std::string kept = asked.goes_on.empty() ? "" : fmt::format("up to {} positions of \"{}\", ", before, asked.goes_on);
    throw ConfigError(fmt::format("workload: {}{} prompt tokens and {} output tokens exceed the model's context of {}", kept,
                                  kept.empty() ? context : request.prompt_rows(), workload.output_tokens, model.config.context));
  }
  return request;
}

// Positions in the KV cache when it has ended, at most: the last token has none.
std::uint32_t positions_of(const GenerationRequest& request) { return request.before + request.prompt_rows() + request.output_tokens - 1; }

// A profile of 0 % says of a drawn router that it is never right, and of a replay that nobody knows what a router would have named.
RouterForesight foresight_of(const Experiment& experiment) {
  const double share = experiment.profile.expert_foresight;
  return {share > 0 ? std::optional(share) : std::nullopt, experiment.workload.seed};
}

}  // namespace

std::unique_ptr<Function> make_function(const Experiment& experiment) {
  const EngineConfig& engine = experiment.engine;
  switch (engine.function) {
    case FunctionKind::compute:
      return std::make_unique<ComputeFunction>(ComputeOptions{engine.products.isa});
    case FunctionKind::replay:
      return std::make_unique<ReplayFunction>(Recording::load(engine.replay), foresight_of(experiment));
    case FunctionKind::draw:
      return std::make_unique<DrawFunction>(experiment.profile, experiment.workload.seed);
  }
  return nullptr;
}

MachineRequest machine_request(const Experiment& e, const LoadedModel& model) {
  MachineRequest request;
  request.kind = e.machine;
  request.device = e.device;
  request.units = units_of(e.engine);
  request.threads = threads_of(e.engine, model);
  request.alike = e.engine.placement.threads == 0;
  request.dram_budget = e.memory.budget;
  request.lock_memory = e.memory.lock;
  request.code_products = e.engine.products.codes;
  request.hvx_threads = e.engine.placement.hvx_threads;
  request.stage_buffers = e.engine.placement.stage_buffers;
  request.spill = e.engine.placement.spill;
  request.transport = e.engine.placement.transport;
  request.phantom = !e.engine.numerics();
  request.seed = e.workload.seed;
  request.experiment_file = e.file;
  request.scratch_folder = e.engine.kv.scratch;
  return request;
}

std::vector<GenerationRequest> generation_requests(const Experiment& experiment, const LoadedModel& model, const SavedSequence* saved) {
  std::vector<GenerationRequest> requests;
  std::map<std::string, std::uint32_t> kept;  // positions at most
  for (const Request& asked : experiment.workload.requests) {
    const std::uint32_t before = !asked.goes_on.empty() ? kept.at(asked.goes_on) : saved != nullptr ? saved->length : 0;
    requests.push_back(generation_request(experiment, model, asked, saved, before));
    if (!asked.keep_as.empty()) kept[asked.keep_as] = positions_of(requests.back());
  }
  return requests;
}

std::map<std::string, std::uint32_t> longest_kept(const std::vector<GenerationRequest>& requests) {
  std::map<std::string, std::uint32_t> longest;
  for (const GenerationRequest& request : requests) {
    if (request.keep_as.empty()) continue;
    std::uint32_t& positions = longest[request.keep_as];
    positions = std::max(positions, positions_of(request));
  }
  return longest;
}

PolicyLimits limits_of(const std::vector<GenerationRequest>& requests, const EngineConfig& engine, KeptIn kept_in) {
  PolicyLimits limits;
  const std::uint32_t spare = 2 * engine.kv.block_tokens;  // a sequence may own a partly filled block beside its own tokens
  std::map<std::string, std::uint32_t> kept;               // in DRAM, positions at most
  for (const GenerationRequest& request : requests) {
    const std::uint32_t prompt = request.prompt_rows(), context = request.before + prompt;
    limits.max_rows = std::max({limits.max_rows, std::min(prompt, request.prefill_chunk), request.sequences});
    limits.max_sampled = request.sequences;
    limits.prompt_rows = std::max(limits.prompt_rows, prompt);
    limits.max_position = std::max(limits.max_position, context + request.output_tokens);
    // A copy of what is kept shares its blocks, as sequences share the prompt.
    const bool shares = kept_in == KeptIn::dram && !request.goes_on.empty() && !request.replaces();
    std::uint32_t tokens = (shares ? prompt + spare : context) * prompts_of(request) + request.sequences * (request.output_tokens + spare);
    std::uint32_t sequences = request.sequences;
    for (const auto& [name, positions] : kept) {
      if (request.replaces() && name == request.keep_as) continue;
      tokens += positions + spare;
      ++sequences;
    }
    limits.sequences = std::max(limits.sequences, sequences);
    limits.max_tokens = std::max(limits.max_tokens, tokens);
    if (kept_in == KeptIn::dram && !request.keep_as.empty()) kept[request.keep_as] = positions_of(request);
  }
  return limits;
}

}  // namespace vitro
