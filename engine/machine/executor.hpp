// Who resumes suspended coroutines, and in what order.
#pragma once
#include <coroutine>

#include "engine/base/units.hpp"

namespace vitro {

// One heap of (time, tie, sequence): equal times leave in the order they came in, unless a seeded shuffle draws the tie
// to show that nothing depends on it. Coroutines are resumed by the executor's own thread alone, one at a time.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual Picoseconds now() const = 0;
  // Resumes `handle` at `when`, or at once when that is past. On host any thread may call it; in sim there is one.
  virtual void post_at(Picoseconds when, std::coroutine_handle<> handle) = 0;
  void post(std::coroutine_handle<> handle) { post_at(now(), handle); }
  // Resumes `handle` now, behind everything else of this time, also what is posted for it later (but not so). For whoever waits for all
  // that happens at one time. On host no two things do: there it is post().
  virtual void post_last(std::coroutine_handle<> handle) = 0;

  // `waiter`, which runs now, has submitted chains to units, waits for all of them, and submits nothing else before. True: they have ended.
  // An executor that knows how such a phase goes has made their results and let the time pass; it resumes nobody for them. False: they
  // run, and phase_ended() has to follow when `waiter` goes on.
  virtual bool phase_submitted(std::coroutine_handle<> /*waiter*/) { return false; }
  virtual void phase_ended() {}

  // An error has ended the run in the middle of what its tasks do: none of them is resumed any more, and no device is at work. So what
  // they use may die. Never true on host, where a device writes to buffers meanwhile.
  bool abandoned() const { return abandoned_; }

 protected:
  void abandon() { abandoned_ = true; }

 private:
  bool abandoned_ = false;
};

}  // namespace vitro
