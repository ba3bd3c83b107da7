#include "engine/parts/attention/kv_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
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
  const Bytes unit = shape.spills ? kPageSize * shape.layers : kPageSize;
  while (bytes_of(shape) % unit != 0) shape.block_tokens *= 2;
  return shape;
}

std::uint32_t pool_blocks(const KvShape& shape, std::uint32_t max_tokens, std::uint32_t sequences) {
  return (max_tokens + shape.block_tokens - 1) / shape.block_tokens + 2 * sequences;
}

KvCache::KvCache(Memory& memory, KvShape shape, std::uint32_t max_tokens, std::uint32_t sequences, KvPlacement placement)
    : memory_(memory), shape_(in_whole_pages(shape)), placement_(std::move(placement)), block_bytes_(bytes_of(shape_)) {
  next_sequence_ = placement_.first_sequence;
  VITRO_CHECK(holds_kv(shape.format), "no format of KV");
  VITRO_CHECK(shape.spills == (placement_.keep != nullptr), "a rule says what stays of blocks that spill");
  const std::uint32_t blocks = pool_blocks(shape_, max_tokens, sequences);
  references_.assign(blocks, 0);
  if (shape_.spills && blocks > placement_.keep->capacity()) {
    states_.resize(blocks);
    places_.resize(blocks - placement_.keep->capacity());  // who has a block in flash has that many in DRAM, or gave them up
  }
  // Blocks that a window has passed land without a place in the file, in steps of a whole prompt any number of them.
  const bool placeless = tiered() && placement_.window > 0 && placement_.keep->forgets_unseen();
  range_ = memory_.reserve(landing_offset(placeless ? blocks : places_.size()), Placement::dram, Region::kv).value_or_throw();
}

std::uint32_t KvCache::create(std::uint32_t adapter) {
  sequences_[next_sequence_].adapter = adapter;
  return next_sequence_++;
}

std::uint32_t KvCache::fork(std::uint32_t sequence) {
  const Sequence copy = sequences_.at(sequence);
  for (const std::uint32_t block : copy.blocks) {
    if (block != kGone) ++references_[block];
  }
  sequences_[next_sequence_] = copy;
  return next_sequence_++;
}

std::uint32_t KvCache::fork(std::uint32_t sequence, std::uint32_t length) {
  Sequence copy = sequences_.at(sequence);
  VITRO_CHECK(length <= copy.length && !tiered(), "a fork of more than there is, or of blocks in flash");
  copy.blocks.resize((length + shape_.block_tokens - 1) / shape_.block_tokens);
  copy.length = length;
  for (const std::uint32_t block : copy.blocks) ++references_[block];
  sequences_[next_sequence_] = std::move(copy);
  return next_sequence_++;
}

void KvCache::release(std::uint32_t sequence) {
  const auto entry = sequences_.find(sequence);
  VITRO_CHECK(entry != sequences_.end(), "released twice");
  for (const std::uint32_t block : entry->second.blocks) {
    if (block != kGone) drop_block(block);
  }
  sequences_.erase(entry);
}

std::vector<std::uint32_t> KvCache::sequences() const {
  std::vector<std::uint32_t> live;
  for (const auto& [sequence, content] : sequences_) live.push_back(sequence);
  return live;
}

std::uint32_t KvCache::length(std::uint32_t sequence) const { return sequences_.at(sequence).length; }

std::uint32_t KvCache::adapter(std::uint32_t sequence) const { return sequences_.at(sequence).adapter; }

Status KvCache::extend(std::uint32_t sequence, std::uint32_t count, std::vector<BlockCopy>& copies) {
  return extend(sequence, count, copies, nullptr);
}

Status KvCache::extend_prompt(std::uint32_t sequence, std::uint32_t count, std::vector<BlockCopy>& copies, std::vector<Fresh>& fresh) {
  return extend(sequence, count, copies, tiered() ? &fresh : nullptr);
}

Status KvCache::extend(std::uint32_t sequence, std::uint32_t count, std::vector<BlockCopy>& copies, std::vector<Fresh>* fresh) {
  Sequence& s = sequences_.at(sequence);
  const std::uint32_t tokens = shape_.block_tokens, length = s.length + count, full = length / tokens;
  Sequence grown = s;
  std::vector<std::uint32_t> taken;
  const auto keep = [&](Result<std::uint32_t> block) -> Status {
    if (!block.ok()) {
      for (const std::uint32_t b : taken) drop_block(b);
      return block.status();
    }
    taken.push_back(block.value());
    return {};
  };

  const bool shared_tail = s.length % tokens != 0 && references_[s.blocks.back()] > 1;
  if (shared_tail) {
    if (Status status = keep(take_block()); !status.ok()) return status;
    grown.blocks.back() = taken.back();
  }
  std::vector<Fresh> made;
  while (grown.blocks.size() * tokens < length) {
    const auto index = static_cast<std::uint32_t>(grown.blocks.size());
    const bool passes = unseen(index, length);
    const bool lands = fresh != nullptr && index < full && (passes || !placement_.keep->stays(index, full));
    if (Status status = keep(lands ? take_fresh(passes) : take_block()); !status.ok()) return status;
    grown.blocks.push_back(taken.back());
    if (!lands) continue;
    const State& state = states_[taken.back()];
    made.push_back({{taken.back(), state.place, state.stamp}, index * tokens, (index + 1) * tokens});
  }
  grown.length = length;
  if (shared_tail) {
    const std::uint32_t from = s.blocks.back(), to = taken.front();
    const Bytes piece = tiered() ? slice_bytes() : block_bytes_;  // what lies in one piece
    for (std::uint32_t layer = 0; layer < tables(); ++layer) {
      copies.push_back({part(slice_offset(from, layer), piece), part(slice_offset(to, layer), piece)});
    }
    drop_block(from);  // others still hold it: it was shared
  }
  if (fresh != nullptr) fresh->insert(fresh->end(), made.begin(), made.end());
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
  if (block == kGone) return 0;
  if (!tiered()) return block;
  const State& state = states_[block];
  return state.where == Where::flash ? blocks() * shape_.layers + state.slot : layer * blocks() + block;
}

void KvCache::fill_table(const std::vector<SeqPos>& rows, std::uint32_t width, std::uint32_t* out, std::uint32_t layer) const {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Sequence& s = sequences_.at(rows[r].sequence);
    VITRO_CHECK(rows[r].position < s.length, "a row beyond the end of its sequence");
    if (r > 0 && rows[r - 1].sequence == rows[r].sequence) {  // the same blocks
      std::copy_n(out - width, width, out);
      out += width;
      continue;
    }
    const std::size_t used = std::min<std::size_t>(width, s.blocks.size());
    std::transform(s.blocks.begin(), s.blocks.begin() + static_cast<std::ptrdiff_t>(used), out,
                   [&](std::uint32_t block) { return number_of(block, layer); });
    std::fill(out + used, out + width, 0u);
    out += width;
  }
}

Bytes KvCache::slice_offset(std::uint32_t block, std::uint32_t layer) const {
  return tiered() ? (layer * references_.size() + block) * slice_bytes() : block * block_bytes_ + layer * slice_bytes();
}

Status KvCache::commit(std::uint32_t block) {
  if (!tiered()) return memory_.commit(range_, block * block_bytes_, block_bytes_);
  for (std::uint32_t layer = 0; layer < shape_.layers; ++layer) {
    Status status = memory_.commit(range_, slice_offset(block, layer), slice_bytes());
    if (status.ok()) continue;
    while (layer-- > 0) memory_.decommit(range_, slice_offset(block, layer), slice_bytes());
    return status;
  }
  return {};
}

void KvCache::decommit(std::uint32_t block) {
  if (!tiered()) return memory_.decommit(range_, block * block_bytes_, block_bytes_);
  for (std::uint32_t layer = 0; layer < shape_.layers; ++layer) memory_.decommit(range_, slice_offset(block, layer), slice_bytes());
}

std::optional<std::uint32_t> KvCache::free_block() const {
  const auto free = std::find(references_.begin(), references_.end(), 0u);
  if (free == references_.end()) return std::nullopt;
  return static_cast<std::uint32_t>(free - references_.begin());
}

Result<std::uint32_t> KvCache::take_block() {
  const std::optional<std::uint32_t> block = free_block();
  if (!block) return Status{Code::over_budget, "the KV pool has no free block"};
  Status status = commit(*block);
  if (!status.ok()) return status;
  references_[*block] = 1;
  ++live_blocks_;
  return *block;
}

Result<std::uint32_t> KvCache::take_fresh(bool unseen) {
  const std::optional<std::uint32_t> block = free_block();
  if (!block) return Status{Code::over_budget, "the KV pool has no free block"};
  references_[*block] = 1;
  ++live_blocks_;
  states_[*block] = {Where::flash, unseen ? kNoPlace : take_place(), 0, ++stamps_};
  return *block;
}

std::uint32_t KvCache::take_place() {
  const auto place = std::find(places_.begin(), places_.end(), false);
  VITRO_CHECK(place != places_.end(), "the file has a place for each block that can leave");
  *place = true;
  return static_cast<std::uint32_t>(place - places_.begin());
}

void KvCache::drop_block(std::uint32_t block) {
  if (--references_[block] > 0) return;
  --live_blocks_;
  const State state = tiered() ? std::exchange(states_[block], {}) : State{};
  VITRO_CHECK(state.where != Where::leaving, "a block is dropped while it is written");
  if (state.where != Where::flash) return decommit(block);
  if (state.place != kNoPlace) places_[state.place] = false;
}

// The next row of a sequence of that length, and with it every later one, sees nothing of the block.
bool KvCache::unseen(std::uint32_t index, std::uint32_t length) const {
  if (!tiered() || placement_.window == 0 || !placement_.keep->forgets_unseen()) return false;
  return std::uint64_t{index + 1} * shape_.block_tokens + placement_.window <= std::uint64_t{length} + 1;
}

void KvCache::leave(std::uint32_t sequence, std::vector<Leaving>& leaving) {
  Sequence& s = sequences_.at(sequence);
  const std::uint32_t full = s.length / shape_.block_tokens;
  for (std::uint32_t i = 0; i < full; ++i) {
    std::uint32_t& block = s.blocks[i];
    if (block == kGone) continue;
    State& state = states_[block];
    if (unseen(i, s.length)) {
      drop_block(std::exchange(block, kGone));
    } else if (state.where == Where::dram && !placement_.keep->stays(i, full)) {
      state = {Where::leaving, take_place(), 0, ++stamps_};
      leaving.push_back({block, state.place});
    }
  }
}

void KvCache::has_stayed(const Leaving& block) {
  states_[block.block] = {};
  places_[block.place] = false;
}

void KvCache::has_left(const Leaving& block) {
  states_[block.block].where = Where::flash;
  decommit(block.block);
}

std::vector<KvCache::Landing> KvCache::absent(const std::vector<SeqPos>& rows) const {
  std::vector<Landing> found;
  const std::uint32_t window = placement_.window;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    // Rows of a sequence stand together, the first of them sees furthest back.
    if (r > 0 && rows[r].sequence == rows[r - 1].sequence) continue;
    const Sequence& s = sequences_.at(rows[r].sequence);
    const std::uint32_t first = window == 0 || rows[r].position < window ? 0 : rows[r].position + 1 - window;
    for (std::size_t i = first / shape_.block_tokens; i < s.blocks.size(); ++i) {
      if (s.blocks[i] == kGone) continue;
      const State& state = states_[s.blocks[i]];
      if (state.where == Where::flash) found.push_back({s.blocks[i], state.place, state.stamp});
    }
  }
  const auto by_place = [](const Landing& a, const Landing& b) { return std::tie(a.place, a.block) < std::tie(b.place, b.block); };
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

View KvCache::part(Bytes offset, Bytes length) const {
  View view;
  view.memory = range_;
  view.offset = offset;
  view.shape = {1, static_cast<std::uint32_t>(length / shape_.format.block_bytes()), 0};
  view.format = shape_.format;
  return view;
}

}  // namespace vitro
