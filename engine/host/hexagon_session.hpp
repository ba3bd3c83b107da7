// A session with a Hexagon worker: places bytes where it can read them, has operators run, and believes no answer unchecked.
#pragma once
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <span>

#include "engine/host/hexagon_transport.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro {

struct HexagonLimits {
  std::chrono::milliseconds start{10'000};    // from start() to a worker that waits for requests
  std::chrono::milliseconds progress{5'000};  // without any progress: it hangs
  std::chrono::microseconds spin{50};         // polls this long before it sleeps between looks
  int restarts = 1;                           // of a worker that died, hung or answered garbage
};

// Used from one thread at a time, but for place(), give_back(), holds(), at() of what was placed and written(), which others may call while
// a request runs.
class HexagonSession {
 public:
  explicit HexagonSession(std::unique_ptr<HexagonTransport> transport, HexagonLimits limits = {});
  ~HexagonSession();

  // False once the worker was given up: run() will not succeed again.
  bool usable() const { return usable_; }

  // Room for bytes that stay until they are given back (weights): whole pages, zeroed. Code::over_budget when it is full.
  Result<std::uint32_t> place(Bytes size);
  // The system has the pages back. Requires: of place(), with that size, and no request reads them.
  void give_back(std::uint32_t at, Bytes size);
  // Whole pages, zeroed; the system has the memory back where it can.
  void discard(std::uint32_t at, Bytes size);
  // True when an empty session would have so much room.
  bool holds(Bytes size) { return round_up(size, kPageSize) <= placed_end() - hexagon::kArenaStart; }
  // Room for what one request needs (activations); all of it is free again after clear_scratch().
  Result<std::uint32_t> scratch(Bytes size);
  void clear_scratch() { scratch_ = 0; }
  std::byte* at(std::uint32_t offset) { return transport_->inbound().data() + offset; }
  void written(std::uint32_t offset, Bytes size) { transport_->clean(at(offset), size); }

  // Runs the operators (`out` is assigned here) and returns their results, each checked against the worker's sum of it: the
  // bytes are private to the caller before they are checked. A worker that fails is started again once and given the same
  // request; Code::unit_lost after that, and from then on. Code::unsupported_shape when the worker refuses an operator.
  Result<std::vector<std::vector<std::uint32_t>>> run(std::vector<hexagon::Operator> operators);
  // What the last run() logged of stages, each event checked: in one order of all threads, as far as the answer had room.
  const std::vector<hexagon::StageEvent>& log() const { return log_; }
  // Sums that waited between two parts of the depth, by place, in all run()s.
  const std::array<std::uint64_t, 3>& spilled() const { return spilled_; }
  // The most bytes of results that one run() can return.
  Bytes most_results() { return transport_->outbound().size() - hexagon::kResultsStart; }

  const std::vector<std::string>& notes() const { return notes_; }
  HexagonTransport& transport() { return *transport_; }

 private:
  static constexpr Bytes kScratchShare = 8;  // of inbound, at its end
  Bytes placed_end() { return round_down(transport_->inbound().size() - transport_->inbound().size() / kScratchShare, kPageSize); }

  using Results = std::vector<std::vector<std::uint32_t>>;
  Status start();
  Result<Results> attempt(const std::vector<hexagon::Operator>& operators);
  Status wait(std::uint32_t sequence);
  Status fail(std::string why) const { return {Code::unit_lost, std::move(why)}; }

  std::unique_ptr<HexagonTransport> transport_;
  HexagonLimits limits_;
  hexagon::Request& request_;
  hexagon::Response& response_;
  std::mutex placing_;
  std::map<std::uint32_t, std::uint32_t> free_;  // where runs of free pages begin, and end; guarded by placing_
  std::uint32_t scratch_ = 0;
  int restarts_left_;
  bool usable_ = true;
  std::vector<hexagon::StageEvent> log_;
  std::array<std::uint64_t, 3> spilled_{};
  std::vector<std::string> notes_;
};

}  // namespace vitro
