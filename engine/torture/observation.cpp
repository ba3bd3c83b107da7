#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "engine/torture/subject.hpp"

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::array<std::string_view, 6> kEnds{"tokens", "failed", "refused", "unclear", "died", "hung"};

}  // namespace

std::string_view to_string(Observation::End end) { return kEnds[static_cast<std::size_t>(end)]; }

Json to_json(const Observation& seen) {
  Json json{{"end", to_string(seen.end)},      {"tokens", seen.tokens},        {"error", seen.error},
            {"again_error", seen.again_error}, {"losses", seen.losses},        {"operations", seen.tally.operations},
            {"fired", seen.tally.fired},       {"started", seen.tally.started}, {"ended", seen.tally.ended}};
  if (seen.again) json["again"] = *seen.again;
  json["shadow"] = seen.shadow;
  json["seen"] = {seen.seen.reads, seen.seen.operands, seen.seen.decisions};
  return json;
}

Observation observation_of(const Json& json) {
  Observation seen;
  seen.end = static_cast<Observation::End>(std::ranges::find(kEnds, json.at("end").get<std::string>()) - kEnds.begin());
  seen.tokens = json.at("tokens").get<Tokens>();
  seen.error = json.at("error").get<std::string>();
  seen.again_error = json.at("again_error").get<std::string>();
  seen.losses = json.at("losses").get<std::vector<std::string>>();
  seen.tally.operations = json.at("operations").get<FaultTargets>();
  seen.tally.fired = json.at("fired").get<std::array<std::uint64_t, kFaultKinds>>();
  seen.tally.started = json.at("started").get<std::uint64_t>();
  seen.tally.ended = json.at("ended").get<std::uint64_t>();
  seen.shadow = json.at("shadow").get<std::vector<std::string>>();
  const auto counts = json.at("seen").get<std::array<std::uint64_t, 3>>();
  seen.seen = {counts[0], counts[1], counts[2]};
  if (json.contains("again")) seen.again = json["again"].get<Tokens>();
  return seen;
}

}  // namespace vitro
