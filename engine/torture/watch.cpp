#include "engine/torture/watch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/parts/ffn/neuron_cluster/neuron_store.hpp"
#include "engine/torture/shadow/shadow_machine.hpp"

namespace vitro {

Watch::Watch(const Experiment& experiment, ShadowRules::Between between)
    : experiment_(experiment), rules_(experiment.engine.weights.bundles.has_value(), std::move(between)) {}

std::unique_ptr<MachineHost> Watch::before(std::unique_ptr<MachineHost> host) {
  return std::make_unique<ShadowMachine>(std::move(host), shadow_, decisions_);
}

void Watch::know(const WeightStore& weights) {
  if (weights_ == nullptr) weights_ = &weights;
  shadow_.know(weights);
  if (weights_ != &weights || experiment_.engine.weights.kind != "paged" || !experiment_.memory.ffn_in_dram) return;
  decisions_.room_for_pages(static_cast<Bytes>(*experiment_.memory.ffn_in_dram * static_cast<double>(weights.ffn_bytes())) / kPageSize);
}

void Watch::request_begins(const Decoder& decoder) {
  shadow_.request_begins();
  loads_ = decisions_.loads();
  cached_ = decoder.cache_stats();
  if (const ExpertCacheStats* experts = decoder.residency->expert_stats()) kept_ = experts->kept;
  if (const KvFlashStats* kv = decoder.transformer->kv_flash()) kv_read_ = kv->read, kv_written_ = kv->written;
}

void Watch::request_ends(const Decoder& decoder, bool well) {
  shadow_.request_ends(well);
  if (!well) decisions_.pages_are_unsure();
  if (NeuronStore* neurons = decoder.residency->neurons()) rules_.hold_against(neurons->cache());
  if (const ExpertCacheStats* experts = decoder.residency->expert_stats()) {
    // Slots are stated of all matrices of an expert together, of which each has as many.
    expect(3 * decisions_.most_experts() <= experts->slots,
           fmt::format("{} experts were resident at once, and there is room for {}", decisions_.most_experts(), experts->slots / 3));
  }
  if (well) hold_sums_against(decoder);
}

void Watch::expect(bool holds, const std::string& what) {
  if (!holds) shadow_.found(what);
}

Bytes Watch::brought_of_ffns() const {
  Bytes sum = 0;
  for (const Role role : {Role::ffn_gate, Role::ffn_up, Role::ffn_gate_up, Role::ffn_down}) sum += shadow_.brought(role);
  return sum;
}

// What was read is what was missed, as the engine counts it and as its decisions say.
void Watch::hold_sums_against(const Decoder& decoder) {
  const std::string& kind = experiment_.engine.weights.kind;
  const ShadowDecisions::Loads& all = decisions_.loads();
  const std::uint64_t misses = decoder.cache_stats().misses - cached_.misses;
  if (NeuronStore* neurons = decoder.residency->neurons()) {  // whatever the kind, where FFNs are computed by neuron
    const std::uint64_t loads = all.neurons - loads_.neurons;
    const BundleLayout& layout = neurons->layout();
    const bool halves = layout.first_part > 0;  // what was there in part misses, too
    expect(halves ? misses >= loads : misses == loads, fmt::format("{} blocks missed, and {} were loaded", misses, loads));
    const Bytes least = loads * (halves ? layout.first_part : layout.block), read = shadow_.brought(Role::ffn_bundle);
    expect(read >= least, fmt::format("{} blocks were loaded, and {} bytes were read (expected {} or more)", loads, read, least));
  } else if (const ExpertCacheStats* experts = decoder.residency->expert_stats()) {
    const std::uint64_t loads = all.experts - loads_.experts;
    expect(experts->kept != kept_ ? misses <= loads : misses == loads,
           fmt::format("{} matrices of experts missed, and {} were loaded", misses, loads));
  } else if (kind == "paged" && experiment_.memory.ffn_in_dram) {
    const std::uint64_t pages = all.pages - loads_.pages;
    const Bytes read = brought_of_ffns();
    expect(read == pages * kPageSize, fmt::format("{} pages were to be loaded, and {} bytes were read", pages, read));
    expect(misses <= pages, fmt::format("{} pages missed, and {} were loaded", misses, pages));
  } else if (kind == "streamed") {
    std::uint64_t loads = 0;
    Bytes bytes = 0;
    bool whole = true;
    for (const auto& [name, count] : all.matrices) {
      const auto before = loads_.matrices.find(name);
      const std::uint64_t now = count - (before == loads_.matrices.end() ? 0 : before->second);
      const auto weight = std::ranges::find(weights_->all(), name, &Weight::name);
      if (weight == weights_->all().end()) continue;
      whole &= weight->experts == 1;  // matrices of experts begin anywhere within a page
      loads += now;
      bytes += now * round_up(weight->matrix_bytes(), kPageSize);
    }
    expect(misses == loads, fmt::format("{} matrices missed, and {} were read", misses, loads));
    const Bytes read = brought_of_ffns();
    expect(!whole || bytes == read, fmt::format("matrices of {} bytes were to be read, and {} were", bytes, read));
  }
  if (const KvFlashStats* kv = decoder.transformer->kv_flash()) {
    expect(kv->read - kv_read_ == shadow_.asked_kv(),
           fmt::format("{} bytes of keys and values count as read, and {} were asked for", kv->read - kv_read_, shadow_.asked_kv()));
    expect(kv->written - kv_written_ == shadow_.written_kv(),
           fmt::format("{} bytes of keys and values count as written, and {} were", kv->written - kv_written_, shadow_.written_kv()));
  }
}

std::vector<std::string> Watch::findings() const {
  std::vector<std::string> all = shadow_.findings();
  for (const auto* more : {&rules_.findings(), &decisions_.findings()}) all.insert(all.end(), more->begin(), more->end());
  return all;
}

ShadowCounts Watch::counts() const {
  ShadowCounts counts = shadow_.counts();
  counts.decisions = decisions_.count() + rules_.calls;
  return counts;
}

}  // namespace vitro
