#include "engine/parts/attention/kv_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/quant/kv_rows.hpp"

namespace vitro {
namespace {

Bytes bytes_of(const KvShape& shape) {
  return Bytes(shape.layers) * shape.heads * shape.block_tokens * kv_pair_bytes(shape.format, shape.head_dim);
}

}  // namespace

KvShape in_whole_pages(KvShape shape) {
  // Blocks are committed one by one, and that works in pages; so are slices, which storage moves.
  const Bytes unit = shape.dram_tokens ? kPageSize * shape.layers : kPageSize;
  while (bytes_of(shape) % unit != 0) shape.block_tokens *= 2;
  return shape;
}

KvCache::KvCache(Memory& memory, KvShape shape, std::uint32_t max_tokens, std::uint32_t sequences)
    : memory_(memory), shape_(in_whole_pages(shape)), block_bytes_(bytes_of(shape_)) {
  VITRO_CHECK(shape.format == Format::f32 || shape.format == Format::f16 || shape.format == Format::int8_fp8, "no format of KV");
  // A partly filled block per sequence is the only waste; forks need at most one block more than their tokens.
  const std::uint32_t blocks = (max_tokens + shape_.block_tokens - 1) / shape_.block_tokens + 2 * sequences;
  references_.assign(blocks, 0);
  if (shape_.dram_tokens && blocks > kept_blocks()) {
    states_.resize(blocks);
    places_.resize(blocks - kept_blocks());  // who has a block in flash has that many in DRAM
  }
  range_ = memory_.reserve(landing_offset(places_.size()), Placement::dram, Region::kv).value_or_throw();
}

std::uint32_t KvCache::create(std::uint32_t adapter) {
  sequences_[next_sequence_].adapter = adapter;
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

std::uint32_t KvCache::adapter(std::uint32_t sequence) const { return sequences_.at(sequence).adapter; }

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

std::uint32_t KvCache::number_of(std::uint32_t block, std::uint32_t layer) const {
  if (!tiered()) return block;
  const State& state = states_[block];
  return state.where == Where::flash ? blocks() * shape_.layers + state.slot : block * shape_.layers + layer;
}

void KvCache::fill_table(const std::vector<SeqPos>& rows, std::uint32_t width, std::uint32_t* out, std::uint32_t layer) const {
  for (const SeqPos& row : rows) {
    const Sequence& s = sequences_.at(row.sequence);
    VITRO_CHECK(row.position < s.length, "a row beyond the end of its sequence");
    const std::size_t used = std::min<std::size_t>(width, s.blocks.size());
    std::transform(s.blocks.begin(), s.blocks.begin() + static_cast<std::ptrdiff_t>(used), out,
                   [&](std::uint32_t block) { return number_of(block, layer); });
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
  --live_blocks_;
  const State state = tiered() ? std::exchange(states_[block], {}) : State{};
  VITRO_CHECK(state.where != Where::leaving, "a block is dropped while it is written");
  if (state.where == Where::flash) {
    places_[state.place] = false;
  } else {
    memory_.decommit(range_, block * block_bytes_, block_bytes_);
  }
}

void KvCache::leave(std::uint32_t sequence, std::vector<Leaving>& leaving) {
  const Sequence& s = sequences_.at(sequence);
  for (std::size_t i = kept_blocks(); i < s.length / shape_.block_tokens; ++i) {
    State& state = states_[s.blocks[i]];
    if (state.where != Where::dram) continue;
    const auto place = std::find(places_.begin(), places_.end(), false);
    VITRO_CHECK(place != places_.end(), "the file has a place for each block that can leave");
    *place = true;
    state = {Where::leaving, static_cast<std::uint32_t>(place - places_.begin()), 0, ++stamps_};
    leaving.push_back({s.blocks[i], state.place, s.blocks[i] * block_bytes_});
  }
}

void KvCache::has_left(const Leaving& block) {
  states_[block.block].where = Where::flash;
  memory_.decommit(range_, block.offset, block_bytes_);
}

std::vector<KvCache::Landing> KvCache::absent(const std::vector<SeqPos>& rows, std::uint32_t window) const {
  std::vector<Landing> found;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    // Rows of a sequence stand together, the first of them sees furthest back.
    if (r > 0 && rows[r].sequence == rows[r - 1].sequence) continue;
    const Sequence& s = sequences_.at(rows[r].sequence);
    const std::uint32_t first = window == 0 || rows[r].position < window ? 0 : rows[r].position + 1 - window;
    for (std::size_t i = first / shape_.block_tokens; i < s.blocks.size(); ++i) {
      const State& state = states_[s.blocks[i]];
      if (state.where == Where::flash) found.push_back({s.blocks[i], state.place, state.stamp});
    }
  }
  const auto by_place = [](const Landing& a, const Landing& b) { return a.place < b.place; };
  std::sort(found.begin(), found.end(), by_place);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Status KvCache::land(const std::vector<Landing>& landing) {
  const auto wanted = static_cast<std::uint32_t>(landing.size());
  if (wanted > slots_) {
    Status status = memory_.commit(range_, landing_offset(slots_), (wanted - slots_) * slice_bytes());
    if (!status.ok()) return status;
  } else if (wanted < slots_) {
    memory_.decommit(range_, landing_offset(wanted), (slots_ - wanted) * slice_bytes());
  }
  slots_ = wanted;
  for (std::uint32_t slot = 0; slot < wanted; ++slot) states_[landing[slot].block].slot = slot;
  return {};
}

View KvCache::block_view(std::uint32_t block) const {
  View view;
  view.memory = range_;
  view.offset = block * block_bytes_;
  const Bytes element = shape_.format == Format::f32 ? 4 : shape_.format == Format::f16 ? 2 : 1;
  view.shape = {1, static_cast<std::uint32_t>(block_bytes_ / element), 0};
  view.format = shape_.format;
  return view;
}

}  // namespace vitro
