// Reading a KernelCall: sizes, slices, row runs and the KV pool's addresses, the same for every implementation.
#pragma once
#include <algorithm>
#include <cmath>

#include "engine/base/check.hpp"
#include "engine/ops/contract.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/kv_rows.hpp"

namespace vitro {

// Product of the dimensions in use.
inline std::uint64_t elements(const View& view) {
  std::uint64_t n = 1;
  for (const std::uint32_t d : view.shape) n *= d == 0 ? 1 : d;
  return view.shape[0] == 0 ? 0 : n;
}

// Elements of a row: the last dimension in use. Block formats are blocked along it.
inline std::uint32_t columns(const View& view) {
  return view.shape[2] != 0 ? view.shape[2] : view.shape[1] != 0 ? view.shape[1] : view.shape[0];
}

// Bytes that the view covers. Requires: columns are whole blocks.
inline Bytes view_bytes(const View& view) {
  if (view.shape[0] == 0) return 0;
  const Bytes rows = view.shape[2] != 0 ? Bytes{view.shape[0]} * std::max(view.shape[1], 1u) : view.shape[1] != 0 ? view.shape[0] : 1;
  return rows * (view.format == Format::f32 ? Bytes{4} * columns(view) : row_bytes(view.format, columns(view), view.layout));  // mostly f32
}

// Whether two views share a byte. Requires: both have memory.
inline bool overlap(const View& a, const View& b) { return a.data() < b.data() + view_bytes(b) && b.data() < a.data() + view_bytes(a); }

struct Range {
  std::uint32_t first = 0, count = 0;
  std::uint32_t end() const { return first + count; }
};

// What two ranges have in common; nothing of ranges that do not meet.
inline Range common(Range a, Range b) {
  const std::uint32_t begin = std::max(a.first, b.first), end = std::min(a.end(), b.end());
  return {begin, end > begin ? end - begin : 0};
}

// Blocks of so many tokens that the range touches. Requires: it is not empty.
inline std::uint32_t blocks_of(Range tokens, std::uint32_t block_tokens) {
  return (tokens.end() - 1) / block_tokens - tokens.first / block_tokens + 1;
}

// The part of [0, n) that the call's slice names. Requires: the slice is inside, or open at its end.
inline Range sliced(const KernelCall& call, std::uint32_t n) {
  return {call.slice.first, call.slice.count == ~0u ? n - call.slice.first : call.slice.count};
}

// Heads of an operand [B, heads, dim] that the call computes; one without heads has a single one. Requires: as sliced().
inline Range sliced_heads(const KernelCall& call, const View& view) {
  return view.shape[2] == 0 ? Range{0, 1} : sliced(call, view.shape[1]);
}

// Calls f(Range) for each run of consecutive rows that the call computes: its slice, or call.rows inside the slice.
template <class F>
void for_each_run(const KernelCall& call, std::uint32_t n, F f) {
  if (call.rows == nullptr) {
    if (const Range all = sliced(call, n); all.count > 0) f(all);
    return;
  }
  const auto& rows = *call.rows;
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    f(Range{rows[i], static_cast<std::uint32_t>(end - i)});
    i = end;
  }
}

// Calls f(row, at) for each row of the first operand that the call computes, ascending: it begins `at` bytes behind the
// operand's offset, in Layout::rows.
template <class F>
void for_each_row(const KernelCall& call, F f) {
  if (call.row_offsets != nullptr) {
    for (std::size_t i = 0; i < call.row_offsets->size(); ++i) f((*call.rows)[i], (*call.row_offsets)[i] * kRowOffsetUnit);
    return;
  }
  const Bytes stride = row_bytes(call.in[0].format, columns(call.in[0]));
  for_each_run(call, call.in[0].shape[0], [&](Range run) {
    for (std::uint32_t row = run.first; row < run.end(); ++row) f(row, row * stride);
  });
}

// The scales of q4_nibbles weights, f16 [N, K/32]; null for formats that hold their own.
inline const View* scales_of(const KernelCall& call) { return call.in[0].format == Format::q4_nibbles ? &call.in[2] : nullptr; }
inline Bytes scale_row_bytes(const View& weights) { return Bytes{2} * (columns(weights) / kBlock); }
inline const View* bias_of(const KernelCall& call) {
  const std::size_t at = scales_of(call) != nullptr ? 3 : 2;
  return call.in.size() > at ? &call.in[at] : nullptr;
}

// Positions of its own sequence that batch row `position` attends to.
inline Range visible(std::uint32_t position, std::uint32_t window) {
  const std::uint32_t seen = window == 0 ? position + 1 : std::min(window, position + 1);
  return {position + 1 - seen, seen};
}

// Whether operand 1 of the call is a KV pool, and 2 its block table: attention, or a part of it.
inline bool reads_kv(const KernelCall& call) {
  return call.is<ops::Attention, ops::AttentionScores, ops::AttentionValues>() && call.in.size() > 1;
}

// The KV pool of attention.hpp: bytes [block][layer][K then V][heads][block_tokens][dim].
struct KvPool {
  std::byte* data = nullptr;
  Format format = Format::f32;
  std::uint32_t heads = 0, block_tokens = 0, dim = 0, layers = 0, layer = 0;

  KvPool(const View& view, std::uint32_t layers, std::int16_t layer)
      : data(view.data()),
        format(view.format),
        heads(view.shape[0]),
        block_tokens(view.shape[1]),
        dim(view.shape[2]),
        layers(layers),
        layer(layers == 1 ? 0 : static_cast<std::uint32_t>(layer)) {}

  Bytes row_bytes(std::uint32_t which) const { return kv_row_bytes(format, which, dim); }
  Bytes layer_bytes() const { return Bytes{heads} * block_tokens * kv_pair_bytes(format, dim); }
  Bytes block_bytes() const { return layers * layer_bytes(); }
  // Offset of [head][token 0][0] of K (which = 0) or V (1) in a block.
  Bytes offset(std::uint32_t block, std::uint32_t which, std::uint32_t head) const {
    return block * block_bytes() + layer * layer_bytes() + (which * heads * row_bytes(0) + head * row_bytes(which)) * block_tokens;
  }
};

// Heads of the pool that keep the same keys and values: of each head of k [B, KVH, dim], or of its heads folded.
inline std::uint32_t copies_of(const View& k, const View& pool) {
  return static_cast<std::uint32_t>(std::uint64_t{k.shape[0]} * pool.shape[0] * pool.shape[2] / elements(k));
}

// The rotation angles of one position: cosine and sine per pair. Computed in double and rounded to float: the C library's
// double functions err by less than 1 ulp, so two libraries round to the same float except in one of about 2^28 cases.
inline void rope_angles(const ops::Rope& rope, const KernelCall& call, std::uint32_t position, float* cosines, float* sines) {
  const float* divisors = call.in.size() > 1 ? call.in[1].as<float>() : nullptr;
  for (std::uint32_t i = 0; i < rope.dims / 2; ++i) {
    const double frequency = std::pow(double{rope.base}, -2.0 * i / rope.dims) / (divisors != nullptr ? divisors[i] : 1.0f);
    const double angle = position * double{rope.position_scale} * frequency;
    cosines[i] = static_cast<float>(std::cos(angle));
    sines[i] = static_cast<float>(std::sin(angle));
  }
}

}  // namespace vitro
