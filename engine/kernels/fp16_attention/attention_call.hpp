// An attention call in fp16 (variant kLutExp and its like), as pieces that flash_attention() computes one by one: a batch row and a KV
// head, with the query heads that share it as its tile of queries. For the cores, and for the Hexagon that computes the same pieces.
#pragma once
#include "engine/kernels/common/kernel_set.hpp"
#include "engine/kernels/fp16_attention/flash_attention.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/variants.hpp"

namespace vitro::fp16_attention {

inline constexpr std::size_t kQueryTile = 32, kKeyTile = 128;  // part of the contract: running sums are rounded once per tile

struct AttentionPiece {
  std::uint32_t row = 0, head = 0;  // of the batch; of the pool
  Range tokens;                     // that the row sees
};

class AttentionCall {
 public:
  // `set` unpacks rows; all sets give the same bits. Requires: an attention that passed check_call(call), and both outlive this.
  AttentionCall(const KernelSet& set, const KernelCall& call);

  std::size_t dim() const { return pool_.dim; }
  std::size_t group() const { return group_; }  // query heads of a piece
  float scale() const { return op_.scale; }
  Exponential exponential() const { return *variant::exponential_of(call_.variant); }
  std::vector<AttentionPiece> pieces() const;

  // K (which = 0) or V (1) of its tokens in fp16: [tokens, pitch], zeros behind the first dim() columns.
  void keys(const AttentionPiece& piece, std::uint32_t which, std::size_t pitch, std::uint16_t* out) const;
  // Queries as they come, rounded to fp16: [group, pitch].
  void queries(const AttentionPiece& piece, std::size_t pitch, std::uint16_t* out) const;
  // The result of a piece, fp16 [group, pitch].
  void write(const AttentionPiece& piece, const std::uint16_t* out, std::size_t pitch) const;

 private:
  std::size_t place(const AttentionPiece& piece) const { return (piece.row * heads_ + piece.head * group_) * pool_.dim; }

  const KernelSet& set_;
  const KernelCall& call_;
  const ops::Attention& op_;
  KvPool pool_;
  std::size_t heads_, group_;
};

// All pieces on this core.
void attend(const KernelSet& set, const KernelCall& call);

}  // namespace vitro::fp16_attention
