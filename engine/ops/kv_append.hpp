#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {k [B, KVH, dim]; v [B, KVH, dim]; block table index32 [B, blocks]}; out a KV pool (attention.hpp) of P heads, a multiple of KVH;
// slice over P. Writes position p of its sequence to block table[b][p / block_tokens], head h of k and v to each of the heads h * P / KVH
// up to the next one's first.
struct KvAppend {
  static constexpr std::string_view kName = "kv_append";
  static constexpr Arity kArity{.in_min = 3, .in_max = 3, .out = 1, .slice = true, .f16_in = 0b11};

  std::uint32_t pool_layers = 1;

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const KvAppend&, const KvAppend&) = default;
};

}  // namespace vitro::ops
