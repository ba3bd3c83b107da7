#include "engine/host/hexagon_session.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "engine/host/hexagon_stages.hpp"
#include "engine/host/thread_placement.hpp"

namespace vitro {
namespace {

constexpr Bytes kAnswerBytes = offsetof(hexagon::Response, log);  // of a response, before its log

using Clock = std::chrono::steady_clock;
using hexagon::kVectorBytes;

template <class T>
T& first_of(std::span<std::byte> region) {
  return *reinterpret_cast<T*>(region.data());
}

// Polls without sleeping for a while, then between short sleeps. `done` ends it, `check` is asked now and then.
template <class Done, class Check>
Status poll(std::chrono::microseconds spin, Done done, Check check) {
  const Clock::time_point begin = Clock::now();
  for (std::uint32_t looks = 1;; ++looks) {
    if (done()) return {};
    const bool sleeps = Clock::now() - begin > spin;
    if (sleeps) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    } else {
      pause_cpu();
    }
    if (looks % (sleeps ? 32 : 4096) != 0) continue;
    if (Status status = check(); !status.ok()) return status;
  }
}

std::string dead(std::string_view what, HexagonTransport& transport) {
  const std::string words = transport.exit_reason();
  return words.empty() ? std::string(what) : fmt::format("{}: {}", what, words);
}

}  // namespace

HexagonSession::HexagonSession(std::unique_ptr<HexagonTransport> transport, HexagonLimits limits)
    : transport_(std::move(transport)),
      limits_(limits),
      request_(first_of<hexagon::Request>(transport_->inbound())),
      response_(first_of<hexagon::Response>(transport_->outbound())),
      free_{{hexagon::kArenaStart, static_cast<std::uint32_t>(placed_end())}},
      restarts_left_(limits.restarts) {
  request_.magic = hexagon::kMagic;
  request_.version = hexagon::kVersion;
  request_.inbound_bytes = static_cast<std::uint32_t>(transport_->inbound().size());
  request_.outbound_bytes = static_cast<std::uint32_t>(transport_->outbound().size());
  transport_->clean(&request_, sizeof request_);
  if (Status status = start(); !status.ok()) {
    usable_ = false;
    notes_.push_back(fmt::format("hexagon: the worker did not start ({}): its work runs on the CPU", status.message));
  }
}

HexagonSession::~HexagonSession() { transport_->stop(); }

Status HexagonSession::start() {
  response_.ready = 0;
  response_.sequence = request_.sequence;  // nothing is outstanding for a new worker
  transport_->clean(&response_, sizeof response_);
  if (Status status = transport_->start(); !status.ok()) return status;
  const Clock::time_point give_up = Clock::now() + limits_.start;
  return poll(
      limits_.spin,
      [this] {
        transport_->invalidate(&response_, kAnswerBytes);
        return response_.ready == hexagon::kMagic;
      },
      [&]() -> Status {
        if (!transport_->alive()) return fail(dead("the worker ended before it was ready", *transport_));
        return Clock::now() < give_up ? Status{} : fail("the worker was not ready in time");
      });
}

Result<std::uint32_t> HexagonSession::place(Bytes size) {
  const Bytes wanted = round_up(size, kPageSize);
  const std::scoped_lock lock(placing_);
  const auto run = std::ranges::find_if(free_, [wanted](const auto& run) { return run.second - run.first >= wanted; });
  if (run == free_.end()) {
    return Status{Code::over_budget,
                  fmt::format("hexagon: another {} do not fit into a session of {}", format_bytes(size), format_bytes(placed_end()))};
  }
  const auto [at, end] = *run;
  const std::uint32_t rest = at + static_cast<std::uint32_t>(wanted);
  free_.erase(run);
  if (rest < end) free_.emplace(rest, end);
  return at;
}

void HexagonSession::discard(std::uint32_t at, Bytes size) {
  if (::madvise(this->at(at), size, MADV_REMOVE) != 0) std::memset(this->at(at), 0, size);  // memory of a driver's own
}

void HexagonSession::give_back(std::uint32_t at, Bytes size) {
  const auto end = at + static_cast<std::uint32_t>(round_up(size, kPageSize));
  discard(at, end - at);
  const std::scoped_lock lock(placing_);
  const auto added = free_.emplace(at, end).first;
  if (const auto next = std::next(added); next != free_.end() && next->first == end) {
    added->second = next->second;
    free_.erase(next);
  }
  if (added == free_.begin()) return;
  if (const auto before = std::prev(added); before->second == at) {
    before->second = added->second;
    free_.erase(added);
  }
}

Result<std::uint32_t> HexagonSession::scratch(Bytes size) {
  const Bytes all = transport_->inbound().size(), room = round_down(all / kScratchShare, kVectorBytes);
  const Bytes wanted = round_up(size, kVectorBytes);
  if (wanted > room - scratch_) return Status{Code::over_budget, "hexagon: a request's activations do not fit into the session"};
  const auto at = static_cast<std::uint32_t>(round_down(all, kVectorBytes) - room + scratch_);
  scratch_ += static_cast<std::uint32_t>(wanted);
  return at;
}

Result<HexagonSession::Results> HexagonSession::run(std::vector<hexagon::Operator> operators) {
  VITRO_CHECK(!operators.empty() && operators.size() <= hexagon::kMostOperators, "a request of no operators, or of too many");
  Bytes end = hexagon::kResultsStart;
  for (hexagon::Operator& op : operators) {
    op.out = static_cast<std::uint32_t>(end);
    end = round_up(end + op.out_bytes, kVectorBytes);
  }
  VITRO_CHECK(end <= transport_->outbound().size(), "a request with more results than its region holds");
  while (usable_) {
    Result<Results> results = attempt(operators);
    if (results.ok() || results.status().code == Code::unsupported_shape) return results;
    transport_->stop();
    const std::string why = results.status().message;
    if (restarts_left_-- > 0) {
      Status status = start();
      notes_.push_back(fmt::format("hexagon: the worker was started again: {}", why));
      if (status.ok()) continue;
      notes_.push_back(fmt::format("hexagon: it did not come back: {}", status.message));
      transport_->stop();
    }
    usable_ = false;
    notes_.push_back(fmt::format("hexagon: the worker was stopped after an earlier failure, its work runs on the CPU: {}", why));
  }
  return fail("the worker was stopped after an earlier failure");
}

// Of a response only copies are looked at, each word once: a worker that runs wild may still be writing.
Result<HexagonSession::Results> HexagonSession::attempt(const std::vector<hexagon::Operator>& operators) {
  const auto count = static_cast<std::uint32_t>(operators.size());
  const std::uint32_t sequence = request_.sequence + 1;
  std::copy(operators.begin(), operators.end(), request_.operators);
  request_.count = count;
  request_.checksum = hexagon::request_sum(request_, sequence);
  transport_->clean(&request_, sizeof request_);
  std::atomic_thread_fence(std::memory_order_release);
  request_.sequence = sequence;
  transport_->clean(&request_, sizeof request_);

  if (Status status = wait(sequence); !status.ok()) return status;
  std::atomic_thread_fence(std::memory_order_acquire);
  auto copied = std::make_unique<hexagon::Response>();
  hexagon::Response& answer = *copied;
  std::memcpy(static_cast<void*>(&answer), static_cast<const void*>(&response_), kAnswerBytes);
  const std::span<const hexagon::StageEvent> log(answer.log, std::min(answer.logged, hexagon::kMostLogged));
  transport_->invalidate(response_.log, log.size_bytes());
  std::memcpy(answer.log, response_.log, log.size_bytes());
  const auto kind = static_cast<hexagon::Answer>(answer.answer);
  const bool done = kind == hexagon::Answer::done;
  if (answer.checksum != hexagon::response_sum(answer, sequence, done ? count : 0)) return fail("the worker's answer was damaged");
  if (kind == hexagon::Answer::bad_operator && answer.where < count) {
    return Status{Code::unsupported_shape, fmt::format("hexagon: the worker refuses operator {} of a request", answer.where)};
  }
  if (!done) return fail("the worker received a damaged request");
  if (Status status = hexagon::check_log(operators, answer.logged, log); !status.ok()) return status;
  log_.assign(log.begin(), log.end());

  Results results(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::byte* from = transport_->outbound().data() + operators[i].out;
    transport_->invalidate(from, operators[i].out_bytes);
    results[i].resize(operators[i].out_bytes / sizeof(std::uint32_t));
    std::memcpy(results[i].data(), from, operators[i].out_bytes);
    const auto words = static_cast<std::uint32_t>(results[i].size());
    if (hexagon::checksum_words(hexagon::seed_of(sequence, i), results[i].data(), words) != answer.sums[i]) {
      return fail(fmt::format("result {} of {} was damaged", i + 1, count));
    }
  }
  for (std::size_t i = 0; i < spilled_.size(); ++i) spilled_[i] += answer.spilled[i];
  return results;
}

Status HexagonSession::wait(std::uint32_t sequence) {
  std::uint32_t progress = response_.progress;
  Clock::time_point give_up = Clock::now() + limits_.progress;
  return poll(
      limits_.spin,
      [&] {
        transport_->invalidate(&response_, kAnswerBytes);
        return response_.sequence == sequence;
      },
      [&]() -> Status {
        if (!transport_->alive()) return fail(dead("the worker died", *transport_));
        const std::uint32_t answered = response_.sequence;
        if (answered != sequence && answered != sequence - 1) return fail("the worker answered a request that was never sent");
        if (response_.progress != progress) {
          progress = response_.progress;
          give_up = Clock::now() + limits_.progress;
        }
        return Clock::now() < give_up ? Status{} : fail(fmt::format("no progress in {} ms", limits_.progress.count()));
      });
}

}  // namespace vitro
