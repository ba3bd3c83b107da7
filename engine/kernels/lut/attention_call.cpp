#include "engine/kernels/lut/attention_call.hpp"

#include <algorithm>
#include <cstring>

#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/quant/float16.hpp"
#include "engine/quant/kv_rows.hpp"

namespace vitro::lut {

AttentionCall::AttentionCall(const KernelCall& call)
    : call_(call),
      op_(call.get<ops::Attention>()),
      pool_(call.in[1], op_.pool_layers, call.layer),
      heads_(elements(call.in[0]) / call.batch->size() / pool_.dim),
      group_(heads_ / pool_.heads) {}

std::vector<AttentionPiece> AttentionCall::pieces() const {
  std::vector<AttentionPiece> all;
  const Range slice = sliced(call_, pool_.heads);
  for (std::uint32_t b = 0; b < call_.batch->size(); ++b) {
    const Range tokens = visible((*call_.batch)[b].position, op_.window);
    for (std::uint32_t h = slice.first; h < slice.end(); ++h) all.push_back({b, h, tokens});
  }
  return all;
}

void AttentionCall::keys(const AttentionPiece& piece, std::uint32_t which, std::size_t pitch, std::uint16_t* out) const {
  const View& table = call_.in[2];
  const auto* blocks = table.as<std::uint32_t>() + std::size_t{piece.row} * table.shape[1];
  std::vector<float> row(pool_.dim);
  for (std::uint32_t t = piece.tokens.first; t < piece.tokens.end(); ++t, out += pitch) {
    const std::byte* from =
        pool_.data + pool_.offset(blocks[t / pool_.block_tokens], which, piece.head) + t % pool_.block_tokens * pool_.row_bytes(which);
    if (pool_.format == Format::f16) {
      std::memcpy(out, from, pool_.dim * sizeof(std::uint16_t));
    } else {
      read_kv_row(pool_.format, which, from, pool_.dim, row.data());
      std::ranges::transform(row, out, float_to_half);
    }
    std::fill(out + pool_.dim, out + pitch, std::uint16_t{0});
  }
}

void AttentionCall::queries(const AttentionPiece& piece, std::size_t pitch, std::uint16_t* out) const {
  const float* q = call_.in[0].as<float>() + place(piece);
  for (std::size_t g = 0; g < group_; ++g, q += pool_.dim, out += pitch) {
    std::transform(q, q + pool_.dim, out, float_to_half);
    std::fill(out + pool_.dim, out + pitch, std::uint16_t{0});
  }
}

void AttentionCall::write(const AttentionPiece& piece, const std::uint16_t* out, std::size_t pitch) const {
  float* y = call_.out[0].as<float>() + place(piece);
  for (std::size_t g = 0; g < group_; ++g, y += pool_.dim, out += pitch)
    std::transform(out, out + pool_.dim, y, [](std::uint16_t half) { return half_to_float(half); });
}

void attend(const KernelCall& call) {
  static const std::vector<std::uint16_t> table = exp2_table();
  const AttentionCall attention(call);
  const std::size_t dim = attention.dim(), group = attention.group();
  std::vector<std::uint16_t> q(group * dim), k, v;
  for (const AttentionPiece& piece : attention.pieces()) {
    k.resize(piece.tokens.count * dim);
    v.resize(k.size());
    attention.keys(piece, 0, dim, k.data());
    attention.keys(piece, 1, dim, v.data());
    attention.queries(piece, dim, q.data());
    const AttentionShape shape{group, piece.tokens.count, dim, kQueryTile, kKeyTile};
    attention.write(piece, flash_attention(shape, q, k, v, attention.scale(), table).data(), dim);
  }
}

}  // namespace vitro::lut
