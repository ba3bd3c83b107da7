#include "engine/kernels/fp16_attention/attention_call.hpp"

#include <algorithm>
#include <cstring>

#include "engine/kernels/lut/lut_reference.hpp"

namespace vitro::fp16_attention {
namespace {

constexpr std::uint32_t kUnpacked = 32;  // rows that are unpacked together, within the nearest cache

}  // namespace

AttentionCall::AttentionCall(const KernelSet& set, const KernelCall& call)
    : set_(set),
      call_(call),
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
  const std::size_t dim = pool_.dim, bytes = pool_.row_bytes(which);
  std::vector<float> floats(kUnpacked * dim);
  for (std::uint32_t t = piece.tokens.first, count = 0; t < piece.tokens.end(); t += count) {
    const std::uint32_t inside = t % pool_.block_tokens;
    count = std::min({kUnpacked, pool_.block_tokens - inside, piece.tokens.end() - t});
    const std::byte* from = pool_.data + pool_.offset(blocks[t / pool_.block_tokens], which, piece.head) + inside * bytes;
    const float* rows = pool_.format == Format::f32 ? reinterpret_cast<const float*>(from) : floats.data();
    if (pool_.format.is_for_kv()) set_.unpack_kv(pool_.format, which, from, count, dim, floats.data());
    for (std::uint32_t i = 0; i < count; ++i, out += pitch) {
      if (pool_.format == Format::f16) {
        std::memcpy(out, from + i * bytes, bytes);
      } else {
        set_.to_f16(rows + i * dim, dim, out);
      }
      std::fill(out + dim, out + pitch, std::uint16_t{0});
    }
  }
}

void AttentionCall::queries(const AttentionPiece& piece, std::size_t pitch, std::uint16_t* out) const {
  const float* q = call_.in[0].as<float>() + place(piece);
  for (std::size_t g = 0; g < group_; ++g, q += pool_.dim, out += pitch) {
    set_.to_f16(q, pool_.dim, out);
    std::fill(out + pool_.dim, out + pitch, std::uint16_t{0});
  }
}

void AttentionCall::write(const AttentionPiece& piece, const std::uint16_t* out, std::size_t pitch) const {
  float* y = call_.out[0].as<float>() + place(piece);
  for (std::size_t g = 0; g < group_; ++g, y += pool_.dim, out += pitch) set_.to_f32(out, pool_.dim, y);
}

void attend(const KernelSet& set, const KernelCall& call) {
  const AttentionCall attention(set, call);
  const std::span<const std::uint16_t> powers = lut::powers_of_two(attention.exponential());
  const std::size_t dim = attention.dim(), group = attention.group();
  std::vector<std::uint16_t> q(group * dim), k, v;
  for (const AttentionPiece& piece : attention.pieces()) {
    k.resize(piece.tokens.count * dim);
    v.resize(k.size());
    attention.keys(piece, 0, dim, k.data());
    attention.keys(piece, 1, dim, v.data());
    attention.queries(piece, dim, q.data());
    const AttentionShape shape{group, piece.tokens.count, dim, kQueryTile, kKeyTile};
    attention.write(piece, flash_attention(shape, q, k, v, attention.scale(), powers).data(), dim);
  }
}

}  // namespace vitro::fp16_attention
