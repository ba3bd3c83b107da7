#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "engine/base/units.hpp"
#include "engine/kernels/cpu/ops.hpp"

namespace vitro::cpu {
namespace {

// Not cleared: a page that no call has written takes no memory.
class Buffer {
 public:
  std::byte* at_least(std::size_t bytes) {
    if (size_ >= bytes) return data_.get();
    data_.reset();  // before the larger one comes
    size_ = 0;
    const std::size_t wanted = round_up(bytes + bytes / 2, kAlignment);
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, wanted)));
    if (data_ == nullptr) throw std::bad_alloc();
    size_ = wanted;
    return data_.get();
  }
  // Whole pages of it, none that holds another's bytes.
  void forget(std::size_t kept) {
    if (size_ <= kept) return;
    const auto begin = reinterpret_cast<std::uintptr_t>(data_.get());
    const Bytes first = round_up(begin + kept, kPageSize), end = round_down(begin + size_, kPageSize);
    if (first < end) ::madvise(data_.get() + (first - begin), end - first, MADV_DONTNEED);
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

Buffer& buffer(Scratch slot) {
  thread_local Buffer buffers[static_cast<std::size_t>(Scratch::quantised) + 1];
  return buffers[static_cast<std::size_t>(slot)];
}

}  // namespace

std::byte* scratch_bytes(Scratch slot, std::size_t bytes) { return buffer(slot).at_least(bytes); }

void forget_scratch(Scratch slot, std::size_t kept) { buffer(slot).forget(kept); }

}  // namespace vitro::cpu
