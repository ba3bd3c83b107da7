#include "engine/app/smallest_budget.hpp"

#include <algorithm>

#include "engine/app/expert_loads.hpp"
#include "engine/app/loaded_model.hpp"
#include "engine/app/run_setup.hpp"
#include "engine/parts/register_parts.hpp"
#include "engine/testing/virtual_machine.hpp"
#include "engine/transformer/decoder.hpp"
#include "engine/transformer/generator.hpp"

namespace vitro {
namespace {

constexpr Bytes kMost = Bytes{1} << 44;          // beyond it no budget is tried
constexpr std::uint32_t kMostTokens = 1 << 10;  // of a request, prompt and output each: so many are tried in a second
constexpr Bytes kFine = 64 * MiB;                // budgets below it are tried to a page

// One that only the host has, and that keeps weights and operands in memory of its own.
bool has_accelerator(const Experiment& experiment, const Machine& machine) {
  return experiment.machine == "host" &&
         std::ranges::any_of(machine.units, [](const ComputeUnit* unit) { return unit->caps().kind != UnitKind::core; });
}

class Trial {
 public:
  Trial(const Experiment& experiment, const std::string& cache_dir)
      : experiment_(experiment),
        model_(load_model(experiment.model, experiment.engine, cache_dir)),
        function_(experiment.profile, experiment.workload.seed),
        requests_(generation_requests(experiment, model_, nullptr)),
        limits_(limits_of(requests_, experiment.engine, experiment.workload.kept_in)) {
    for (GenerationRequest& request : requests_) {
      if (request.prompt.size() > kMostTokens || request.output_tokens > kMostTokens) cut_ = true;
      request.prompt.resize(std::min<std::size_t>(request.prompt.size(), kMostTokens));
      request.output_tokens = std::min(request.output_tokens, kMostTokens);
      for (std::uint32_t& length : request.lengths) length = std::min(length, kMostTokens);
      request.stop_token.reset();  // as long as it may get
    }
  }

  const LoadedModel& model() const { return model_; }
  DrawFunction& function() { return function_; }
  bool cut() const { return cut_; }

  bool works(const std::vector<UnitCaps>& units, Bytes budget) {
    VirtualMachineSpec spec;
    spec.units = units;
    spec.memory_limits = {budget, 0, 0, 0};
    spec.phantom = true;
    spec.price = [](const UnitCaps&, const KernelCall&) { return Picoseconds(1); };
    spec.read_price = [](const ReadRequest&) { return Picoseconds(1); };
    NullTrace trace;
    VirtualMachine host(std::move(spec), function_, trace);
    try {
      run(host);
    } catch (const ConfigError&) {
      return false;
    } catch (const RunError&) {
      return false;
    }
    return true;
  }

 private:
  void run(MachineHost& host) {
    Machine& machine = host.machine();
    const WeightStore weights = model_.open(machine.storage);
    DecoderAdapters adapters;
    adapters.all = model_.open_adapters(machine.storage);
    if (model_.packed) adapters.neurons = &model_.packed->order;
    EngineConfig engine = experiment_.engine;
    engine.ffn.experts = calibrated(experiment_, model_.config);
    std::optional<WeightStore> copy;
    if (placement_kinds().find(engine.placement.kind)->int8_copy) copy = model_.open_int8_copy(machine.storage);
    Decoder decoder =
        make_decoder(machine, engine, experiment_.memory, model_.config, weights, limits_, copy ? &*copy : nullptr, adapters);
    KeptSequences kept(&machine, decoder.transformer.get(), experiment_.workload.kept_in, longest_kept(requests_));
    host.run(settled(serve(&machine, &decoder, &kept, requests_), &decoder));
  }

  static Task<void> serve(Machine* machine, Decoder* decoder, KeptSequences* kept, std::vector<GenerationRequest> requests) {
    co_await decoder->load();
    FfnStage* const ffn = decoder->ffn.stage();
    for (GenerationRequest& request : requests) {
      if (ffn != nullptr && &request != &requests.front()) co_await ffn->between_requests();
      request.kept = kept;
      request.on_first_token = [decoder] { decoder->residency->decode_begins(); };
      co_await generate(machine, decoder->transformer.get(), std::move(request));
    }
  }

  const Experiment& experiment_;
  LoadedModel model_;
  DrawFunction function_;  // of whatever decides by data; no memory depends on what it says
  std::vector<GenerationRequest> requests_;
  PolicyLimits limits_;
  bool cut_ = false;
};

}  // namespace

std::optional<SmallestBudget> smallest_budget(const Experiment& experiment, const std::string& cache_dir, const MachineFactory& machines) {
  const Workload& workload = experiment.workload;
  const bool files = !workload.save_kv.empty() || !workload.restore_kv.empty();  // which a trial neither reads nor writes
  if (workload.products || workload.softmax || workload.scaling || files || experiment.memory.ffn_in_dram) return std::nullopt;
  Trial trial(experiment, cache_dir);
  MachineRequest request = machine_request(experiment, trial.model());
  request.phantom = true;
  const std::vector<std::string>& asked = request.units;
  if (experiment.machine == "host" && !std::ranges::all_of(asked, is_core_name)) return std::nullopt;
  std::vector<UnitCaps> units;
  SmallestBudget found;
  {
    NullTrace trace;
    const std::unique_ptr<MachineHost> real = machines(request, trial.function(), trace);
    if (has_accelerator(experiment, real->machine())) return std::nullopt;
    for (const ComputeUnit* unit : real->machine().units) units.push_back(unit->caps());
    found.tried = experiment.memory.budget.value_or(real->machine().memory.budget(Placement::dram).limit);
  }
  if (trial.works(units, found.tried)) return std::nullopt;
  Bytes high = std::max(found.tried, MiB), low = found.tried;
  while (!trial.works(units, high *= 2)) {
    if (high > kMost) return std::nullopt;
    low = high;
  }
  found.granule = high < kFine ? kPageSize : MiB;
  Bytes refused = low / found.granule, enough = (high + found.granule - 1) / found.granule;
  while (enough - refused > 1) {
    const Bytes between = refused + (enough - refused) / 2;
    (trial.works(units, between * found.granule) ? enough : refused) = between;
  }
  found.budget = enough * found.granule;
  found.at_least = trial.cut();
  return found;
}

}  // namespace vitro
