#include "engine/attention/kv_cache.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vitro {
namespace {

Bytes bytes_of(const KvShape& shape) {
  const Bytes element = shape.format == Format::f16 ? 2 : 4;
  return Bytes(shape.layers) * 2 * shape.heads * shape.block_tokens * shape.head_dim * element;
}

}  // namespace

KvCache::KvCache(Memory& memory, KvShape shape, std::uint32_t max_tokens) : memory_(memory), shape_(shape) {
  VITRO_CHECK(shape.format == Format::f32 || shape.format == Format::f16, "KV is kept as f32 or f16");
  // Blocks are committed one by one, and that works in pages.
  while (bytes_of(shape_) % kPageSize != 0) shape_.block_tokens *= 2;
  block_bytes_ = bytes_of(shape_);
  // A partly filled block per sequence is the only waste; forks need at most one block more than their tokens.
  const std::uint32_t blocks = (max_tokens + shape_.block_tokens - 1) / shape_.block_tokens;
  references_.assign(blocks, 0);
  range_ = memory_.reserve(blocks * block_bytes_, Placement::dram, Region::kv).value_or_throw();
}

std::uint32_t KvCache::create() {
  sequences_[next_sequence_] = {};
  return next_sequence_++;
}

std::uint32_t KvCache::fork(std::uint32_t sequence) {
  const Sequence copy = sequences_.at(sequence);
  for (const std::uint32_t block : copy.blocks) ++references_[block];
  sequences_[next_sequence_] = copy;
  return next_sequence_++;
}

void KvCache::release(std::uint32_t sequence) {
  const auto entry = sequences_.find(sequence);
  VITRO_CHECK(entry != sequences_.end(), "released twice");
  for (const std::uint32_t block : entry->second.blocks) drop_block(block);
  sequences_.erase(entry);
}

std::uint32_t KvCache::length(std::uint32_t sequence) const { return sequences_.at(sequence).length; }

Status KvCache::extend(std::uint32_t sequence, std::uint32_t count, std::vector<BlockCopy>& copies) {
  Sequence& s = sequences_.at(sequence);
  const std::uint32_t tokens = shape_.block_tokens;
  Sequence grown = s;
  std::vector<std::uint32_t> taken;
  const auto take = [&]() -> Status {
    Result<std::uint32_t> block = take_block();
    if (!block.ok()) {
      for (const std::uint32_t b : taken) drop_block(b);
      return block.status();
    }
    taken.push_back(block.value());
    return {};
  };

  const bool shared_tail = s.length % tokens != 0 && references_[s.blocks.back()] > 1;
  if (shared_tail) {
    if (Status status = take(); !status.ok()) return status;
    grown.blocks.back() = taken.back();
  }
  while (grown.blocks.size() * tokens < s.length + count) {
    if (Status status = take(); !status.ok()) return status;
    grown.blocks.push_back(taken.back());
  }
  grown.length = s.length + count;
  if (shared_tail) {
    copies.push_back({block_view(s.blocks.back()), block_view(taken.front())});
    drop_block(s.blocks.back());  // others still hold it: it was shared
  }
  s = std::move(grown);
  return {};
}

View KvCache::pool() const {
  View view;
  view.memory = range_;
  view.shape = {shape_.heads, shape_.block_tokens, shape_.head_dim};
  view.format = shape_.format;
  return view;
}

std::uint32_t KvCache::table_width(const std::vector<SeqPos>& rows) const {
  std::uint32_t width = 1;
  for (const SeqPos& row : rows) width = std::max(width, row.position / shape_.block_tokens + 1);
  return width;
}

void KvCache::fill_table(const std::vector<SeqPos>& rows, std::uint32_t width, std::uint32_t* out) const {
  for (const SeqPos& row : rows) {
    const Sequence& s = sequences_.at(row.sequence);
    VITRO_CHECK(row.position < s.length, "a row beyond the end of its sequence");
    const std::size_t used = std::min<std::size_t>(width, s.blocks.size());
    std::copy_n(s.blocks.begin(), used, out);
    std::fill(out + used, out + width, 0u);
    out += width;
  }
}

Result<std::uint32_t> KvCache::take_block() {
  const auto free = std::find(references_.begin(), references_.end(), 0u);
  if (free == references_.end()) return Status{Code::over_budget, "the KV pool has no free block"};
  const auto block = static_cast<std::uint32_t>(free - references_.begin());
  Status status = memory_.commit(range_, block * block_bytes_, block_bytes_);
  if (!status.ok()) return status;
  *free = 1;
  ++live_blocks_;
  return block;
}

void KvCache::drop_block(std::uint32_t block) {
  if (--references_[block] > 0) return;
  memory_.decommit(range_, block * block_bytes_, block_bytes_);
  --live_blocks_;
}

View KvCache::block_view(std::uint32_t block) const {
  View view;
  view.memory = range_;
  view.offset = block * block_bytes_;
  const Bytes element = shape_.format == Format::f16 ? 2 : 4;
  view.shape = {1, static_cast<std::uint32_t>(block_bytes_ / element), 0};
  view.format = shape_.format;
  return view;
}

}  // namespace vitro
