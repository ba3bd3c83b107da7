// Memory that an input may take: 16 bytes for each of its own, and 8 MiB. Every allocation is counted, by a hook of the address sanitizer,
// and given back when that very memory goes: what was there before the input does not count when it goes. What is still there when it is
// too much ends the process, with the stack of the allocation that did it.
#pragma once
#include <sanitizer/allocator_interface.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "engine/base/check.hpp"
#include "engine/base/units.hpp"

namespace vitro::fuzz {

class Budget {
 public:
  static constexpr std::int64_t kPerByte = 16, kFixed = 8 * 1024 * 1024;

  // size: bytes of the input, or of the file that the target makes of it.
  explicit Budget(std::size_t size) {
    install();
    ends_ = true;
    begin(kPerByte * static_cast<std::int64_t>(size) + kFixed);
  }
  ~Budget() { on_ = false; }
  Budget(const Budget&) = delete;

 private:
  static void install() {
    static const int installed = __sanitizer_install_malloc_and_free_hooks(&took, &gave);
    VITRO_CHECK(installed != 0, "allocations can not be counted");
    static const bool tried = try_itself();
    VITRO_CHECK(tried, "a budget that is exceeded is found, and no other");
  }
  static void begin(std::int64_t allowance) {
    ++input_;
    left_ = allowance;
    on_ = true;
  }
  static bool try_itself() {
    // Whether it is too much: `before` is there before and goes first, `again` is taken and goes as often as it says.
    const auto exceeds = [](std::size_t bytes, std::size_t before = 1, int again = 0) {
      void* volatile old = std::malloc(before);
      ends_ = false, exceeded_ = false;
      begin(kFixed);
      void* volatile half = std::malloc(kFixed / 2);
      std::free(old);
      for (int i = 0; i < again; ++i) std::free(std::exchange(half, std::malloc(1)));
      void* volatile memory = std::malloc(bytes);
      on_ = false;
      std::free(half);
      std::free(memory);
      return exceeded_.load();
    };
    return exceeds(kFixed / 2 + 1) && !exceeds(kFixed / 4) && exceeds(kFixed / 2 + 1, kFixed) && !exceeds(kFixed / 2 + 1, 1, 1);
  }

  // The input's own memory: an address, and in the bits above it the number of the input. Memory for which there is no room is never given
  // back, so that too much is found too soon, not too late.
  static constexpr std::size_t kWays = 16, kSetBits = 15;
  static constexpr int kAddressBits = 48;
  static std::uint64_t entry_of(const volatile void* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) | std::uint64_t{input_} << kAddressBits;
  }
  static std::atomic<std::uint64_t>* set_of(const volatile void* memory) {
    const std::uint64_t mixed = (reinterpret_cast<std::uintptr_t>(memory) >> 4) * 0x9e3779b97f4a7c15u;
    return &own_[(mixed >> (64 - kSetBits)) * kWays];
  }
  static void note(const volatile void* memory) {
    std::atomic<std::uint64_t>* const set = set_of(memory);
    for (std::size_t way = 0; way < kWays; ++way) {
      std::uint64_t there = set[way];
      if ((there == 0 || there >> kAddressBits != input_) && set[way].compare_exchange_strong(there, entry_of(memory))) return;
    }
  }
  static bool forget(const volatile void* memory) {
    std::atomic<std::uint64_t>* const set = set_of(memory);
    for (std::size_t way = 0; way < kWays; ++way) {
      std::uint64_t there = entry_of(memory);
      if (set[way].compare_exchange_strong(there, 0)) return true;
    }
    return false;
  }

  static void took(const volatile void* memory, std::size_t size) {
    if (!on_) return;
    note(memory);
    if ((left_ -= static_cast<std::int64_t>(size)) >= 0) return;
    exceeded_ = true;
    if (!ends_) return;
    on_ = false;
    std::fprintf(stderr, "==FUZZ== an allocation of %zu bytes is beyond 16 bytes for each of the input, and 8 MiB\n", size);
    std::abort();
  }
  static void gave(const volatile void* memory) {
    if (on_ && memory != nullptr && forget(memory)) left_ += static_cast<std::int64_t>(__sanitizer_get_allocated_size(memory));
  }

  static inline std::atomic<bool> on_ = false, ends_ = true, exceeded_ = false;
  static inline std::atomic<std::int64_t> left_ = 0;
  static inline std::atomic<std::uint16_t> input_ = 0;
  static inline std::array<std::atomic<std::uint64_t>, kWays << kSetBits> own_{};
};

}  // namespace vitro::fuzz
