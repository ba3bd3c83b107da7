#include "engine/parts/attention/attention_config.hpp"

#include <fmt/format.h>

namespace vitro {

AttentionConfig read_attention(Reader reader) {
  AttentionConfig attention;
  if (reader.choice("kernel", {"exact", "lut_exp"}, "exact") == "lut_exp") attention.variant = variant::kLutExp;
  reader.finish();
  return attention;
}

KvConfig read_kv(Reader reader) {
  KvConfig kv;
  kv.format = *format_by_name(reader.choice("format", {"f32", "f16", "int8_fp8"}, "f32"));
  kv.per_query_head = reader.choice("per", {"kv_head", "query_head"}, "kv_head") == "query_head";
  kv.block_tokens = static_cast<std::uint32_t>(reader.integer("block_tokens", 1, 4096, kv.block_tokens));
  if (reader.has("dram_tokens")) kv.dram_tokens = static_cast<std::uint32_t>(reader.integer("dram_tokens", 0, 1 << 24));
  kv.prefetch = reader.boolean("prefetch", true);
  if (!kv.prefetch && !kv.dram_tokens) reader.fail("prefetch", fmt::format("needs {}", reader.name_of("dram_tokens")));
  reader.finish();
  return kv;
}

}  // namespace vitro
