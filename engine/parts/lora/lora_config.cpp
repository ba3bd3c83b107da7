#include "engine/parts/lora/lora_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace vitro {
namespace {

constexpr double kMostStrength = 1e6, kMostAlpha = 1e6;
constexpr std::int64_t kMostRank = 1 << 16;

std::vector<Role> read_matrices(Reader& reader) {
  std::vector<Role> roles;
  std::vector<std::string_view> known;
  for (std::size_t r = 0; r < kRoles; ++r) known.push_back(to_string(static_cast<Role>(r)));
  for (const Node& name : reader.list("matrices")) {
    const auto found = name.is_scalar() ? std::ranges::find(known, name.text()) : known.end();
    if (found == known.end()) reader.fail("matrices", "has an entry that is no matrix of a model (expected names such as attn_q, ffn_up)");
    const auto role = static_cast<Role>(found - known.begin());
    if (std::ranges::find(roles, role) != roles.end()) reader.fail("matrices", fmt::format("names {} twice", *found));
    roles.push_back(role);
  }
  if (roles.empty()) reader.fail("matrices", "is empty (expected names such as attn_q, ffn_up)");
  return roles;
}

LoraShape read_shape(Reader& reader) {
  LoraShape shape;
  shape.rank = static_cast<std::uint32_t>(reader.integer("rank", 1, kMostRank));
  shape.alpha = reader.number("alpha", 0, kMostAlpha, 0);
  shape.roles = read_matrices(reader);
  shape.format = *format_by_name(reader.choice("format", {"f32", "f16", "bf16"}, "f16"));
  return shape;
}

AdapterConfig read_adapter(Reader reader) {
  AdapterConfig adapter;
  adapter.name = reader.text("name");
  if (adapter.name.empty() || adapter.name == kNoAdapter) {
    reader.fail("name", fmt::format("\"{}\" can not name an adapter: it stands for the base alone (expected another name)", adapter.name));
  }
  adapter.strength = reader.number("scale", -kMostStrength, kMostStrength, 1);
  if (reader.has("file")) {
    adapter.file = reader.text("file");
  } else {
    adapter.shape = read_shape(reader);
  }
  reader.finish();
  return adapter;
}

}  // namespace

std::vector<std::string> LoraConfig::names() const {
  std::vector<std::string> names{std::string(kNoAdapter)};
  for (const AdapterConfig& adapter : adapters) names.push_back(adapter.name);
  return names;
}

LoraConfig read_lora(Reader reader) {
  LoraConfig lora;
  if (reader.has("adapters")) {
    for (Reader& entry : reader.maps("adapters")) {
      AdapterConfig adapter = read_adapter(entry);
      if (std::ranges::find(lora.adapters, adapter.name, &AdapterConfig::name) != lora.adapters.end()) {
        entry.fail("name", fmt::format("\"{}\" is the name of another adapter, too (expected a name for each)", adapter.name));
      }
      lora.adapters.push_back(std::move(adapter));
    }
  }
  lora.order = reader.choice("order", {"a_bx", "ab_x"}, "a_bx") == "ab_x" ? LoraOrder::ab_x : LoraOrder::a_bx;
  reader.finish();
  return lora;
}

}  // namespace vitro
