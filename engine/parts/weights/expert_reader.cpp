#include "engine/parts/weights/expert_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vitro {
namespace {

constexpr Bytes kExpertRequest = MiB;  // as residency.cpp: full sequential bandwidth on UFS 4.0 (PowerInfer-2 2.3.2: 512 KiB)

Bytes first_byte(const ExpertLoad& load) { return load.weight->extent.offset + load.expert * load.weight->matrix_bytes(); }

}  // namespace

Bytes ExpertLoad::begin() const { return first_byte(*this) / kPageSize * kPageSize; }
Bytes ExpertLoad::length() const { return round_up(first_byte(*this) + weight->matrix_bytes(), kPageSize) - begin(); }

ExpertReader::ExpertReader(Machine& machine, UnitId issuer, std::uint32_t window)
    : machine_(machine),
      issuer_(issuer),
      window_(window),
      landed_(machine.executor),
      scope_(machine.executor),
      track_(machine.trace.track("storage", "expert reads")) {}

std::shared_ptr<ExpertLoad> not_landed(std::shared_ptr<ExpertLoad> last) {
  while (last && last->landed) last = last->before;
  return last;
}

void ExpertReader::add(std::shared_ptr<ExpertLoad> load, bool wanted) {
  (wanted ? wanted_ : foreseen_).push_back(std::move(load));
  pump();
}

void ExpertReader::want(const std::shared_ptr<ExpertLoad>& load) {
  const auto found = std::ranges::find(foreseen_, load);
  if (found == foreseen_.end()) return;  // all of it is asked for
  foreseen_.erase(found);
  wanted_.push_back(load);
}

void ExpertReader::fail_unread(ExpertLoad& load) {
  load.status = Status{Code::io_error, "given up"};
  load.asked = load.length();
  load.landed = load.in_flight == 0;
}

void ExpertReader::stop(const std::shared_ptr<ExpertLoad>& load) {
  for (Queue* queue : {&wanted_, &foreseen_}) {
    const auto found = std::ranges::find(*queue, load);
    if (found == queue->end()) continue;  // all of it has been asked for
    queue->erase(found);
    return fail_unread(*load);
  }
}

void ExpertReader::pump() {
  while (in_flight_ < window_ && (issue_from(wanted_) || issue_from(foreseen_))) {
  }
}

// One request of the first load that may have one.
bool ExpertReader::issue_from(Queue& queue) {
  const auto next = std::ranges::find_if(queue, [](const std::shared_ptr<ExpertLoad>& load) {
    load->before = not_landed(std::move(load->before));
    if (load->before) return false;
    return !load->may_begin || load->may_begin();
  });
  if (next == queue.end()) return false;
  std::shared_ptr<ExpertLoad> load = *next;
  const Bytes step = std::min(kExpertRequest, machine_.storage.caps().max_transfer), offset = load->asked;
  const Bytes length = std::min(step, load->length() - offset);
  load->asked += length;
  if (load->asked == load->length()) queue.erase(next);
  ++load->in_flight;
  if (in_flight_++ == 0) since_ = machine_.clock.now();
  scope_.spawn(read(std::move(load), offset, length));
  return true;
}

// Never throws: whoever waits for the matrix hears of an error.
Task<void> ExpertReader::read(std::shared_ptr<ExpertLoad> load, Bytes offset, Bytes length) {
  ReadRequest request;
  request.from = {load->weight->extent.file, load->begin() + offset, length};
  request.into = load->into;
  request.into_offset = offset;
  request.issuer = issuer_;
  request.pattern = Pattern::sequential;
  const IoResult result = co_await machine_.storage.read(std::move(request));
  if (!result.status.ok() && load->status.ok()) load->status = result.status;
  bytes_ += result.status.ok() ? length : result.done;
  --load->in_flight;
  if (--in_flight_ == 0) {
    const Picoseconds now = machine_.clock.now();
    reading_ += now - since_;
    if (machine_.trace.enabled()) machine_.trace.span(track_, since_, now, "read");
  }
  if (load->in_flight == 0 && load->asked == load->length()) {
    load->landed = true;
    landed_.notify();
  }
  pump();
}

void ExpertReader::give_up() {
  for (Queue* queue : {&wanted_, &foreseen_}) {
    for (const std::shared_ptr<ExpertLoad>& load : *queue) fail_unread(*load);
    queue->clear();
  }
  landed_.notify();
}

Task<void> ExpertReader::settle() {
  give_up();
  co_await scope_.join();
}

}  // namespace vitro
