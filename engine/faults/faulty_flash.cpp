#include <fmt/format.h>

#include <algorithm>

#include "engine/base/rng.hpp"
#include "engine/faults/fault_parts.hpp"

namespace vitro {
namespace {

Status status_of(const Fault& fault, Code code, std::uint64_t operation) {
  return {code, fmt::format("{} (a fault on purpose, {} {})", to_string(fault.kind), to_string(target_of(fault.kind)), operation)};
}

}  // namespace

Picoseconds FaultyFlash::stalled() const { return std::max(stalled_until_ - inner_.executor().now(), Picoseconds(0)); }

FaultyFlash::Fate FaultyFlash::fate_of_read(Bytes length) {
  Fate fate;
  const auto [n, faults] = state_.next(FaultTarget::read);
  fate.struck = !faults.empty();
  for (const Fault* fault : faults) {
    state_.fired(fault->kind);
    switch (fault->kind) {
      case FaultKind::short_read:
        fate.status = status_of(*fault, Code::short_read, n);
        fate.moved = fault->bytes % length;
        break;
      case FaultKind::corrupt_read:
        fate.wrong = fault->bytes % length;
        break;
      case FaultKind::latency:
        fate.delay = std::max(fate.delay, fault->delay);
        break;
      case FaultKind::stall:
        stalled_until_ = std::max(stalled_until_, inner_.executor().now() + fault->delay);
        break;
      case FaultKind::reorder: {
        const auto most = static_cast<std::uint64_t>(std::max<std::int64_t>(fault->delay.count(), 1));
        fate.delay = std::max(fate.delay, Picoseconds(static_cast<std::int64_t>(mix(state_.plan.seed, {fault->at, n}) % most)));
        break;
      }
      case FaultKind::queue_full:
        fate.queued = true;
        break;
      default:  // read_error, storage_lost
        fate.status = status_of(*fault, Code::io_error, n);
        fate.moved = 0;
    }
  }
  return fate;
}

FaultyFlash::Fate FaultyFlash::fate_of_write() {
  Fate fate;
  const auto [n, faults] = state_.next(FaultTarget::write);
  for (const Fault* fault : faults) {
    state_.fired(fault->kind);
    fate.status = status_of(*fault, fault->kind == FaultKind::no_space ? Code::no_space : Code::io_error, n);
  }
  return fate;
}

Task<IoResult> FaultyFlash::read(ReadRequest request, Fate fate) {
  if (!fate.status.ok()) request.from.length = fate.moved;
  const ReadRequest asked = request;
  while (fate.queued && busy_ > 0) co_await turn_.changed();
  IoResult result;
  if (request.from.length > 0) {
    ++busy_;
    result = co_await inner_.read(std::move(request));
    --busy_;
    turn_.notify();
  }
  co_await FaultDelay{inner_.executor(), std::max(fate.delay, stalled())};
  if (!fate.status.ok() && result.status.ok()) result.status = std::move(fate.status);
  if (fate.wrong && result.status.ok() && asked.into.data() != nullptr) {
    asked.into.data()[asked.into_offset + *fate.wrong] ^= std::byte{0x55};
  }
  ++state_.tally.ended;
  co_return result;
}

Detached FaultyFlash::serve(ReadRequest request, Fate fate, ResultSlot done) {
  IoResult result = co_await read(std::move(request), std::move(fate));
  done.complete(std::move(result));
}

Detached FaultyFlash::serve(WriteRequest request, Fate fate, Completion<IoResult>* done) {
  IoResult result;
  if (fate.status.ok()) result = co_await inner_.write(std::move(request));
  co_await FaultDelay{inner_.executor(), stalled()};
  if (!fate.status.ok()) result.status = std::move(fate.status);
  ++state_.tally.ended;
  done->complete(std::move(result));
}

// Those of a vector that nothing strikes go on as a vector, behind the others.
Detached FaultyFlash::serve_all(std::vector<ReadRequest> requests, std::vector<std::uint32_t> index, VectorRead* read) {
  const std::size_t count = requests.size();
  busy_ += static_cast<std::uint32_t>(count);
  VectorRead inner = inner_.read_many(std::move(requests), read->delivery());
  while (const VectorRead::Group* group = co_await inner.next()) {
    busy_ -= static_cast<std::uint32_t>(group->size());
    turn_.notify();
    state_.tally.ended += group->size();
    // The last completion may end `read`; `inner` is this frame's own.
    for (const ReadCompletion& done : *group) read->complete(index[done.index], done.result);
  }
}

void FaultyFlash::submit(const ReadRequest& request, Completion<IoResult>& done) {
  ++state_.tally.started;
  serve(request, fate_of_read(request.from.length), done);
}

void FaultyFlash::submit(const WriteRequest& request, Completion<IoResult>& done) {
  ++state_.tally.started;
  serve(request, fate_of_write(), &done);
}

void FaultyFlash::submit(VectorRead& read) {
  std::vector<ReadRequest> untouched;
  std::vector<std::uint32_t> index;
  for (std::uint32_t i = 0; i < read.requests().size(); ++i) {
    const ReadRequest& request = read.requests()[i];
    ++state_.tally.started;
    Fate fate = fate_of_read(request.from.length);
    if (!fate.struck && stalled().count() == 0) {
      untouched.push_back(request);
      index.push_back(i);
    } else {
      serve(request, std::move(fate), ResultSlot(read, i));
    }
  }
  if (!untouched.empty()) serve_all(std::move(untouched), std::move(index), &read);
}

}  // namespace vitro
