// Time, and the price of deciding.
#pragma once
#include <coroutine>
#include <cstdint>

#include "engine/machine/executor.hpp"

namespace vitro {

// Work that policy code itself does on the core that runs it. On host it is real and charge() is free; in sim it costs
// what the device file says.
// checksum: of a page of memory, which is read for it.
// page_fault: a page of memory gets its place in an address range (Memory::commit, and the first access to it).
enum class PolicyWork : std::uint8_t { cache_lookup, cache_update, plan_step, submit, checksum, page_fault };
inline constexpr std::size_t kPolicyWorks = 6;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Picoseconds now() const = 0;
  virtual void charge(PolicyWork work, std::uint32_t n) = 0;
};

struct [[nodiscard]] SleepUntil {
  Executor& executor;
  Picoseconds when;
  bool await_ready() const { return executor.now() >= when; }
  void await_suspend(std::coroutine_handle<> handle) const { executor.post_at(when, handle); }
  void await_resume() const {}
};
inline SleepUntil sleep_until(Executor& executor, Picoseconds when) { return {executor, when}; }

}  // namespace vitro
