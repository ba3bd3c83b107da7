// `engine.attention:` the numeric contract of attention; `engine.kv:` format and place of keys and values.
#pragma once
#include <optional>
#include <string>

#include "engine/base/config.hpp"
#include "engine/ops/variants.hpp"
#include "engine/parts/attention/kv_keep.hpp"

namespace vitro {

struct AttentionConfig {
  VariantId variant{};  // none: that of the other operators
};

struct KvConfig {
  Format format = Format::f32;
  bool per_query_head = false;  // keys and values are kept once for each query head, not for each KV head
  std::uint32_t block_tokens = 16;
  // Positions of a sequence that stay in DRAM; none: all (kv_flash.hpp), or with a rule that follows the budget what that has room for.
  std::optional<std::uint32_t> dram_tokens;
  std::string keep = "first";  // which ones: a rule of kv_keep.hpp
  std::uint32_t sinks = 4;     // first positions that the rule "sinks" keeps
  std::string scratch;         // folder of the file for keys and values in flash; empty: the system's for temporary files
  bool prefetch = true;
  bool checksums = false;  // of what is written to flash, held against what comes back

  const KvKeepRule* rule() const;  // null: all keys and values stay in DRAM
};

AttentionConfig read_attention(Reader reader);
KvConfig read_kv(Reader reader);
// A rule for `keep` that the run will have beside the registered ones.
struct BroughtKeep {
  std::string name;
  bool follows_budget = false;  // KvKeepRule::follows_budget
};
KvConfig read_kv_with(Reader reader, const std::vector<BroughtKeep>& brought);

}  // namespace vitro
