#include "engine/parts/attention/kv_flash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/base/over_budget.hpp"

namespace vitro {
namespace {

constexpr Bytes kRequest = MiB;           // long enough for the device's full bandwidth
constexpr std::size_t kWritesAtOnce = 8;  // of a step's small ones: enough for several dies, and reads find the queue open

}  // namespace

KvFlash::KvFlash(Machine& machine, KvCache& kv, KvFlashOptions options)
    : machine_(machine), kv_(kv), options_(options), reads_(machine.executor), writes_(machine.executor) {
  const Bytes size = kv.places() * kv.block_bytes();
  Result<FileId> file = machine.storage.create_scratch(size);
  if (!file.ok()) {
    throw RunError(fmt::format("engine.kv.dram_tokens: the file of {} for keys and values can not be made: {}", format_bytes(size),
                               file.status().message));
  }
  file_ = file.value();
  if (options_.checksums) sums_.emplace(machine, std::uint64_t{kv.places()} * kv.shape().layers, kv.slice_bytes());
  reading_.track = machine.trace.track("storage", "kv reads");
  writing_.track = machine.trace.track("storage", "kv writes");
}

Extent KvFlash::extent(std::uint32_t layer, std::uint32_t place, std::size_t count) const {
  return {file_, (Bytes{layer} * kv_.places() + place) * kv_.slice_bytes(), count * kv_.slice_bytes()};
}

std::size_t KvFlash::most_in_request() const {
  return std::max<Bytes>(std::min(kRequest, machine_.storage.caps().max_transfer) / kv_.slice_bytes(), 1);
}

// Blocks side by side in the pool and in the file leave together.
void KvFlash::queue_leaving() {
  std::sort(leaving_.begin(), leaving_.end(), [](const auto& a, const auto& b) { return a.place < b.place; });
  if (machine_.trace.enabled()) {
    for (const KvCache::Leaving& block : leaving_) {
      machine_.trace.decision("kv_write", fmt::format("block {} to place {}", block.block, block.place), "flash");
    }
  }
  queued_.clear();
  begun_ = 0;
  const std::size_t most = most_in_request();
  for (std::uint32_t layer = 0; layer < kv_.shape().layers; ++layer) {
    for (std::size_t i = 0; i < leaving_.size(); ++i) {
      const auto [block, place] = leaving_[i];
      const bool follows = i > 0 && block == leaving_[i - 1].block + 1 && place == leaving_[i - 1].place + 1;
      if (follows && queued_.back().count < most) {
        ++queued_.back().count;
      } else {
        queued_.push_back({layer, place, 1, kv_.slice_offset(block, layer)});
      }
    }
  }
  for (std::size_t i = 0; i < std::min(kWritesAtOnce, queued_.size()); ++i) writes_.spawn(write_queued());
}

Task<void> KvFlash::begin_step(const std::vector<SeqPos>* rows) {
  for (std::size_t r = 0; r < rows->size(); ++r) {
    if (r == 0 || (*rows)[r].sequence != (*rows)[r - 1].sequence) kv_.leave((*rows)[r].sequence, leaving_);
  }
  queue_leaving();
  co_await land(rows);
  if (options_.prefetch) issue_reads(0);
}

Task<void> KvFlash::begin_prompt(const std::vector<SeqPos>* rows, std::vector<KvCache::BlockCopy>* copies) {
  const std::uint32_t sequence = rows->front().sequence, first = rows->front().position;
  VITRO_CHECK(rows->back().sequence == sequence && kv_.length(sequence) == first, "a prompt is of one sequence, which it continues");
  kv_.leave(sequence, leaving_);
  queue_leaving();
  Status status = kv_.extend_prompt(sequence, static_cast<std::uint32_t>(rows->size()), *copies, fresh_);
  if (!status.ok()) fail(status, fmt::format("KV cache of sequence {} at position {}", sequence, first));
  co_await land(rows);
  made_.assign(landing_.size(), false);
  std::map<std::uint32_t, std::size_t> slots;  // by block
  for (std::size_t slot = 0; slot < landing_.size(); ++slot) slots[landing_[slot].block] = slot;
  for (const KvCache::Fresh& fresh : fresh_) {
    fresh_slots_.push_back(slots.at(fresh.landing.block));
    made_[fresh_slots_.back()] = true;
  }
  prompt_end_ = rows->back().position + 1;
  if (options_.prefetch) issue_reads(0);
}

// What is on its way for this step may go on, unless slots that it fills are to hold something else.
Task<void> KvFlash::land(const std::vector<SeqPos>* rows) {
  std::vector<KvCache::Landing> wanted = kv_.absent(*rows);
  const bool grown = wanted.size() >= landing_.size() && std::equal(landing_.begin(), landing_.end(), wanted.begin());
  if (!grown) co_await reads_.join();
  Status status = kv_.land(wanted);
  if (!status.ok()) fail(status, "no memory for the landing buffers of keys and values in flash");
  landing_ = std::move(wanted);
  held_.resize(landing_.size());
}

Task<void> KvFlash::writable(std::uint32_t layer, std::uint32_t end) {
  const Picoseconds begin = machine_.clock.now();
  while (!batches_.empty() && batches_.front().layer < layer && batches_.front().begin < end) {
    co_await batches_.front().scope.join();
    batches_.pop_front();
  }
  stats_.held_up += machine_.clock.now() - begin;
}

void KvFlash::computed(std::uint32_t layer, std::uint32_t end) {
  while (full_ < fresh_.size() && fresh_[full_].end <= end) ++full_;
  const bool last = end == prompt_end_;
  const std::size_t most = most_in_request();
  if (!last && full_ - written_ < most) return;
  std::optional<Run> run;
  const auto flush = [&] {
    if (!run) return;
    batches_.back().scope.spawn(write(*run));
    run.reset();
  };
  if (written_ < full_) batches_.emplace_back(machine_.executor, layer, fresh_[written_].begin);
  for (; written_ < full_; ++written_) {
    const std::uint32_t place = fresh_[written_].landing.place;
    const std::size_t slot = fresh_slots_[written_];
    held_[slot] = Held{layer, landing_[slot]};
    if (place == KvCache::kNoPlace) continue;
    const Bytes memory = kv_.landing_offset(slot);
    if (run && (run->count == most || run->place + run->count != place || run->memory + run->count * kv_.slice_bytes() != memory)) flush();
    if (run) {
      ++run->count;
    } else {
      run = Run{layer, place, 1, memory};
    }
  }
  flush();
  if (last) full_ = written_ = 0;
}

// Neighbours in the file are neighbours in their slots: a run of them is one request, up to the largest.
void KvFlash::issue_reads(std::uint32_t layer) {
  const std::size_t most = most_in_request();
  const auto missing = [&](std::size_t slot) { return (made_.empty() || !made_[slot]) && held_[slot] != Held{layer, landing_[slot]}; };
  for (std::size_t first = 0, end = 0; first < landing_.size(); first = end) {
    end = first + 1;
    if (!missing(first)) continue;
    while (end < landing_.size() && missing(end) && landing_[end].place == landing_[end - 1].place + 1) ++end;
    const Pattern pattern = end - first > most ? Pattern::sequential : Pattern::random;
    for (std::size_t part = first; part < end; part += most) {
      const std::size_t count = std::min(most, end - part);
      for (std::size_t slot = part; slot < part + count; ++slot) held_[slot] = Held{layer, landing_[slot]};
      reads_.spawn(read(layer, part, count, pattern));
    }
  }
}

Task<void> KvFlash::read(std::uint32_t layer, std::size_t first, std::size_t count, Pattern pattern) {
  ReadRequest request;
  request.from = extent(layer, landing_[first].place, count);
  request.into = kv_.memory();
  request.into_offset = kv_.landing_offset(first);
  request.issuer = options_.issuer;
  request.pattern = pattern;
  const Extent from = request.from;
  stats_.read += from.length;
  ++stats_.reads;
  begins(reading_);
  const CheckedRead read = co_await read_checked(&machine_.storage, std::move(request), sums_ ? &*sums_ : nullptr);
  ends(reading_, "read");
  stats_.reading = reading_.total;
  const std::uint32_t again = read.attempts - 1;
  stats_.read += again * from.length;
  stats_.reads += again;
  stats_.read_again += again;
  if (sums_) stats_.verified = sums_->verified();
  const Status& status = read.result.status;
  if (!status.ok()) throw RunError(fmt::format("reading keys and values of layer {} from flash: {}", layer, status.message));
  if (read.damage) fail_as_damaged(layer, first, from.offset, *read.damage);
}

// The first sequence that holds the block: forks share it.
void KvFlash::fail_as_damaged(std::uint32_t layer, std::size_t first, Bytes begin, Bytes damage) const {
  const std::uint32_t block = landing_[first + (damage - begin) / kv_.slice_bytes()].block, tokens = kv_.shape().block_tokens;
  std::string whose = "of no sequence";
  for (const std::uint32_t sequence : kv_.sequences()) {
    const std::vector<std::uint32_t>& blocks = kv_.blocks_of(sequence);
    const auto found = std::ranges::find(blocks, block);
    if (found == blocks.end()) continue;
    const auto position = static_cast<std::uint32_t>(found - blocks.begin()) * tokens;
    whose = fmt::format("of sequence {}, positions {} to {}", sequence, position, position + tokens - 1);
    break;
  }
  throw RunError(fmt::format("keys and values in flash (the scratch file in engine.kv.scratch), layer {} {}: the slice at {} is "
                             "not what was written to it (read twice)", layer, whose, damage));
}

Task<void> KvFlash::write_queued() {
  while (begun_ < queued_.size() && !writes_.stop_requested()) co_await write(queued_[begun_++]);
}

Task<void> KvFlash::write(Run run) {
  WriteRequest request;
  request.to = extent(run.layer, run.place, run.count);
  request.from = kv_.memory();
  request.from_offset = run.memory;
  request.issuer = options_.issuer;
  if (sums_) sums_->take(request);
  stats_.written += request.to.length;
  ++stats_.writes;
  begins(writing_);
  const IoResult result = co_await machine_.storage.write(std::move(request));
  ends(writing_, "write");
  stats_.writing = writing_.total;
  if (!result.status.ok())
    throw RunError(fmt::format("writing keys and values of layer {} to flash: {}", run.layer, result.status.message));
}

void KvFlash::begins(Outstanding& outstanding) {
  if (outstanding.requests++ == 0) outstanding.since = machine_.clock.now();
}

void KvFlash::ends(Outstanding& outstanding, std::string_view name) {
  if (--outstanding.requests > 0) return;
  const Picoseconds now = machine_.clock.now();
  outstanding.total += now - outstanding.since;
  if (machine_.trace.enabled()) machine_.trace.span(outstanding.track, outstanding.since, now, name);
}

Task<void> KvFlash::landed(std::uint32_t layer) {
  issue_reads(layer);
  const Picoseconds begin = machine_.clock.now();
  co_await reads_.join();
  stats_.stalled += machine_.clock.now() - begin;
}

Task<void> KvFlash::put_away(std::uint32_t sequence) {
  kv_.leave(sequence, leaving_);
  queue_leaving();
  co_await end_step(false);
}

void KvFlash::attended(std::uint32_t layer) {
  if (options_.prefetch) issue_reads((layer + 1) % kv_.shape().layers);
}

// A prompt's last writes. Of several errors the first counts; `failed`: there is one already.
Task<void> KvFlash::join_prompt(bool failed) {
  std::exception_ptr error;
  for (; !batches_.empty(); batches_.pop_front()) {
    try {
      co_await batches_.front().scope.join();
    } catch (const RunError&) {
      if (!error) error = std::current_exception();
    }
  }
  fresh_.clear();
  fresh_slots_.clear();
  made_.clear();
  full_ = written_ = 0;
  if (error && !failed) std::rethrow_exception(error);
}

Task<void> KvFlash::end_step(bool failed) {
  std::exception_ptr error;
  try {
    co_await join_prompt(failed);
  } catch (...) {
    error = std::current_exception();
  }
  try {
    co_await writes_.join();
  } catch (...) {
    error = std::current_exception();
  }
  if (failed || error) {
    try {
      co_await reads_.join();
    } catch (const RunError&) {  // what it was for failed before it
    }
  }
  for (const KvCache::Leaving& block : leaving_) failed || error ? kv_.has_stayed(block) : kv_.has_left(block);
  leaving_.clear();
  if (failed || error) held_.assign(held_.size(), std::nullopt);  // what was to land may not have
  if (error && !failed) std::rethrow_exception(error);
}

}  // namespace vitro
