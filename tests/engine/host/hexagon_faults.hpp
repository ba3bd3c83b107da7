// A transport that kills, stops or corrupts the worker of another one, at chosen requests.
#pragma once
#include <signal.h>

#include <map>

#include "engine/host/hexagon_qemu.hpp"
#include "engine/host/hexagon_transport.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::test {

enum class Fault { die, die_computing, hang, corrupt_result, corrupt_sum, wrong_sequence };

// The cache-maintenance points are where the two processors meet, so that is where faults strike: a request is cleaned
// before and after it is posted, and what the worker wrote is invalidated before it is read.
class FaultyTransport final : public HexagonTransport {
 public:
  // `faults`: by the number of the request, from 1; a repeated one counts. stays_dead: no worker starts a second time.
  FaultyTransport(std::unique_ptr<HexagonTransport> inner, std::map<std::uint32_t, Fault> faults, bool stays_dead = false)
      : inner_(std::move(inner)), faults_(std::move(faults)), stays_dead_(stays_dead) {}

  std::string name() const override { return inner_->name(); }
  std::span<std::byte> inbound() override { return inner_->inbound(); }
  std::span<std::byte> outbound() override { return inner_->outbound(); }
  Status start() override {
    if (++starts > 1 && stays_dead_) return {Code::unit_lost, "as the test wants it"};
    return inner_->start();
  }
  bool alive() override { return inner_->alive(); }
  int process() const override { return inner_->process(); }
  void stop() override { inner_->stop(); }
  std::vector<PacketCount> packets() const override { return inner_->packets(); }

  void clean(const void* begin, Bytes length) override {
    inner_->clean(begin, length);
    if (begin != inbound().data() || response().ready != hexagon::kMagic) return;
    if (request().sequence == posted_) {
      if (take(Fault::die, posted_ + 1)) ::kill(process(), SIGKILL);
      if (take(Fault::hang, posted_ + 1)) ::kill(process(), SIGSTOP);
      return;
    }
    posted_ = request().sequence;
    if (!take(Fault::die_computing, posted_)) return;
    const std::uint32_t before = response().progress;
    while (response().progress == before && response().sequence != posted_) {}
    ::kill(process(), SIGSTOP);
    finished_first = response().sequence == posted_;
    ::kill(process(), SIGKILL);
  }

  void invalidate(const void* begin, Bytes length) override {
    inner_->invalidate(begin, length);
    if (posted_ == 0 || response().sequence != posted_) return;
    if (begin != outbound().data()) {
      if (take(Fault::corrupt_result, posted_)) outbound()[static_cast<std::size_t>(hexagon::kResultsStart) + 5] ^= std::byte{4};
      return;
    }
    if (take(Fault::corrupt_sum, posted_)) response().sums[0] ^= 1;
    if (take(Fault::wrong_sequence, posted_)) response().sequence = posted_ + 7;
  }

  int starts = 0, struck = 0;
  bool finished_first = false;  // the worker was done before die_computing struck

 private:
  hexagon::Request& request() { return *reinterpret_cast<hexagon::Request*>(inbound().data()); }
  hexagon::Response& response() { return *reinterpret_cast<hexagon::Response*>(outbound().data()); }
  bool take(Fault wanted, std::uint32_t number) {
    const auto fault = faults_.find(number);
    if (fault == faults_.end() || fault->second != wanted) return false;
    faults_.erase(fault);
    ++struck;
    return true;
  }

  std::unique_ptr<HexagonTransport> inner_;
  std::map<std::uint32_t, Fault> faults_;
  bool stays_dead_;
  std::uint32_t posted_ = 0;
};

}  // namespace vitro::test
