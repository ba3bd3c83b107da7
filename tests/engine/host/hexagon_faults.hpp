// A transport that kills, stops or corrupts the worker of another one, at chosen requests.
#pragma once
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <map>

#include "engine/host/hexagon_qemu.hpp"
#include "engine/host/hexagon_transport.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::test {

enum class Fault {
  die, die_computing, hang, corrupt_result, corrupt_sum, wrong_sequence,
  corrupt_log, impossible_log,  // after its checksum was made, and before
  die_in_transfer, hang_in_transfer, die_in_vector, hang_in_vector, die_in_matrix, hang_in_matrix,  // of a product in stages
};

// Such a fault needs a matrix stage that takes time: the worker's own code, not the emulator's unit.
inline bool in_matrix(const std::map<std::uint32_t, Fault>& faults) {
  return std::ranges::any_of(faults, [](const auto& f) { return f.second == Fault::die_in_matrix || f.second == Fault::hang_in_matrix; });
}

// All of its threads, when this returns: on a busy machine that takes longer than an answer does.
inline void stop_process(int process) {
  ::kill(process, SIGSTOP);
  siginfo_t stopped;
  ::waitid(P_PID, static_cast<id_t>(process), &stopped, WSTOPPED);
}

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
  std::string exit_reason() override { return inner_->exit_reason(); }
  int process() const override { return inner_->process(); }
  void stop() override { inner_->stop(); }
  std::vector<PacketCount> packets() const override { return inner_->packets(); }

  void clean(const void* begin, Bytes length) override {
    inner_->clean(begin, length);
    if (begin != inbound().data() || response().ready != hexagon::kMagic) return;
    if (request().sequence == posted_) {
      if (take(Fault::die, posted_ + 1)) ::kill(process(), SIGKILL);
      if (take(Fault::hang, posted_ + 1)) stop_process(process());
      return;
    }
    posted_ = request().sequence;
    strike_stages();
    if (!take(Fault::die_computing, posted_)) return;
    const std::uint32_t before = response().progress;
    while (response().progress == before && response().sequence != posted_) {}
    ::kill(process(), SIGSTOP);
    finished_first = response().sequence == posted_;
    ::kill(process(), SIGKILL);
  }

  void invalidate(const void* begin, Bytes length) override {
    inner_->invalidate(begin, length);
    if (begin == outbound().data() && changes_answer(posted_)) {
      while (response().sequence != posted_ && alive()) {}  // one that came between here and the session's look would pass unchanged
    }
    if (posted_ == 0 || response().sequence != posted_) return;
    if (begin != outbound().data()) {
      if (take(Fault::corrupt_result, posted_)) outbound()[static_cast<std::size_t>(hexagon::kResultsStart) + 5] ^= std::byte{4};
      return;
    }
    if (take(Fault::corrupt_sum, posted_)) response().sums[0] ^= 1;
    if (take(Fault::corrupt_log, posted_)) response().log[0].step ^= 1;
    if (take(Fault::impossible_log, posted_)) {
      response().log[0].step = 1u << 30;
      response().checksum = hexagon::response_sum(response(), posted_, request().count);
    }
    if (take(Fault::wrong_sequence, posted_)) response().sequence = posted_ + 7;
  }

  // Another fault, for the next request. One in a stage may come too late (`finished_first`).
  void arm(Fault fault) {
    finished_first = false;
    faults_[posted_ + 1] = fault;
  }

  int starts = 0, struck = 0;
  bool finished_first = false;  // the worker was done before die_computing, or a fault in a stage, struck

 private:
  hexagon::Request& request() { return *reinterpret_cast<hexagon::Request*>(inbound().data()); }
  hexagon::Response& response() { return *reinterpret_cast<hexagon::Response*>(outbound().data()); }
  bool changes_answer(std::uint32_t number) const {
    const auto fault = faults_.find(number);
    if (fault == faults_.end()) return false;
    return fault->second == Fault::corrupt_sum || fault->second == Fault::corrupt_log || fault->second == Fault::impossible_log ||
           fault->second == Fault::wrong_sequence;
  }
  bool take(Fault wanted, std::uint32_t number) {
    const auto fault = faults_.find(number);
    if (fault == faults_.end() || fault->second != wanted) return false;
    faults_.erase(fault);
    ++struck;
    return true;
  }

  void strike_stages() {
    if (take(Fault::die_in_transfer, posted_)) strike_in(hexagon::kIn, SIGKILL);
    if (take(Fault::hang_in_transfer, posted_)) strike_in(hexagon::kIn, 0);
    if (take(Fault::die_in_vector, posted_)) strike_in(hexagon::kVector, SIGKILL);
    if (take(Fault::hang_in_vector, posted_)) strike_in(hexagon::kVector, 0);
    if (take(Fault::die_in_matrix, posted_)) strike_in(hexagon::kMatrix, SIGKILL);
    if (take(Fault::hang_in_matrix, posted_)) strike_in(hexagon::kMatrix, 0);
  }
  // Stops the worker while one of its threads is within `stage`, and then sends `signal`; 0: it stays stopped.
  void strike_in(hexagon::Stage stage, int signal) {
    while (response().sequence != posted_) {
      if (!within(stage)) continue;
      stop_process(process());
      if (within(stage)) {
        if (signal != 0) ::kill(process(), signal);
        return;
      }
      ::kill(process(), SIGCONT);
    }
    finished_first = true;
  }
  // By its log as it stands: the last that is said of the stage is a begin.
  bool within(hexagon::Stage stage) {
    const volatile hexagon::StageEvent* log = response().log;
    const std::uint32_t logged = *const_cast<volatile std::uint32_t*>(&response().logged);
    for (std::uint32_t i = std::min(logged, hexagon::kMostLogged); i-- > 0;) {
      if (log[i].stage != stage || log[i].mark == static_cast<std::uint8_t>(hexagon::StageMark::issue)) continue;
      return log[i].mark == static_cast<std::uint8_t>(hexagon::StageMark::begin);
    }
    return false;
  }

  std::unique_ptr<HexagonTransport> inner_;
  std::map<std::uint32_t, Fault> faults_;
  bool stays_dead_;
  std::uint32_t posted_ = 0;
};

}  // namespace vitro::test
