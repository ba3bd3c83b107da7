// Reads matrices of experts from flash beside all else: what an item waits for first, then what was foreseen.
#pragma once
#include <deque>
#include <functional>
#include <memory>

#include "engine/machine/machine.hpp"
#include "engine/machine/signal.hpp"
#include "engine/model/weights.hpp"

namespace vitro {

// One matrix on its way to its slot.
struct ExpertLoad {
  const Weight* weight = nullptr;
  std::uint32_t expert = 0;
  Lease into;  // the matrix begins as far behind its first byte as behind a page of the file
  std::function<bool()> may_begin;      // whether nobody computes any more with what the slot held; null: so it is
  std::shared_ptr<ExpertLoad> before;   // the last one into the same slot that had not landed; null, or over
  bool landed = false;                  // with `status`; or given up
  Status status;

  bool failed() const { return !status.ok(); }  // known at the first request that does, before it has landed
  Bytes begin() const;   // in the file: the page that the matrix begins on
  Bytes length() const;  // to the end of the page that it ends on
  Bytes asked = 0;       // of length()
  std::uint32_t in_flight = 0;
};

// The last of a chain of loads into one slot, `last` first, that has not landed: one that was given up before it began says nothing of
// those before it. Null: all have.
std::shared_ptr<ExpertLoad> not_landed(std::shared_ptr<ExpertLoad> last);

class ExpertReader {
 public:
  // `window`: requests in flight. `issuer`: the core that issues them.
  ExpertReader(Machine& machine, UnitId issuer, std::uint32_t window);

  // Behind all others that are wanted, or foreseen.
  void add(std::shared_ptr<ExpertLoad> load, bool wanted);
  // A load that was foreseen is wanted now.
  void want(const std::shared_ptr<ExpertLoad>& load);
  // Nobody wants the load any more: what has not been asked for is not read. It lands, failed, when what has been asked for has come.
  void stop(const std::shared_ptr<ExpertLoad>& load);
  // Issues what may be issued. Called when a load may begin that could not before.
  void pump();
  // What has not begun will not.
  void give_up();
  Signal& landed() { return landed_; }
  // Gives up, and waits for what is in flight.
  Task<void> settle();

  Bytes bytes() const { return bytes_; }
  // Time with a request in flight.
  Picoseconds reading() const { return reading_ + (in_flight_ > 0 ? machine_.clock.now() - since_ : Picoseconds(0)); }

 private:
  using Queue = std::deque<std::shared_ptr<ExpertLoad>>;
  bool issue_from(Queue& queue);
  void fail_unread(ExpertLoad& load);
  Task<void> read(std::shared_ptr<ExpertLoad> load, Bytes offset, Bytes length);

  Machine& machine_;
  UnitId issuer_;
  std::uint32_t window_, in_flight_ = 0;
  Queue wanted_, foreseen_;
  Signal landed_;
  TaskScope scope_;
  TrackId track_;
  Bytes bytes_ = 0;
  Picoseconds since_{0}, reading_{0};
};

}  // namespace vitro
