#include "engine/experiment/read_moe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "traces/draw.hpp"
#include "traces/recording.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kCalibrationTokens = 4096;
constexpr std::uint32_t kCalibrationSequence = 1u << 30;  // beyond those of any run

double share_of_expert(const Reader& reader, const Node& node) {
  double share = -1;
  const std::string text = node.is_scalar() ? node.text() : "";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc{} || end != text.data() + text.size() || !(share >= 0 && share <= 1))
    fail_at(node.origin(), reader.name_of("loads"), "holds something else than shares (expected numbers of 0 to 1)");
  return share;
}

ExpertLoads read_loads(Reader& reader) {
  ExpertLoads loads;
  for (const Node& layer : reader.list("loads")) {
    if (!layer.is_list())
      fail_at(layer.origin(), reader.name_of("loads"), "is no list of lists (expected a share for each expert, by layer)");
    std::vector<double>& shares = loads.emplace_back();
    for (const Node& share : layer.items()) shares.push_back(share_of_expert(reader, share));
  }
  return loads;
}

std::uint32_t count_of(Reader& reader, std::string_view key, std::uint32_t otherwise) {
  return static_cast<std::uint32_t>(reader.integer(key, 1, 1 << 16, otherwise));
}

void normalise(ExpertLoads& loads) {
  for (std::vector<double>& layer : loads) {
    double sum = 0;
    for (const double share : layer) sum += share;
    for (double& share : layer) share /= sum;
  }
}

}  // namespace

MoeConfig read_moe(Reader reader, const MoeFamily& family) {
  MoeConfig moe = family.defaults;
  const auto refuse = [&](std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) {
      if (reader.has(key)) reader.fail(key, fmt::format("is nothing that {} has", family.policy));
    }
  };
  if (!family.experts) {
    refuse({"tiers", "groups", "residency", "side_by_side", "overflow", "group", "cold", "base", "capacity", "shape_multiple", "multiples",
            "calibration", "loads"});
    if (!family.attention) refuse({"units", "graph_rows"});
  }
  if (reader.has("units")) {
    const Node& units = *reader.raw("units");
    for (const Node& unit : units.is_scalar() ? std::vector<Node>{units} : reader.list("units")) {
      if (!unit.is_scalar())
        fail_at(unit.origin(), reader.name_of("units"), "holds something that is no unit name (expected names such as ane0)");
      if (std::ranges::find(moe.units, unit.text()) != moe.units.end())
        fail_at(unit.origin(), reader.name_of("units"), fmt::format("names {} twice (expected each unit once)", unit.text()));
      moe.units.push_back(unit.text());
    }
  }
  for (const auto& [key, value] : {std::pair("tiers", &moe.tiers), std::pair("groups", &moe.groups), std::pair("residency", &moe.residency),
                                   std::pair("side_by_side", &moe.side_by_side)}) {
    *value = reader.boolean(key, *value);
  }
  moe.attention = reader.choice("attention", {"unit", "cores"}, moe.attention ? "unit" : "cores") == "unit";
  if (moe.attention && !family.attention) {
    if (reader.has("attention")) reader.fail("attention", fmt::format("unit is nothing that {} has", family.policy));
    moe.attention = false;
  }
  moe.overflow = reader.choice("overflow", {"drop", "cpu"}, "drop") == "cpu" ? Overflow::cpu : Overflow::drop;
  moe.group = static_cast<std::uint32_t>(reader.integer("group", 1, 64, moe.group));
  moe.cold = reader.share("cold", moe.cold);
  moe.base = count_of(reader, "base", 0);
  moe.capacity = count_of(reader, "capacity", 0);
  if (moe.capacity > 0 && moe.tiers) reader.fail("capacity", "is given beside tiers (expected engine.moe.tiers: off, or engine.moe.base)");
  moe.shape_multiple = count_of(reader, "shape_multiple", 0);
  moe.graph_rows = count_of(reader, "graph_rows", 0);
  const double host = reader.quantity("host_per_token", Dimension::time, 0);
  if (host > 1) reader.fail("host_per_token", "is longer than a second (expected microseconds)");
  moe.host_per_token = from_seconds(host);
  if (reader.has("multiples")) {
    moe.multiples.clear();
    for (const std::int64_t times : reader.integers("multiples", 1, 1024)) {
      if (!moe.multiples.empty() && times <= moe.multiples.back())
        reader.fail("multiples", "does not ascend (expected for example [1, 2, 4])");
      moe.multiples.push_back(static_cast<std::uint32_t>(times));
    }
    if (moe.multiples.empty()) reader.fail("multiples", "is empty (expected for example [1, 2, 4])");
  }
  moe.calibration = reader.text("calibration", "");
  if (reader.has("loads")) {
    if (!moe.calibration.empty()) reader.fail("loads", "is given beside calibration (expected one of the two)");
    moe.loads = read_loads(reader);
  }
  reader.finish();
  return moe;
}

ExpertLoads recorded_loads(const Recording& recording, const ModelConfig& config) {
  ExpertLoads loads(config.layers, std::vector<double>(config.experts, 0));
  if (recording.experts.empty()) throw ConfigError("engine.moe.calibration: holds no experts (expected a recording of this mixture)");
  for (const auto& [key, choice] : recording.experts) {
    for (const std::uint16_t expert : choice.ids) {
      if (key.layer < 0 || key.layer >= static_cast<int>(config.layers) || expert >= config.experts) {
        throw ConfigError(
            fmt::format("engine.moe.calibration: {} chose expert {}, and the model has {} layers of {} (expected a recording of "
                        "this mixture)",
                        to_string(key), expert, config.layers, config.experts));
      }
      ++loads[static_cast<std::size_t>(key.layer)][expert];
    }
  }
  for (std::size_t layer = 0; layer < loads.size(); ++layer) {
    if (*std::max_element(loads[layer].begin(), loads[layer].end()) == 0) {
      throw ConfigError(fmt::format("engine.moe.calibration: holds nothing of layer {} (expected a recording of this mixture)", layer));
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
  route.op = Op::route;
  route.params = {static_cast<float>(config.experts_used), 1};
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
  MoeConfig moe = experiment.engine.moe;
  const MoeFamily* family = find_moe_family(experiment.engine.policy);
  if (family == nullptr || !family->experts || config.experts == 0 || !moe.loads.empty()) return moe;
  if (!moe.calibration.empty()) {
    moe.loads = recorded_loads(Recording::load(moe.calibration), config);
  } else if (experiment.engine.function == FunctionKind::draw) {
    moe.loads = drawn_loads(experiment.profile, experiment.workload.seed, config);
  } else {
    throw ConfigError(
        "engine.moe.calibration: is missing: tiers follow the load of experts (`vitro profile MODEL.gguf TEXT -o FILE` records it)");
  }
  return moe;
}

}  // namespace vitro
