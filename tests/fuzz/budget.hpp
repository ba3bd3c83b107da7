// Memory that an input may take: 16 bytes for each of its own, and 8 MiB. Every allocation is counted, by a hook of the address sanitizer;
// what is still there when it is too much ends the process, with the stack of the allocation that did it.
#pragma once
#include <sanitizer/allocator_interface.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

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
    left_ = kPerByte * static_cast<std::int64_t>(size) + kFixed;
    on_ = true;
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
  static bool try_itself() {
    const auto exceeds = [](std::size_t bytes) {
      ends_ = false, exceeded_ = false, left_ = kFixed, on_ = true;
      void* volatile memory = std::malloc(bytes);
      on_ = false;
      std::free(memory);
      return exceeded_.load();
    };
    return exceeds(kFixed + 1) && !exceeds(kFixed / 2);
  }
  static void took(const volatile void*, std::size_t size) {
    if (!on_ || (left_ -= static_cast<std::int64_t>(size)) >= 0) return;
    exceeded_ = true;
    if (!ends_) return;
    on_ = false;
    std::fprintf(stderr, "==FUZZ== an allocation of %zu bytes is beyond 16 bytes for each of the input, and 8 MiB\n", size);
    std::abort();
  }
  static void gave(const volatile void* memory) {
    if (on_ && memory != nullptr) left_ += static_cast<std::int64_t>(__sanitizer_get_allocated_size(memory));
  }

  static inline std::atomic<bool> on_ = false, ends_ = true, exceeded_ = false;
  static inline std::atomic<std::int64_t> left_ = 0;
};

}  // namespace vitro::fuzz
