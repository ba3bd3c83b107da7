#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {q [B, H, dim]; pool of P heads; block table index32 [B, blocks]}; out [B, H, dim]; slice over P (each with its H / P query heads).
// Row b sees positions max(0, p - window + 1) .. p of its sequence.
// s_i = scale * (16-lane dot of q and k_i); e_i = exp(s_i - max s); y = (sum over i ascending, fused, of e_i v_i) / (16-lane sum of e_i).
// With scales_query s_i = 16-lane dot of (scale * q) and k_i. Where q is float16, scale * q and the dots are stored in float16, too, each
// rounded once; all from the softmax on is float32 (MNN-LLM 5.3). A dot beyond 65,504 is infinite then, and so the result is no number:
// scales_query keeps dots smaller.
// In fp16 (kLutExp and its like): variants.hpp. The KV pool: view shape {P, block_tokens, dim}, one of kKvFormats; bytes
// [block][layer][K then V][P][block_tokens][dim], rows as engine/quant/kv_rows.hpp says, whose numbers enter sums as the float32 that they
// stand for; the layer is call.layer, but for a pool of one layer, which may hold several as blocks of their own. P is the number of KV
// heads, or of query heads where each keeps keys and values of its own.
struct Attention {
  static constexpr std::string_view kName = "attention";
  static constexpr Arity kArity{.in_min = 3, .in_max = 3, .out = 1, .slice = true, .f16_in = 0b1, .f16_out = true};

  float scale = 0;
  std::uint32_t window = 0;  // 0: all positions
  std::uint32_t pool_layers = 1;
  bool scales_query = false;  // q by `scale`, instead of its products with keys
  // Of a graph of static shape: the keys that each row meets, those that it does not see masked. They change no result, but are read and
  // multiplied all the same, also beyond what the pool holds. 0: those that it sees alone. Requires: none that it sees lies beyond.
  std::uint32_t keys = 0;

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const Attention&, const Attention&) = default;
};

}  // namespace vitro::ops
