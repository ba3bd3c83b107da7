#include "engine/parts/weights/weights_config.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vitro {
namespace {

// `layout`: none for whole matrices. Matrices of neurons that lie apart are asked for by `bundle: false`.
std::optional<BundleForm> read_layout(Reader& reader, const WeightsConfig& weights, bool bundled) {
  std::vector<std::string> layouts{"rows"};
  for (const BundleForm form : kBundleForms) {
    if (!lies_apart(form)) layouts.emplace_back(to_string(form));
  }
  const std::string layout = reader.choice("layout", layouts, "auto");
  if (!bundled && layout == "auto") return std::nullopt;
  const std::optional<BundleForm> form = form_by_name(layout);
  if (form.has_value() != bundled) {
    reader.fail("layout", fmt::format("{} can not be combined with {}: {} (expected {})", layout, reader.name_of("kind"), weights.kind,
                                      bundled ? "a layout of bundles, or auto" : "rows or auto"));
  }
  if (!form || weights.neurons.bundle) return form;
  if (form == BundleForm::automatic || form == BundleForm::one_read) return BundleForm::apart;
  if (form == BundleForm::two_phases) return BundleForm::apart_two_phases;
  reader.fail("layout", fmt::format("{} needs neurons side by side, but {} is false (expected auto, bundles or bundles_two_phase)", layout,
                                    reader.name_of("bundle")));
}

ExpertCacheConfig read_experts(Reader reader, const std::vector<std::string>& aheads, const std::string& eviction) {
  ExpertCacheConfig experts;
  experts.budget = static_cast<Bytes>(reader.quantity("budget", Dimension::bytes, 0));
  experts.look_ahead = reader.boolean("look_ahead", experts.look_ahead);
  experts.ahead = reader.choice("ahead", aheads, experts.ahead);
  experts.neurons_ahead = static_cast<Bytes>(reader.quantity("neurons_ahead", Dimension::bytes, 0));
  experts.window = static_cast<std::uint32_t>(reader.integer("window", 1, 256, experts.window));
  experts.calibrated = reader.choice("popularity", {"seen", "calibrated"}, "seen") == "calibrated";
  if (experts.calibrated && eviction != "popularity") {
    reader.fail("popularity", fmt::format("calibrated can not be combined with eviction: {}, which has no use for it (expected popularity)",
                                          eviction));
  }
  reader.finish();
  return experts;
}

}  // namespace

WeightsConfig read_weights(Reader reader, const std::vector<std::string>& kinds, const std::vector<std::string>& evictions,
                           bool by_neuron, const std::vector<std::string>& aheads) {
  WeightsConfig weights;
  NeuronCacheConfig& neurons = weights.neurons;
  weights.kind = reader.choice("kind", kinds, weights.kind);
  weights.read_ahead = static_cast<Bytes>(reader.quantity("read_ahead", Dimension::bytes, static_cast<double>(weights.read_ahead)));
  if (weights.read_ahead < kPageSize || weights.read_ahead % kPageSize != 0) {
    reader.fail("read_ahead", fmt::format("{} bytes (expected a multiple of {} bytes, such as 128 KiB)", weights.read_ahead, kPageSize));
  }
  if (weights.kind != "paged") reader.forget("read_ahead");
  weights.repack = reader.boolean("repack", true);
  weights.embedding_in_flash = reader.choice("embedding", {"dram", "flash"}, "dram") == "flash";
  neurons.eviction = reader.choice("eviction", evictions, neurons.eviction);
  std::vector<std::string> admissions;
  for (const AdmissionRule rule : kAdmissionRules) admissions.emplace_back(to_string(rule));
  neurons.admission = kAdmissionRules[std::ranges::find(admissions, reader.choice("admission", admissions, "rule")) - admissions.begin()];
  neurons.staging = static_cast<Bytes>(reader.quantity("staging", Dimension::bytes, static_cast<double>(neurons.staging)));
  neurons.bundle = reader.boolean("bundle", neurons.bundle);
  neurons.two_phases = reader.boolean("two_phases", neurons.two_phases);
  neurons.cache = reader.boolean("cache", neurons.cache);
  neurons.window = reader.number("window", 0, 1 << 20, neurons.window);
  if (neurons.window > 0 && neurons.eviction != "window") {
    reader.fail("window", fmt::format("can not be combined with {}: {}", reader.name_of("eviction"), neurons.eviction));
  }
  neurons.report_bound = reader.boolean("report_bound", false);
  weights.experts = read_experts(reader.section("experts"), aheads, neurons.eviction);
  weights.bundles = read_layout(reader, weights, by_neuron || weights.kind == "bundles");
  if (weights.bundles && neurons.eviction == "router") {
    const std::string neurons_by = by_neuron ? "engine.ffn.kind: clusters" : reader.name_of("kind") + ": " + weights.kind;
    reader.fail("eviction", fmt::format("router can not be combined with {}: routers weigh experts, and no neurons (expected popularity or "
                                        "another rule)", neurons_by));
  }
  if (weights.kind == "experts" && !weights.bundles && neurons.eviction == "window") {
    reader.fail("eviction", fmt::format("window can not be combined with {}: experts: what no token of the last ones used is counted for "
                                        "neurons (expected lru or another rule)", reader.name_of("kind")));
  }
  if (weights.experts.neurons_ahead > 0 && !weights.bundles) {
    reader.fail("experts.neurons_ahead", fmt::format("can not be combined with {}: {} of whole matrices (expected a layout of bundles, as "
                                                     "engine.policy: neuron_cluster has; whole experts have experts.look_ahead)",
                                                     reader.name_of("kind"), weights.kind));
  }
  if (weights.experts.neurons_ahead > 0 && !weights.experts.look_ahead) {
    reader.fail("experts.neurons_ahead", "can not be combined with experts.look_ahead: false (expected true)");
  }
  if (weights.experts.calibrated && (weights.kind != "experts" || weights.bundles)) {
    reader.fail("kind", fmt::format("{} can not be combined with experts.popularity: calibrated, which is of whole experts behind a cache "
                                    "(expected experts)", weights.kind));
  }
  reader.finish();
  return weights;
}

}  // namespace vitro
