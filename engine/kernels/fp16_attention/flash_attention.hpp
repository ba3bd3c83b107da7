// FlashAttention in fp16 (TTS-NPU Algorithm 1), in plain C++: the numbers that a phone's NPU would compute.
//
// Tiles of queries meet tiles of keys. S = Q K^T, the running maximum m, P = 2^(S - m), the running sum l and the output O are
// fp16; products accumulate in float32 as HMX does, keys ascending behind the rescaled output; the row sums of P are float32 in 32
// lanes. log2 e / sqrt(dim) is folded into Q's scale, so exp is 2^x, looked up. The order of every sum is that of
// engine/kernels/hexagon/attention_stages.hpp, whose HVX code has these bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vitro::fp16_attention {

struct AttentionShape {
  std::size_t queries = 0, keys = 0, dim = 0;
  std::size_t query_tile = 32, key_tile = 32;  // rows of a tile: one of HMX
};

// How P is made from S - m <= 0.
enum class ExpBy { table, exact };  // exact: 2^x in double, rounded to fp16; what the table is compared with

// q: [queries, dim], k, v: [keys, dim], fp16. Returns softmax(q k^T * scale) v, fp16 [queries, dim]. Every query sees every key.
// `table`: lut::powers_of_two(), or a changed one.
std::vector<std::uint16_t> flash_attention(const AttentionShape& shape, std::span<const std::uint16_t> q, std::span<const std::uint16_t> k,
                                           std::span<const std::uint16_t> v, float scale, std::span<const std::uint16_t> table,
                                           ExpBy by = ExpBy::table);

}  // namespace vitro::fp16_attention
