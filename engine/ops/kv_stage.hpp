#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {KV pool (attention.hpp) of P heads; block table index32 [S, 1]}; out a KV pool of one layer in f16, of as many heads, block_tokens
// and dim, with room for S blocks; slice over P. A row of the batch is a block: of row s, positions 0 .. p of block table[s][0] go to block
// s of the output, p below block_tokens. Each key and value is decoded to float32 and rounded to fp16, to nearest, ties to even; what is
// larger than fp16 reaches becomes infinite. So attention over the output is attention over keys and values rounded to fp16, on whatever
// unit.
struct KvStage {
  static constexpr std::string_view kName = "kv_stage";
  static constexpr Arity kArity{.in_min = 2, .in_max = 2, .out = 1, .slice = true};

  std::uint32_t pool_layers = 1;

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const KvStage&, const KvStage&) = default;
};

}  // namespace vitro::ops
