// `engine.attention:` the numeric contract of attention; `engine.kv:` format and place of keys and values.
#pragma once
#include <optional>

#include "engine/base/config.hpp"
#include "engine/ops/variants.hpp"

namespace vitro {

struct AttentionConfig {
  VariantId variant{};  // none: that of the other operators
};

struct KvConfig {
  Format format = Format::f32;
  bool per_query_head = false;  // keys and values are kept once for each query head, not for each KV head
  std::uint32_t block_tokens = 16;
  std::optional<std::uint32_t> dram_tokens;  // positions of a sequence that stay in DRAM; none: all (kv_flash.hpp)
  bool prefetch = true;
};

AttentionConfig read_attention(Reader reader);
KvConfig read_kv(Reader reader);

}  // namespace vitro
