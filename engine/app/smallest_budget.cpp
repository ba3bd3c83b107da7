#include "engine/app/smallest_budget.hpp"

#include <algorithm>
#include <cstdlib>

#include "engine/app/loaded_model.hpp"
#include "engine/app/opened_model.hpp"
#include "engine/app/run_setup.hpp"
#include "engine/app/serving.hpp"
#include "engine/transformer/saved_sequence.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

constexpr Bytes kMost = Bytes{1} << 44;          // beyond it no budget is tried
constexpr std::uint32_t kMostTokens = 1 << 10;  // of a request, prompt and output each: so many are tried in a second
constexpr Bytes kFine = 64 * MiB;                // budgets below it are tried to a page
constexpr std::int64_t kShareSteps = 1000;      // of memory.ffn_in_dram

// One that only the host has, and that keeps weights and operands in memory of its own.
bool has_accelerator(const Experiment& experiment, const Machine& machine) {
  return experiment.machine == "host" &&
         std::ranges::any_of(machine.units, [](const ComputeUnit* unit) { return unit->caps().kind != UnitKind::core; });
}

class Trial {
 public:
  Trial(const Experiment& experiment, const std::string& cache_dir)
      : experiment_(experiment),
        cache_dir_(cache_dir),
        model_(load_model(experiment.model, experiment.engine, cache_dir)),
        function_(experiment.profile, experiment.workload.seed) {
    if (!experiment.workload.restore_kv.empty()) saved_.emplace(open_sequence(experiment.workload.restore_kv));
    requests_ = generation_requests(experiment_, model_, saved_ ? &*saved_ : nullptr);
    limits_ = limits_of(requests_, experiment.engine, experiment.workload.kept_in);
    // There are no values to score with.
    if (std::optional<ScalingConfig>& scaling = experiment_.workload.scaling) scaling->scorer.drawn = true;
    for (GenerationRequest& request : requests_) {
      if (request.prompt.size() > kMostTokens || request.output_tokens > kMostTokens) cut_ = true;
      request.prompt.resize(std::min<std::size_t>(request.prompt.size(), kMostTokens));
      request.output_tokens = std::min(request.output_tokens, kMostTokens);
      for (std::uint32_t& length : request.lengths) length = std::min(length, kMostTokens);
      request.stop_token.reset();  // as long as it may get
      request.save_to.clear();     // writing takes no memory of the machine's
    }
  }

  const LoadedModel& model() const { return model_; }
  DrawFunction& function() { return function_; }
  bool cut() const { return cut_; }

  // share: memory.ffn_in_dram; none: the budget limits.
  bool works(const std::vector<UnitCaps>& units, Bytes budget, std::optional<double> share) {
    experiment_.memory.ffn_in_dram = share;
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
    const OpenedModel opened(experiment_, model_, machine);
    Decoder decoder = opened.make_decoder(limits_);
    KeptSequences kept(&machine, decoder.transformer.get(), experiment_.workload.kept_in, longest_kept(requests_));
    std::vector<GenerationRequest> requests = requests_;
    for (GenerationRequest& request : requests) request.kept = &kept;
    std::optional<SampleScorer> scorer;
    if (experiment_.workload.scaling) {
      const GenerationRequest& first = requests.front();
      scorer.emplace(machine, experiment_, RewardModel::Prompt{prompt_text(experiment_, model_, first), first.prompt}, decoder, cache_dir_,
                     [](const Sample&) { return 0.0; });
    }
    ServingWatch nobody;
    const Serving serving{&experiment_, &model_, &machine, &decoder, scorer ? &*scorer : nullptr};
    host.run(settled(serve_all(serving, std::move(requests), &nobody), &decoder));
  }

  Experiment experiment_;
  const std::string cache_dir_;
  LoadedModel model_;
  DrawFunction function_;  // of whatever decides by data; no memory depends on what it says
  std::optional<SavedSequence> saved_;
  std::vector<GenerationRequest> requests_;
  PolicyLimits limits_;
  bool cut_ = false;
};

// Between a count that fails and one that works, the one that works beside one that fails.
template <class Works>
std::int64_t between(std::int64_t fails, std::int64_t works, const Works& try_it) {
  while (std::abs(works - fails) > 1) {
    const std::int64_t middle = fails + (works - fails) / 2;
    (try_it(middle) ? works : fails) = middle;
  }
  return works;
}

// The smallest share of memory.ffn_in_dram that works in `limit` bytes. None: `given` would do with more memory, or no share does.
std::optional<double> smallest_share(Trial& trial, const std::vector<UnitCaps>& units, double given, Bytes limit) {
  const auto works = [&](std::int64_t steps) { return trial.works(units, limit, static_cast<double>(steps) / kShareSteps); };
  if (trial.works(units, kMost, given) || !works(kShareSteps)) return std::nullopt;
  return static_cast<double>(between(static_cast<std::int64_t>(given * kShareSteps), kShareSteps, works)) / kShareSteps;
}

}  // namespace

std::optional<SmallestBudget> smallest_budget(const Experiment& experiment, const std::string& cache_dir, const MachineFactory& machines) {
  const Workload& workload = experiment.workload;
  if (workload.products || workload.softmax) return std::nullopt;
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
  found.at_least = trial.cut();
  const std::optional<double> share = experiment.memory.ffn_in_dram;
  if (trial.works(units, found.tried, share)) return std::nullopt;
  if (share && (found.share = smallest_share(trial, units, *share, found.tried))) return found;
  Bytes high = std::max(found.tried, MiB), low = found.tried;
  while (!trial.works(units, high *= 2, share)) {
    if (high > kMost) return std::nullopt;
    low = high;
  }
  found.granule = high < kFine ? kPageSize : MiB;
  const auto granules = [&](Bytes bytes) { return static_cast<std::int64_t>(bytes / found.granule); };
  const std::int64_t enough = between(granules(low), granules(high + found.granule - 1), [&](std::int64_t count) {
    return trial.works(units, static_cast<Bytes>(count) * found.granule, share);
  });
  found.budget = static_cast<Bytes>(enough) * found.granule;
  return found;
}

}  // namespace vitro
