// Callback: what a device does later. Held in place, so that an event costs no allocation.
#pragma once
#include <concepts>
#include <cstddef>
#include <new>
#include <type_traits>

namespace vitro::hw {

// Requires of F: trivially copyable and small: capture `this` and indices, not objects. Called at most once.
class Callback {
 public:
  static constexpr std::size_t kCapacity = 24;

  Callback() = default;
  template <class F>
    requires(std::invocable<F&> && std::is_trivially_copyable_v<F> && sizeof(F) <= kCapacity && alignof(F) <= 8)
  Callback(F f) : call_([](void* storage) { (*static_cast<F*>(storage))(); }) {
    ::new (static_cast<void*>(storage_)) F(f);
  }

  void operator()() { call_(storage_); }
  explicit operator bool() const { return call_ != nullptr; }

 private:
  alignas(8) std::byte storage_[kCapacity] = {};
  void (*call_)(void*) = nullptr;
};

}  // namespace vitro::hw
