#include "engine/app/experiment.hpp"

namespace vitro {
namespace {

constexpr std::int64_t kMaxStretch = 1024;  // drawing a token looks at as many groups of neurons

std::vector<FiringProfile::Point> read_curve(Reader& layer) {
  std::vector<FiringProfile::Point> curve;
  for (Reader& reader : layer.maps("curve")) {
    const FiringProfile::Point point{reader.share("neurons", 0), reader.share("probability", 0)};
    reader.finish();
    for (const auto& [key, value] : {std::pair("neurons", point.neurons), std::pair("probability", point.probability)}) {
      if (value == 0) reader.fail(key, "is missing or 0 (expected above 0%)");
    }
    if (!curve.empty() && point.neurons <= curve.back().neurons)
      reader.fail("neurons", "is not larger than at the point before (expected ascending shares)");
    if (!curve.empty() && point.probability > curve.back().probability)
      reader.fail("probability", "is larger than at the point before (expected the hottest neurons first)");
    curve.push_back(point);
  }
  if (curve.empty()) layer.fail("curve", "is empty (expected points such as {neurons: 1%, probability: 50%})");
  return curve;
}

FiringProfile read_layer(Reader& layer) {
  FiringProfile firing;
  if (layer.has("curve")) {
    for (const char* key : {"fraction", "skew"}) {
      if (layer.has(key)) layer.fail(key, "can not be combined with curve (expected one of the two)");
    }
    firing.curve = read_curve(layer);
  } else {
    firing.stated = layer.has("fraction");
    firing.fraction = layer.share("fraction", firing.fraction);
    firing.skew = layer.number("skew", 0, 10, firing.skew);
  }
  return firing;
}

}  // namespace

DrawProfile read_profile(Reader reader) {
  DrawProfile profile;
  if (reader.has("layers")) {
    profile.layers.clear();
    for (Reader& layer : reader.maps("layers")) {
      profile.layers.push_back(read_layer(layer));
      layer.finish();
    }
    if (profile.layers.empty()) reader.fail("layers", "is empty (expected one entry per layer)");
  } else {
    profile.layers = {read_layer(reader)};
  }
  profile.expert_skew = reader.number("expert_skew", 0, 10, 0);
  profile.persistence = reader.share("persistence", 0);
  profile.expert_persistence = reader.share("expert_persistence", profile.persistence);
  profile.expert_foresight = reader.share("expert_foresight", 0);
  profile.stretch = static_cast<std::uint32_t>(reader.integer("stretch", 1, kMaxStretch, profile.stretch));
  profile.activity_spread = reader.share("activity_spread", 0);
  profile.layer_correlation = reader.share("layer_correlation", 1);
  profile.ordered = reader.boolean("ordered", profile.ordered);
  profile.task = reader.text("task", "");
  profile.task_share = reader.share("task_share", 0);
  if (!profile.task.empty() && profile.task_share == 0)
    reader.fail("task_share", "is missing or 0: it is the share of neurons that only this task uses (expected above 0%)");
  Reader predictor = reader.section("predictor");
  profile.predictor.recall = predictor.number("recall", 0, 1, 1);
  profile.predictor.precision = predictor.number("precision", 0.01, 1, 1);
  predictor.finish();
  reader.finish();
  return profile;
}

}  // namespace vitro
