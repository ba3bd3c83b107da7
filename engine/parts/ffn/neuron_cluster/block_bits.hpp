// Sets of neuron blocks as bits: sixty-four blocks are looked at together.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace vitro {

class BlockBits {
 public:
  static constexpr std::uint32_t kWord = 64;

  explicit BlockBits(std::uint32_t blocks) : words_((blocks + kWord - 1) / kWord) {}

  bool has(std::uint32_t block) const { return (words_[block / kWord] >> block % kWord & 1) != 0; }
  void insert(std::uint32_t block) { words_[block / kWord] |= bit(block); }
  void erase(std::uint32_t block) { words_[block / kWord] &= ~bit(block); }
  void set(std::uint32_t block, bool member) { member ? insert(block) : erase(block); }
  void clear() { std::ranges::fill(words_, 0); }
  // Bit b of word w: block 64 w + b.
  const std::uint64_t* words() const { return words_.data(); }
  void prefetch(std::uint32_t block) const { __builtin_prefetch(&words_[block / kWord]); }

 protected:
  static std::uint64_t bit(std::uint32_t block) { return std::uint64_t{1} << block % kWord; }

  std::vector<std::uint64_t> words_;
};

// One that is emptied often and has few members then.
class BlockPins : BlockBits {
 public:
  using BlockBits::BlockBits, BlockBits::has, BlockBits::prefetch;

  void insert(std::uint32_t block) { insert_word(block / kWord, bit(block)); }
  void insert_word(std::uint32_t word, std::uint64_t blocks) {
    if (words_[word] == 0) used_.push_back(word);
    words_[word] |= blocks;
  }
  void clear() {
    for (const std::uint32_t word : used_) words_[word] = 0;
    used_.clear();
  }

 private:
  std::vector<std::uint32_t> used_;  // words that have a member
};

}  // namespace vitro
