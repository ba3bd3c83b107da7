// FramePool: memory of coroutine frames and chains. A simulated token makes tens of thousands of coroutines of a few sizes, and the frame
// that the next one needs was mostly given back just before.
//
// Each thread keeps what it frees, by size, up to a bound; a frame may end on another thread than it began on. Frames beyond kLargest come
// from operator new. Where AddressSanitizer watches, all do, so that it sees a frame that is used after its end.
#pragma once
#include <array>
#include <cstddef>
#include <new>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VITRO_PLAIN_FRAMES 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define VITRO_PLAIN_FRAMES 1
#endif

namespace vitro {

class FramePool {
 public:
  static constexpr std::size_t kStep = 64, kLargest = 4096;  // bytes
  static constexpr std::size_t kKept = 1024;                 // frames of one size and thread that wait to be used again

  static void* take(std::size_t bytes) {
#ifndef VITRO_PLAIN_FRAMES
    if (bytes <= kLargest) {
      Line& line = lines_[line_of(bytes)];
      if (line.first != nullptr) {
        Free* const frame = line.first;
        line.first = frame->next;
        --line.length;
        return frame;
      }
      return ::operator new((line_of(bytes) + 1) * kStep);
    }
#endif
    return ::operator new(bytes);
  }

  static void give_back(void* frame, std::size_t bytes) noexcept {
#ifndef VITRO_PLAIN_FRAMES
    if (bytes <= kLargest) {
      Line& line = lines_[line_of(bytes)];
      if (line.first == nullptr || line.length == kKept) [[unlikely]] {
        if (!may_keep(line)) return ::operator delete(frame);
      }
      line.first = ::new (frame) Free{line.first};
      ++line.length;
      return;
    }
#endif
    ::operator delete(frame, bytes);
  }

  // Of this thread: frames of the size of `bytes` that wait to be used again.
  static std::size_t kept(std::size_t bytes) { return bytes > kLargest ? 0 : lines_[line_of(bytes)].length; }

 private:
  struct Free {
    Free* next;
  };
  struct Line {
    Free* first;
    std::size_t length;
  };
  static constexpr std::size_t kLines = kLargest / kStep;
  static std::size_t line_of(std::size_t bytes) { return (bytes - 1) / kStep; }

  // At the end of its thread.
  struct Cleaner {
    ~Cleaner() {
      closed_ = true;
      for (Line& line : lines_) {
        while (line.first != nullptr) ::operator delete(std::exchange(line.first, line.first->next));
      }
    }
  };
  [[gnu::noinline]] static bool may_keep(const Line& line) noexcept {
    if (closed_ || line.length == kKept) return false;
    static thread_local Cleaner cleaner;
    static_cast<void>(cleaner);
    return true;
  }

  static constinit inline thread_local std::array<Line, kLines> lines_{};
  static constinit inline thread_local bool closed_ = false;
};

// For promises: frames of their coroutines come from the pool.
struct PooledFrame {
  static void* operator new(std::size_t bytes) { return FramePool::take(bytes); }
  static void operator delete(void* frame, std::size_t bytes) noexcept { FramePool::give_back(frame, bytes); }
};

// For containers that are made and dropped as often, of up to FramePool::kLargest bytes: malloc keeps no cache for more than 1 KiB.
template <class T>
struct PooledAllocator {
  using value_type = T;
  PooledAllocator() = default;
  template <class Other>
  PooledAllocator(const PooledAllocator<Other>&) {}
  T* allocate(std::size_t count) {
    if (count > ~std::size_t{0} / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(FramePool::take(count * sizeof(T)));
  }
  void deallocate(T* items, std::size_t count) noexcept { FramePool::give_back(items, count * sizeof(T)); }
  template <class Other>
  bool operator==(const PooledAllocator<Other>&) const {
    return true;
  }
};

}  // namespace vitro
