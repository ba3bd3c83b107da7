#include "engine/app/old_engine_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/app/policies_data.hpp"

namespace vitro {
namespace {

// Keys of earlier versions and what they are called now.
constexpr std::array<std::pair<std::string_view, std::string_view>, 28> kRenamed{{
    {"units", "placement.units"},
    {"threads", "placement.threads"},
    {"outliers", "placement.outliers"},
    {"sessions", "placement.sessions"},
    {"activations", "products.numerics"},
    {"prefill_activations", "products.prefill_numerics"},
    {"repack", "weights.repack"},
    {"layout", "weights.layout"},
    {"embedding", "weights.embedding"},
    {"read_ahead", "weights.read_ahead"},
    {"kv_format", "kv.format"},
    {"kv_per", "kv.per"},
    {"kv_block_tokens", "kv.block_tokens"},
    {"kv_dram_tokens", "kv.dram_tokens"},
    {"kv_prefetch", "kv.prefetch"},
    {"clusters.eviction", "weights.eviction"},
    {"clusters.admission", "weights.admission"},
    {"clusters.window", "weights.window"},
    {"clusters.staging", "weights.staging"},
    {"clusters.bundle", "weights.bundle"},
    {"clusters.two_phases", "weights.two_phases"},
    {"clusters.cache", "weights.cache"},
    {"clusters.report_bound", "weights.report_bound"},
    {"hybrid.cluster", "ffn.clusters.hot_cluster"},
    {"hybrid.in_dram", "ffn.clusters.hot_in_dram"},
    {"hybrid.unit", "placement.unit"},
    {"moe.units", "placement.graph_units"},
    {"moe.attention", "placement.attention"},
}};
// Maps of earlier versions: where their keys are now, but for those above.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kMoved{
    {{"clusters", "ffn.clusters"}, {"hybrid", "placement"}, {"moe", "ffn.experts"}}};

Node::Entry written(std::string path, Node value, std::string_view old) {
  value.set_written_as(fmt::format("engine.{}", old));
  return {std::move(path), std::move(value)};
}

// engine.kernels was an instruction set, a way to multiply codes, their bits, or the contract of a matrix unit.
std::vector<Node::Entry> kernels(const Node& value) {
  const auto text = [&](std::string_view name) { return Node::scalar(std::string(name), value.origin()); };
  const std::string name = value.is_scalar() ? value.text() : "";
  if (name == "hmx_q4") return {written("products.numerics", text("fp16"), "kernels")};
  if (name == "lut" || name == "dot") return {written("products.codes", text(name), "kernels")};
  if (name.size() == 6 && name.starts_with("lut_w") && name.back() >= '1' && name.back() <= '4') {
    return {written("products.codes", text("lut"), "kernels"), written("products.code_bits", text(name.substr(5)), "kernels")};
  }
  return {written("products.isa", value, "kernels")};
}

// What a map of an earlier version may have set: an override of the map takes it all back.
std::vector<Node::Entry> nothing_of(std::string_view map) {
  std::vector<Node::Entry> entries;
  for (const auto& [old, now] : kRenamed) {
    if (old.starts_with(map) && old.size() > map.size() && old[map.size()] == '.') entries.emplace_back(now, Node());
  }
  if (map == "hybrid") {
    for (const char* key : {"placement.splits", "placement.prefill"}) entries.emplace_back(key, Node());
  } else {
    entries.emplace_back(std::ranges::find(kMoved, map, &std::pair<std::string_view, std::string_view>::first)->second, Node());
  }
  return entries;
}

// Maps merge deeply and `over` wins, but for nulls, which say nothing.
Node merged(const Node& under, const Node& over) {
  if (over.is_null()) return under;
  if (!under.is_map() || !over.is_map()) return over;
  Node out = under;
  for (const auto& [key, value] : over.entries()) {
    const Node* below = under.find(key);
    out.set(key, below == nullptr ? value : merged(*below, value));
  }
  return out;
}

// A value that `engine` must not have already; maps may come in parts. Nulls say nothing.
void add(Node& engine, const std::string& path, const Node& value) {
  const Node* there = engine.find_path(path);
  if (there == nullptr || there->is_null()) return engine.set_path(path, value);
  if (value.is_null()) return;
  if (there->is_map() && value.is_map()) {
    for (const auto& [key, inner] : value.entries()) add(engine, fmt::format("{}.{}", path, key), inner);
    return;
  }
  const auto name = [&](const Node& node) { return node.written_as().empty() ? fmt::format("engine.{}", path) : node.written_as(); };
  fail_at(value.origin(), name(value), fmt::format("can not be combined with {} (expected one of the two)", name(*there)));
}

const Node& compositions() {
  static const Node kCompositions = parse_json(kPoliciesJson, "configs/engines/policies.json");
  return kCompositions;
}

}  // namespace

const std::vector<PolicyInfo>& policies() {
  static const std::vector<PolicyInfo> kPolicies = [] {
    std::vector<PolicyInfo> all;
    for (const auto& [name, parts] : compositions().entries()) all.push_back({name, parts.find("description")->text()});
    return all;
  }();
  return kPolicies;
}

std::vector<std::string_view> earlier_keys() {
  std::vector<std::string_view> keys{"kernels"};
  for (const auto& [old, now] : kRenamed) {
    if (old.find('.') == old.npos) keys.push_back(old);
  }
  for (const auto& [old, now] : kMoved) keys.push_back(old);
  return keys;
}

std::vector<Node::Entry> engine_entries(std::string_view key, const Node& value) {
  if (key == "kernels") return kernels(value);
  if (key == "attention" && value.is_scalar()) return {written("attention.kernel", value, key)};
  for (const auto& [old, now] : kRenamed) {
    if (key == old) return {written(std::string(now), value, key)};
  }
  for (const auto& [old, now] : kMoved) {
    if (key == old && value.is_map()) {
      std::vector<Node::Entry> entries;
      for (const auto& [name, inner] : value.entries())
        std::ranges::move(engine_entries(fmt::format("{}.{}", old, name), inner), std::back_inserter(entries));
      return entries;
    }
    if (key == old && value.is_null()) return {};
    if (key.starts_with(old) && key.size() > old.size() && key[old.size()] == '.') {
      return {written(fmt::format("{}{}", now, key.substr(old.size())), value, key)};
    }
  }
  return {{std::string(key), value}};
}

void set_engine_key(Node& engine, std::string_view key, const Node& value) {
  const bool map = std::ranges::any_of(kMoved, [&](const auto& moved) { return moved.first == key; });
  if (map) {
    for (auto& [path, null] : nothing_of(key)) {
      if (engine.find_path(path) != nullptr) engine.set_path(path, std::move(null));
    }
  }
  if (key == "kernels") {
    for (const char* path : {"products.isa", "products.codes", "products.code_bits"}) {
      if (engine.find_path(path) != nullptr) engine.set_path(path, Node());
    }
  }
  for (auto& [path, now] : engine_entries(key, value)) engine.set_path(path, std::move(now));
}

Node canonical_engine(const Node& engine) {
  if (!engine.is_map()) return engine;
  Node out = Node::map({}, engine.origin());
  for (const auto& [key, value] : engine.entries()) {
    for (const auto& [path, now] : engine_entries(key, value)) add(out, path, now);
  }
  return out;
}

Node over_policy(const Node& engine) {
  const Node* named = engine.find("policy");
  const std::string name = named == nullptr || !named->is_scalar() ? "dense" : named->text();
  const Node* parts = compositions().find(name);
  if (parts == nullptr) {
    std::vector<std::string> names;
    for (const PolicyInfo& info : policies()) names.push_back(info.name);
    fail_at(named->origin(), "engine.policy", fmt::format("\"{}\" (expected one of: {})", name, fmt::join(names, ", ")));
  }
  Node base = Node::map({}, engine.origin());
  for (const auto& [key, value] : parts->entries()) {
    if (key != "description") base.set(key, value);
  }
  return merged(base, engine);
}

}  // namespace vitro
