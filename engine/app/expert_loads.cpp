#include "engine/app/expert_loads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "traces/draw.hpp"
#include "traces/recording.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kCalibrationTokens = 4096;
constexpr std::uint32_t kCalibrationSequence = 1u << 30;  // beyond those of any run, and no judge's

void normalise(ExpertLoads& loads) {
  for (std::vector<double>& layer : loads) {
    double sum = 0;
    for (const double share : layer) sum += share;
    for (double& share : layer) share /= sum;
  }
}

// Loads have no entry for a layer without experts, which are the first of a model.
std::size_t layers_with_experts(const ModelConfig& config) { return config.layers - std::min(config.dense_layers, config.layers); }

// Chunks of which the calibration knows all rows, in the order of their first tokens.
class Chunks {
 public:
  Chunks(const ModelConfig& config, std::uint32_t rows) : config_(config), rows_(rows) {}

  void add(std::size_t layer, SeqPos at, const std::vector<std::uint16_t>& experts) {
    Chunk& chunk = chunks_[{at.sequence, at.position / rows_}];
    chunk.experts.resize(layers_with_experts(config_), std::vector<std::uint32_t>(config_.experts));
    chunk.seen.resize(layers_with_experts(config_));
    ++chunk.seen.at(layer);
    for (const std::uint16_t expert : experts) ++chunk.experts[layer].at(expert);
  }

  ChunkCounts whole() const {
    ChunkCounts counts;
    for (const auto& [place, chunk] : chunks_) {
      if (std::ranges::any_of(chunk.seen, [&](std::uint32_t rows) { return rows != rows_; })) continue;
      counts.resize(layers_with_experts(config_));
      for (std::size_t layer = 0; layer < counts.size(); ++layer) counts[layer].push_back(chunk.experts[layer]);
    }
    return counts;
  }

 private:
  struct Chunk {
    std::vector<std::vector<std::uint32_t>> experts;  // by layer
    std::vector<std::uint32_t> seen;                  // rows, by layer
  };
  const ModelConfig& config_;
  std::uint32_t rows_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Chunk> chunks_;  // by sequence and number
};

}  // namespace

Calibration recorded_loads(const Recording& recording, const ModelConfig& config, std::uint32_t chunk) {
  const int first = static_cast<int>(config.dense_layers);
  ExpertLoads loads(layers_with_experts(config), std::vector<double>(config.experts, 0));
  Chunks chunks(config, chunk);
  if (recording.experts.empty())
    throw ConfigError("engine.ffn.experts.calibration: the recording has no experts (expected a recording of this MoE model)");
  for (const auto& [key, choice] : recording.experts) {
    if (key.expert >= 0 || key.of_judge()) continue;  // a guess, or another model's
    for (const std::uint16_t expert : choice.ids) {
      if (key.layer < first || key.layer >= static_cast<int>(config.layers) || expert >= config.experts) {
        throw ConfigError(fmt::format(
            "engine.ffn.experts.calibration: {} chose expert {}, but the model has {} layers of {} experts (expected a recording of "
            "this MoE model)",
            to_string(key), expert, layers_with_experts(config), config.experts));
      }
      ++loads[static_cast<std::size_t>(key.layer - first)][expert];
    }
    chunks.add(static_cast<std::size_t>(key.layer - first), key.at, choice.ids);
  }
  for (std::size_t layer = 0; layer < loads.size(); ++layer) {
    if (*std::max_element(loads[layer].begin(), loads[layer].end()) == 0) {
      throw ConfigError(fmt::format(
          "engine.ffn.experts.calibration: the recording has no experts of layer {} (expected a recording of this MoE model)",
          layer + config.dense_layers));
    }
  }
  normalise(loads);
  return {std::move(loads), chunks.whole()};
}

Calibration drawn_loads(const DrawProfile& profile, std::uint64_t seed, const ModelConfig& config, std::uint32_t chunk) {
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
  Chunks chunks(config, chunk);
  const int first = static_cast<int>(config.dense_layers);
  for (route.layer = static_cast<std::int16_t>(first); route.layer < static_cast<int>(config.layers); ++route.layer) {
    std::vector<double>& layer = loads.emplace_back(config.experts, 0.0);
    const Outcome outcome = draws.execute(route);
    const auto& choices = std::get<std::vector<ExpertChoice>>(outcome);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      for (const std::uint16_t expert : choices[i].ids) ++layer[expert];
      chunks.add(static_cast<std::size_t>(route.layer - first), (*route.batch)[i], choices[i].ids);
    }
  }
  normalise(loads);
  return {std::move(loads), chunks.whole()};
}

MoeConfig calibrated(const Experiment& experiment, const ModelConfig& config) {
  MoeConfig moe = experiment.engine.ffn.experts;
  const bool tiers = experiment.engine.ffn.kind == "experts" && moe.graphs, cache = experiment.engine.weights.experts.calibrated;
  if ((!tiers && !cache) || config.experts == 0 || !moe.loads.empty()) return moe;
  const auto take = [&](Calibration calibration) {
    moe.loads = std::move(calibration.loads);
    moe.counts = std::move(calibration.counts);
  };
  if (!moe.calibration.empty()) {
    take(recorded_loads(Recording::load(moe.calibration), config, experiment.engine.prefill_chunk));
  } else if (experiment.engine.function == FunctionKind::draw) {
    take(drawn_loads(experiment.profile, experiment.workload.seed, config, experiment.engine.prefill_chunk));
  } else {
    throw ConfigError(
        "engine.ffn.experts.calibration: is missing: expert tiers and a calibrated cache need the load of each expert (expected a "
        "recording, made by `vitro profile MODEL.gguf TEXT -o FILE`)");
  }
  return moe;
}

}  // namespace vitro
