// Which neuron blocks are in DRAM, and in which slot: the hot and the cold region of PowerInfer-2's segmented cache (section
// 4.2). They share one arena: a block changes regions where it lies, so the regions resize without moving a byte. Pure bookkeeping. Blocks
// are numbered over all layers and experts, slots over the arena that holds them.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/parts/ffn/neuron_cluster/block_bits.hpp"
#include "engine/parts/ffn/neuron_cluster/slot_set.hpp"
#include "engine/parts/weights/eviction.hpp"

namespace vitro {

class NeuronCache {
 public:
  static constexpr std::uint32_t kNone = ~0u;

  // capacity: blocks that may stay. Slots: capacity + staging, so that blocks on their way have a place as well.
  // window, layers, admission: of that eviction (EvictionOptions).
  NeuronCache(std::uint32_t blocks, std::uint32_t capacity, std::uint32_t staging, std::string_view eviction, double window = 0,
              std::uint32_t layers = 1, AdmissionRule admission = AdmissionRule::rule);

  std::uint32_t slot_of(std::uint32_t block) const { return slots_[block]; }  // kNone: not resident
  const std::uint32_t* slots_from(std::uint32_t block) const { return slots_.data() + block; }
  bool resident(std::uint32_t block) const { return resident_.has(block); }
  std::vector<std::uint32_t> resident_blocks() const;  // ascending
  std::uint32_t capacity() const { return capacity_; }
  std::uint32_t blocks() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::uint32_t size() const { return size_; }
  std::uint32_t slots() const { return capacity_ + staging_; }
  // Every block has its slot for good: nothing will ever be looked for, or go for another.
  bool holds_all() const { return size_ == slots_.size(); }
  std::uint32_t free_slots() const { return free_count_; }

  // A slot for a block on its way, the lowest free one at or behind `from` and else the lowest: blocks that are read
  // together come to lie together. Requires: free_slots() > 0.
  std::uint32_t take_slot(std::uint32_t from = 0);
  void give_back(std::uint32_t slot);

  // Pins last until the next unpin_all(): what a layer plans to use is not evicted under it.
  void pin(std::uint32_t block) { pins_.insert(block); }
  bool pin_resident(std::uint32_t block) {  // false: it is not resident
    if (!resident(block)) return false;
    pins_.insert(block);
    return true;
  }
  // Pins blocks first + each of `numbers`, ascending. A pin of a block that is not resident counts when it is admitted. bits: null, or the
  // same numbers as bits, and maybe others below the first and above the last of them: faster. To `apart`: positions in `numbers` of those
  // that are not resident, or half. Returns how many these are. Requires: room for as many as `numbers`; with bits, first a multiple of 64.
  std::size_t pin_each(std::span<const std::uint32_t> numbers, std::uint32_t first, const std::vector<std::uint64_t>* bits,
                       std::uint32_t* apart);
  void unpin_all();
  void touch(std::uint32_t block) { touch(std::span(&block, 1)); }
  void touch(std::span<const std::uint32_t> blocks);  // in that order

  // Of a block that is read in two phases the first part alone may be there.
  bool half(std::uint32_t block) const { return half_.has(block); }
  void set_half(std::uint32_t block, bool half) { half_.set(block, half); }  // Requires: resident

  // Hot blocks are not evicted; whoever made them hot decides when they are cold again, and then they count as just used.
  bool hot(std::uint32_t block) const { return hot_.has(block); }
  std::uint32_t hot_size() const { return hot_size_; }
  void make_hot(std::uint32_t block);   // Requires: resident and cold
  void make_cold(std::uint32_t block);  // Requires: hot

  // The block in `slot` stays. Evicts one if the cache is full, and frees its slot. False: everything in it is pinned, or worth more
  // unless the block `must` stay (it does not; the caller gives its slot back after use).
  struct Admission {
    bool stays = false;
    std::uint32_t evicted = kNone;
  };
  Admission admit(std::uint32_t block, std::uint32_t slot, bool must = false);
  // The block is not wanted after all: its slot is free. Requires: resident and cold, and nothing reads into it.
  void leave(std::uint32_t block);
  // Whether all blocks from `first` to before `end` could stay at once: what is hot or pinned does not go for them.
  bool could_hold(std::uint32_t first, std::uint32_t end) const;

  // Nothing is resident, hot or pinned any more, and all slots are free. Requires: nothing reads into one.
  void clear();

  // A token is through: what the eviction no longer wants leaves. Returns those blocks. Requires: nothing is pinned.
  std::vector<std::uint32_t> next_token();

 private:
  std::size_t pin_listed(std::span<const std::uint32_t> numbers, std::uint32_t first, std::uint32_t* apart);
  void drop(std::uint32_t block);
  void vacate(std::uint32_t block);
  bool pinned(std::uint32_t block) const { return pins_.has(block); }
  std::optional<std::uint32_t> last_cold(const std::function<bool(std::uint32_t)>& held) const;

  std::uint32_t capacity_, staging_, size_ = 0, free_count_ = 0;
  std::vector<std::uint32_t> slots_;  // by block
  BlockBits resident_, half_, hot_;
  BlockPins pins_;
  SlotSet free_;
  std::uint32_t hot_size_ = 0;
  std::unique_ptr<Eviction> eviction_;
};

}  // namespace vitro
