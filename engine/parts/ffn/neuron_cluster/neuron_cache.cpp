#include "engine/parts/ffn/neuron_cluster/neuron_cache.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "engine/base/check.hpp"

namespace vitro {

NeuronCache::NeuronCache(std::uint32_t blocks, std::uint32_t capacity, std::uint32_t staging, std::string_view eviction,
                         double window, std::uint32_t layers, AdmissionRule admission)
    : capacity_(capacity),
      staging_(staging),
      free_count_(capacity + staging),
      slots_(blocks, kNone),
      resident_(blocks),
      half_(blocks),
      hot_(blocks),
      pins_(blocks),
      free_(capacity + staging),
      eviction_(make_eviction(eviction, {blocks, capacity, window, layers, admission})) {
  VITRO_CHECK(staging > 0, "blocks on their way need room");
}

std::uint32_t NeuronCache::take_slot(std::uint32_t from) {
  VITRO_CHECK(free_count_ > 0, "no free slot");
  std::uint32_t slot = free_.next(from);
  if (slot == SlotSet::kNone) slot = free_.next(0);
  free_.erase(slot);
  --free_count_;
  return slot;
}

void NeuronCache::give_back(std::uint32_t slot) {
  VITRO_CHECK(!free_.contains(slot), "a slot was given back twice");
  free_.insert(slot);
  ++free_count_;
}

std::size_t NeuronCache::pin_each(std::span<const std::uint32_t> numbers, std::uint32_t first, const std::vector<std::uint64_t>* bits,
                                  std::uint32_t* apart) {
  if (numbers.empty()) return 0;
  if (bits == nullptr) return pin_listed(numbers, first, apart);
  VITRO_CHECK(first % BlockBits::kWord == 0, "bits of blocks that begin within a word");
  const std::uint32_t begin = numbers.front() / BlockBits::kWord, last = numbers.back() / BlockBits::kWord;
  VITRO_CHECK(last < bits->size(), "fewer bits than numbers");
  const std::uint32_t first_word = first / BlockBits::kWord;
  const std::uint64_t *const resident = resident_.words() + first_word, *const half = half_.words() + first_word;
  std::uint32_t passed = 0;
  std::size_t found = 0;
  for (std::uint32_t w = begin; w <= last; ++w) {
    std::uint64_t named = (*bits)[w];
    if (w == begin) named &= ~std::uint64_t{0} << numbers.front() % BlockBits::kWord;
    if (w == last) named &= ~std::uint64_t{0} >> (BlockBits::kWord - 1 - numbers.back() % BlockBits::kWord);
    if (named == 0) continue;
    pins_.insert_word(first_word + w, named);
    for (std::uint64_t left = named & (~resident[w] | half[w]); left != 0; left &= left - 1) {
      const std::uint64_t below = (left & -left) - 1;
      VITRO_CHECK(found < numbers.size(), "other bits than numbers");
      apart[found++] = passed + static_cast<std::uint32_t>(std::popcount(named & below));
    }
    passed += static_cast<std::uint32_t>(std::popcount(named));
  }
  VITRO_CHECK(passed == numbers.size(), "other bits than numbers");
  return found;
}

std::size_t NeuronCache::pin_listed(std::span<const std::uint32_t> numbers, std::uint32_t first, std::uint32_t* apart) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint32_t block = first + numbers[i];
    pins_.insert(block);
    apart[found] = static_cast<std::uint32_t>(i);
    found += !resident(block) || half(block);
  }
  return found;
}

void NeuronCache::unpin_all() {
  eviction_->next_layer();
  eviction_->release();
  pins_.clear();
}

void NeuronCache::touch(std::span<const std::uint32_t> blocks) {
  if (hot_size_ == 0) return eviction_->touch_each(blocks);
  std::array<std::uint32_t, 128> cold;
  for (; !blocks.empty(); blocks = blocks.subspan(std::min(blocks.size(), cold.size()))) {
    std::size_t count = 0;
    for (const std::uint32_t block : blocks.first(std::min(blocks.size(), cold.size()))) {
      cold[count] = block;
      count += hot(block) ? 0 : 1;
    }
    eviction_->touch_each({cold.data(), count});
  }
}

void NeuronCache::make_hot(std::uint32_t block) {
  VITRO_CHECK(resident(block) && !hot(block), "only a resident block that is cold can become hot");
  eviction_->erase(block);
  hot_.insert(block);
  ++hot_size_;
}

void NeuronCache::make_cold(std::uint32_t block) {
  VITRO_CHECK(hot(block), "only a hot block can become cold");
  eviction_->insert(block);
  hot_.erase(block);
  --hot_size_;
}

NeuronCache::Admission NeuronCache::admit(std::uint32_t block, std::uint32_t slot, bool must) {
  VITRO_CHECK(!resident(block) && !free_.contains(slot), "a block was admitted twice, or from a slot that is not its own");
  Admission admission{capacity_ > 0, kNone};
  if (size_ == capacity_) {
    const auto held = [this](std::uint32_t b) { return pinned(b); };
    eviction_->newcomer(block);
    std::optional<std::uint32_t> victim = must ? eviction_->victim_at_any_price(held) : eviction_->victim(held);
    if (must && !victim) victim = last_cold(held);
    admission.stays = victim.has_value();
    if (!victim) return admission;
    admission.evicted = *victim;
    drop(*victim);
    if (const auto soon = eviction_->upcoming()) {
      __builtin_prefetch(&slots_[*soon]);
      pins_.prefetch(*soon);
    }
  }
  eviction_->insert(block);
  slots_[block] = slot;
  resident_.insert(block);
  ++size_;
  pin(block);
  return admission;
}

bool NeuronCache::could_hold(std::uint32_t first, std::uint32_t end) const {
  std::uint32_t missing = 0, room = capacity_ - size_;
  for (std::uint32_t block = first; block < end; ++block) missing += !resident(block);
  for (std::uint32_t block = 0; block < blocks() && room < missing; ++block) {
    room += resident(block) && !hot(block) && !pinned(block) && (block < first || block >= end);
  }
  return room >= missing;
}

// Of a rule that gives nothing up: the coldest block of the last layer.
std::optional<std::uint32_t> NeuronCache::last_cold(const std::function<bool(std::uint32_t)>& held) const {
  for (std::uint32_t block = blocks(); block-- > 0;) {
    if (resident(block) && !hot(block) && !held(block)) return block;
  }
  return std::nullopt;
}

std::vector<std::uint32_t> NeuronCache::resident_blocks() const {
  std::vector<std::uint32_t> blocks;
  for (std::uint32_t block = 0; block < slots_.size(); ++block) {
    if (resident(block)) blocks.push_back(block);
  }
  return blocks;
}

std::vector<std::uint32_t> NeuronCache::next_token() {
  std::vector<std::uint32_t> left = eviction_->next_token();
  for (const std::uint32_t block : left) drop(block);
  return left;
}

void NeuronCache::clear() {
  for (std::uint32_t block = 0; block < blocks(); ++block) {
    if (resident(block) && !hot(block)) eviction_->erase(block);
    slots_[block] = kNone;
  }
  for (BlockBits* const bits : {&resident_, &half_, &hot_}) bits->clear();
  hot_size_ = size_ = 0;
  free_ = SlotSet(slots());
  free_count_ = slots();
  eviction_->release();
  pins_.clear();
}

void NeuronCache::leave(std::uint32_t block) {
  VITRO_CHECK(resident(block) && !hot(block), "only a resident block that is cold can leave");
  eviction_->leave(block);
  vacate(block);
}

void NeuronCache::drop(std::uint32_t block) {
  eviction_->erase(block);
  vacate(block);
}

void NeuronCache::vacate(std::uint32_t block) {
  give_back(std::exchange(slots_[block], kNone));
  resident_.erase(block);
  half_.erase(block);
  --size_;
}

}  // namespace vitro
