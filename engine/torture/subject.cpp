#include "engine/torture/subject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "engine/app/run_setup.hpp"
#include "engine/app/sample_scorer.hpp"
#include "engine/app/scaling/search.hpp"
#include "engine/faults/faulty_machine.hpp"
#include "engine/virtual/virtual_machine.hpp"
#include "engine/torture/watch.hpp"

namespace vitro {
namespace {

constexpr Picoseconds kLongestRun{std::int64_t{100'000} * 1'000'000'000'000};
constexpr std::uint64_t kMostEvents = 20'000'000;

// What a run needs, in the order in which it has to live.
struct Bench {
  Bench(const Experiment& e, const Subject& subject)
      : experiment(e),
        cache_dir(subject.cache_dir),
        model(load_model(e.model, e.engine, subject.cache_dir)),
        watch(e, subject.plant_in_cache) {
    function = make_function(e);
    auto faulty = std::make_unique<FaultyMachine>(subject.machines(machine_request(e, model), *function, trace), subject.faults,
                                                  !e.engine.kv.checksums);
    control = faulty.get();
    host = watch.before(std::move(faulty));  // defects that are put in place are the engine's: what they do is seen, not what they saw
    if (subject.plant) host = subject.plant(std::move(host));
    Machine& machine = host->machine();
    weights = model.open(machine.storage);
    adapters.all = model.open_adapters(machine.storage);
    if (model.packed) adapters.neurons = &model.packed->order;
    if (model.int8_copy) copy = model.open_int8_copy(machine.storage);
    watch.know(weights);
    if (copy) watch.know(*copy);
    request = generation_requests(e, model, nullptr).front();
  }
  Decoder make() {
    watch.decoder_begins();
    const PolicyLimits limits = limits_of({request}, experiment.engine);
    return make_decoder(host->machine(), experiment.engine, experiment.memory, model.config, weights, limits, copy ? &*copy : nullptr,
                        adapters);
  }

  const Experiment& experiment;
  std::string cache_dir;
  LoadedModel model;
  std::unique_ptr<Function> function;
  Watch watch;
  NullTrace trace;
  std::unique_ptr<MachineHost> host;
  FaultyMachine* control = nullptr;
  WeightStore weights;
  std::optional<WeightStore> copy;
  DecoderAdapters adapters;
  GenerationRequest request;
};

// A decoder, and what judges its samples.
struct Engine {
  explicit Engine(Bench& bench) : decoder(bench.make()) {
    const Experiment& experiment = bench.experiment;
    if (!experiment.workload.scaling) return;
    RewardModel::Prompt prompt{experiment.workload.prompt, bench.request.prompt};
    scorer.emplace(bench.host->machine(), experiment, std::move(prompt), decoder, bench.cache_dir, ScoreFunction{});
  }
  Scorer* judge() { return scorer ? scorer->scorer() : nullptr; }
  // A judge ends its sequences itself, whatever became of the request.
  void check_judge(std::vector<std::string>& losses) {
    Transformer* const model = scorer ? scorer->reward_model() : nullptr;
    if (model == nullptr || model->kv().live_blocks() == 0) return;
    losses.push_back(fmt::format("{} blocks of keys and values are left to the reward model", model->kv().live_blocks()));
  }

  Decoder decoder;
  std::optional<SampleScorer> scorer;
};

void take_error(Observation::End& end, std::string& message) {
  try {
    throw;
  } catch (const RunError& error) {
    end = Observation::End::failed;
    message = error.what();
  } catch (const ConfigError& error) {
    end = Observation::End::failed;
    message = error.what();
  } catch (const std::exception& error) {
    end = Observation::End::unclear;
    message = error.what();
  }
}

// A run's sequences that its error left behind; their owner ends them.
void release_all(KvCache& kv, std::vector<std::string>& losses) {
  for (const std::uint32_t sequence : kv.sequences()) kv.release(sequence);
  if (kv.live_blocks() != 0) losses.push_back(fmt::format("{} blocks of keys and values belong to no sequence", kv.live_blocks()));
}

// Of samples the tokens, and which one was chosen. `greedy`: what is drawn depends on how many sequences there were before, so a request
// that comes after another one takes the likeliest tokens.
Task<void> request_once(Bench* bench, Engine* engine, bool greedy, Tokens* tokens) {
  Machine* const machine = &bench->host->machine();
  Transformer* const model = engine->decoder.transformer.get();
  GenerationRequest request = bench->request;
  if (greedy) request.sampling = {};
  if (const std::optional<ScalingConfig>& scaling = bench->experiment.workload.scaling) {
    ScalingRequest asked{std::move(request), *scaling, bench->model.tokenizer.get(), engine->judge()};
    ScalingResult result = co_await scale(machine, model, std::move(asked));
    *tokens = std::move(result.generation.tokens);
    tokens->push_back({static_cast<std::int32_t>(result.chosen)});
  } else {
    GenerationResult result = co_await generate(machine, model, std::move(request));
    *tokens = std::move(result.tokens);
  }
}

Task<void> load_engine(Engine* engine, bool* loaded) {
  if (Scorer* const judge = engine->judge()) co_await judge->load();
  co_await engine->decoder.load();
  *loaded = true;
}

// Loads, serves the request, and serves it once more when all is well again.
Task<void> serve_twice(Bench* bench, Engine* engine, bool* loaded, Observation* seen) {
  Decoder* const decoder = &engine->decoder;
  try {
    co_await load_engine(engine, loaded);
    bench->watch.request_begins(*decoder);
    co_await request_once(bench, engine, false, &seen->tokens);
  } catch (...) {
    take_error(seen->end, seen->error);
  }
  co_await decoder->transformer->settle();
  release_all(decoder->transformer->kv(), seen->losses);
  engine->check_judge(seen->losses);
  seen->tally = bench->control->tally();
  bench->control->heal();
  if (!*loaded) co_return;
  bench->watch.request_ends(*decoder, seen->end == Observation::End::tokens);
  seen->again.emplace();
  Observation::End end{};
  try {
    if (FfnStage* const stage = decoder->ffn.stage(); stage != nullptr) co_await stage->between_requests();
    bench->watch.request_begins(*decoder);
    co_await request_once(bench, engine, true, &*seen->again);
  } catch (...) {
    take_error(end, seen->again_error);
  }
  co_await decoder->transformer->settle();
  release_all(decoder->transformer->kv(), seen->losses);
  engine->check_judge(seen->losses);
  bench->watch.request_ends(*decoder, seen->again_error.empty());
}

Task<void> serve_anew(Bench* bench, Engine* engine, Observation* seen) {
  bool loaded = false;
  Observation::End end{};
  seen->again.emplace();
  try {
    co_await load_engine(engine, &loaded);
    bench->watch.request_begins(engine->decoder);
    co_await request_once(bench, engine, true, &*seen->again);
  } catch (...) {
    take_error(end, seen->again_error);
  }
  co_await engine->decoder.transformer->settle();
  engine->check_judge(seen->losses);
  if (loaded) bench->watch.request_ends(engine->decoder, seen->again_error.empty());
}

void check_memory(const Memory& memory, std::vector<std::string>& losses) {
  for (std::size_t where = 0; where < kPlacements; ++where) {
    const Budget& budget = memory.budget(static_cast<Placement>(where));
    for (std::size_t r = 0; r < kRegions; ++r) {
      if (budget.region_used[r] == 0) continue;
      losses.push_back(fmt::format("{} of {} were not returned", format_bytes(budget.region_used[r]), to_string(static_cast<Region>(r))));
    }
    if (budget.peak > budget.limit) {
      losses.push_back(fmt::format("{} were in use, beyond the budget of {}", format_bytes(budget.peak), format_bytes(budget.limit)));
    }
  }
}

void observe(Bench& bench, bool once, Observation& seen) {
  bool loaded = false, made = false;
  try {
    Engine engine(bench);
    made = true;
    bench.host->run(serve_twice(&bench, &engine, &loaded, &seen));
  } catch (...) {
    take_error(seen.end, seen.error);
  }
  const FaultTally& tally = bench.control->tally();
  if (!made) seen.tally = tally;
  bench.control->heal();
  check_memory(bench.host->machine().memory, seen.losses);
  std::uint64_t fired = 0;
  for (const std::uint64_t n : tally.fired) fired += n;
  if (!made && fired == 0 && seen.end == Observation::End::failed) {
    seen.end = Observation::End::refused;
    return;
  }
  if (!loaded && !once) {
    try {
      Engine engine(bench);
      bench.host->run(serve_anew(&bench, &engine, &seen));
    } catch (...) {
      Observation::End end{};
      seen.again.emplace();
      take_error(end, seen.again_error);
    }
    check_memory(bench.host->machine().memory, seen.losses);
  }
  const bool drawn = bench.experiment.workload.sampling.temperature > 0;
  if (seen.end == Observation::End::tokens && seen.again && seen.again_error.empty() && !drawn && *seen.again != seen.tokens) {
    seen.again_error = "the same request has other tokens";
  }
  if (tally.started != tally.ended) seen.losses.push_back(fmt::format("{} operations were not joined", tally.started - tally.ended));
}

}  // namespace

Observation observe(const Subject& subject) {
  Observation seen;
  try {
    const Experiment experiment = read_experiment(subject.experiment);
    Bench bench(experiment, subject);
    observe(bench, subject.once, seen);
    seen.shadow = bench.watch.findings();
    seen.seen = bench.watch.counts();
  } catch (const ConfigError& error) {
    seen.end = Observation::End::refused;
    seen.error = error.what();
  } catch (...) {
    take_error(seen.end, seen.error);
  }
  return seen;
}

namespace {

constexpr Bytes kSession = 64 * MiB;

// What the real one (engine/host/hexagon_unit.cpp) says of itself: matrices in some formats lie in memory that it maps, of which there is
// so much. What it computes is not its worker's, but the same.
void be_hexagon(UnitCaps& caps) {
  caps.session_limit = kSession;
  caps.maps = Placement::npu_mapped;
  caps.as_stored = {Format::q4_0_tile, Format::f16};
  caps.in_places = {Format::f16, Format::q8_0, Format::q4_0, Format::q4_nibbles};
}

}  // namespace

MachineFactory virtual_machines(std::uint64_t timing) {
  return [timing](const MachineRequest& request, Function& function, TraceSink& trace) -> std::unique_ptr<MachineHost> {
    auto rng = std::make_shared<Rng>(timing);
    VirtualMachineSpec spec;
    std::vector<std::string> names = request.units;
    for (std::uint32_t i = 0; names.size() < request.threads; ++i) names.push_back(fmt::format("cpu{}", i));
    std::ranges::stable_partition(names, [](const std::string& name) { return name.starts_with("cpu"); });
    for (const std::string& name : names) {
      UnitCaps caps;
      caps.id = UnitId(spec.units.size());
      caps.kind = name.starts_with("cpu") ? UnitKind::core : UnitKind::npu;
      caps.static_graphs = caps.kind != UnitKind::core;
      caps.name = name;
      if (name == "hexagon") be_hexagon(caps);
      spec.units.push_back(std::move(caps));
    }
    spec.memory_limits = {request.dram_budget.value_or(GiB), 0, kSession, 0};
    spec.phantom = request.phantom;
    spec.shuffle = timing;
    spec.longest = kLongestRun;
    spec.most_events = kMostEvents;
    spec.price = [rng](const UnitCaps&, const KernelCall&) { return Picoseconds(1000 + static_cast<std::int64_t>(rng->below(100'000))); };
    spec.read_price = [rng](const ReadRequest&) { return Picoseconds(1000 + static_cast<std::int64_t>(rng->below(1'000'000))); };
    auto host = std::make_unique<VirtualMachine>(std::move(spec), function, trace);
    host->machine().seed = request.seed;
    return host;
  };
}

}  // namespace vitro
