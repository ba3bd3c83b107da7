#include "engine/app/expert_loads.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "traces/draw.hpp"
#include "traces/recording.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kCalibrationTokens = 4096;
constexpr std::uint32_t kCalibrationSequence = 1u << 30;  // beyond those of any run

void normalise(ExpertLoads& loads) {
  for (std::vector<double>& layer : loads) {
    double sum = 0;
    for (const double share : layer) sum += share;
    for (double& share : layer) share /= sum;
  }
}

}  // namespace

ExpertLoads recorded_loads(const Recording& recording, const ModelConfig& config) {
  ExpertLoads loads(config.layers, std::vector<double>(config.experts, 0));
  if (recording.experts.empty())
    throw ConfigError("engine.ffn.experts.calibration: the recording has no experts (expected a recording of this MoE model)");
  for (const auto& [key, choice] : recording.experts) {
    for (const std::uint16_t expert : choice.ids) {
      if (key.layer < 0 || key.layer >= static_cast<int>(config.layers) || expert >= config.experts) {
        throw ConfigError(fmt::format(
            "engine.ffn.experts.calibration: {} chose expert {}, but the model has {} layers of {} experts (expected a recording of "
            "this MoE model)",
            to_string(key), expert, config.layers, config.experts));
      }
      ++loads[static_cast<std::size_t>(key.layer)][expert];
    }
  }
  for (std::size_t layer = 0; layer < loads.size(); ++layer) {
    if (*std::max_element(loads[layer].begin(), loads[layer].end()) == 0) {
      throw ConfigError(fmt::format(
          "engine.ffn.experts.calibration: the recording has no experts of layer {} (expected a recording of this MoE model)", layer));
    }
  }
  normalise(loads);
  return loads;
}

ExpertLoads drawn_loads(const DrawProfile& profile, std::uint64_t seed, const ModelConfig& config) {
  DrawFunction draws(profile, seed);
  std::vector<SeqPos> tokens(kCalibrationTokens);
  for (std::uint32_t i = 0; i < tokens.size(); ++i) tokens[i] = {kCalibrationSequence, i};
  KernelCall route;
  route.op = ops::Route{config.experts_used, true};
  route.batch = std::make_shared<const std::vector<SeqPos>>(std::move(tokens));
  View logits;
  logits.shape = {kCalibrationTokens, config.experts, 0};
  route.in = {logits};
  ExpertLoads loads;
  for (route.layer = 0; route.layer < static_cast<int>(config.layers); ++route.layer) {
    std::vector<double>& layer = loads.emplace_back(config.experts, 0.0);
    const Outcome choices = draws.execute(route);
    for (const ExpertChoice& choice : std::get<std::vector<ExpertChoice>>(choices)) {
      for (const std::uint16_t expert : choice.ids) ++layer[expert];
    }
  }
  normalise(loads);
  return loads;
}

MoeConfig calibrated(const Experiment& experiment, const ModelConfig& config) {
  MoeConfig moe = experiment.engine.ffn.experts;
  if (experiment.engine.ffn.kind != "experts" || !moe.graphs || config.experts == 0 || !moe.loads.empty()) return moe;
  if (!moe.calibration.empty()) {
    moe.loads = recorded_loads(Recording::load(moe.calibration), config);
  } else if (experiment.engine.function == FunctionKind::draw) {
    moe.loads = drawn_loads(experiment.profile, experiment.workload.seed, config);
  } else {
    throw ConfigError(
        "engine.ffn.experts.calibration: is missing: expert tiers need the load of each expert (expected a recording, made by `vitro "
        "profile "
        "MODEL.gguf TEXT -o FILE`)");
  }
  return moe;
}

}  // namespace vitro
