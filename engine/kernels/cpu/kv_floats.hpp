// Rows of a KV pool as float32, unpacked once for all queries that meet them one after another.
#pragma once
#include "engine/kernels/cpu/ops.hpp"
#include "engine/ops/operands.hpp"

namespace vitro::cpu {

// Of one thread: what is unpacked lies in Scratch::c. What the pool holds must not change meanwhile.
class KvFloats {
 public:
  // Tokens that are unpacked together stay in the nearest cache, 16 KiB of heads of 128 numbers.
  static constexpr std::uint32_t kTokens = 32;

  KvFloats(const KvPool& pool, const KernelSet& set) : pool_(pool), set_(set) {}

  // Of one piece, a run of at most piece_tokens() that begins at a multiple of them in its block: rows [skip, skip + count). Valid until
  // another piece is asked for.
  std::uint32_t piece_tokens() const { return pool_.format == Format::f32 ? pool_.block_tokens : kTokens; }
  const float* rows(std::uint32_t which, const std::byte* piece, std::size_t skip, std::size_t count) {
    const std::size_t bytes = pool_.row_bytes(which);
    if (pool_.format == Format::f32) return reinterpret_cast<const float*>(piece + skip * bytes);
    float* out = scratch<float>(Scratch::c, std::size_t{kTokens} * pool_.dim);
    if (piece != piece_ || skip < begin_ || skip > end_) {
      piece_ = piece;
      begin_ = end_ = skip;
    }
    if (skip + count > end_) {
      unpack(which, piece + end_ * bytes, skip + count - end_, out + end_ * pool_.dim);
      end_ = skip + count;
    }
    return out + skip * pool_.dim;
  }

 private:
  void unpack(std::uint32_t which, const std::byte* in, std::size_t count, float* out) const {
    if (pool_.format == Format::f16) return set_.to_f32(reinterpret_cast<const Half*>(in), count * pool_.dim, out);
    set_.unpack_kv(pool_.format, which, in, count, pool_.dim, out);
  }

  const KvPool& pool_;
  const KernelSet& set_;
  const std::byte* piece_ = nullptr;
  std::size_t begin_ = 0, end_ = 0;  // rows of piece_ that are unpacked
};

// Of a pool whose float16 rows are met as they are.
inline std::uint32_t piece_tokens(const KvPool& pool, const KvFloats& floats) {
  return pool.format == Format::f16 ? pool.block_tokens : floats.piece_tokens();
}

}  // namespace vitro::cpu
