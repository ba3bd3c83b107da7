#include "engine/parts/attention/attention_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/quant/kv_rows.hpp"

namespace vitro {

const KvKeepRule* KvConfig::rule() const {
  const KvKeepRule* rule = kv_keep_rules().find(keep);
  return rule != nullptr && (dram_tokens || rule->follows_budget) ? rule : nullptr;
}

AttentionConfig read_attention(Reader reader) {
  AttentionConfig attention;
  const std::string kernel = reader.choice("kernel", {"exact", "lut_exp", "exp_f16", "exp_f32"}, "exact");
  if (kernel != "exact") attention.variant = variant::by_name(kernel);
  reader.finish();
  return attention;
}

KvConfig read_kv(Reader reader) { return read_kv_with(std::move(reader), {}); }

KvConfig read_kv_with(Reader reader, const std::vector<BroughtKeep>& brought) {
  KvConfig kv;
  kv.format = *format_by_name(reader.choice("format", kv_format_names(), "f32"));
  kv.per_query_head = reader.choice("per", {"kv_head", "query_head"}, "kv_head") == "query_head";
  kv.block_tokens = static_cast<std::uint32_t>(reader.integer("block_tokens", 1, 4096, kv.block_tokens));
  if (reader.has("dram_tokens")) kv.dram_tokens = static_cast<std::uint32_t>(reader.integer("dram_tokens", 0, 1 << 24));
  std::vector<std::string> rules = kv_keep_rules().names();
  for (const BroughtKeep& rule : brought) {  // in a run it is registered as well
    if (std::ranges::find(rules, rule.name) == rules.end()) rules.push_back(rule.name);
  }
  kv.keep = reader.choice("keep", rules, kv.keep);
  const auto is_followed = [&kv](const BroughtKeep& rule) { return rule.name == kv.keep && rule.follows_budget; };
  const bool follows_budget = std::ranges::any_of(brought, is_followed);
  const bool stays_whole = !kv.dram_tokens && !follows_budget && kv.rule() == nullptr;
  kv.sinks = static_cast<std::uint32_t>(reader.integer("sinks", 0, 1 << 24, kv.sinks));
  kv.scratch = reader.text("scratch", "");
  kv.prefetch = reader.boolean("prefetch", true);
  kv.checksums = reader.boolean("checksums", false);
  if (kv.keep != KvConfig{}.keep && stays_whole) {
    reader.fail("keep", fmt::format("\"{}\" needs {} (expected how many positions stay)", kv.keep, reader.name_of("dram_tokens")));
  }
  if (!kv.prefetch && stays_whole) reader.fail("prefetch", fmt::format("needs {}", reader.name_of("dram_tokens")));
  reader.finish();
  return kv;
}

}  // namespace vitro
