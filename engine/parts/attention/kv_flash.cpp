#include "engine/parts/attention/kv_flash.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vitro {
namespace {

constexpr Bytes kRequest = MiB;  // long enough for the device's full bandwidth

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
  reading_.track = machine.trace.track("storage", "kv reads");
  writing_.track = machine.trace.track("storage", "kv writes");
}

Extent KvFlash::extent(std::uint32_t layer, std::uint32_t place, std::size_t count) const {
  return {file_, (Bytes{layer} * kv_.places() + place) * kv_.slice_bytes(), count * kv_.slice_bytes()};
}

Task<void> KvFlash::begin_step(const std::vector<SeqPos>* rows) {
  for (std::size_t r = 0; r < rows->size(); ++r) {
    if (r == 0 || (*rows)[r].sequence != (*rows)[r - 1].sequence) kv_.leave((*rows)[r].sequence, leaving_);
  }
  for (const KvCache::Leaving& block : leaving_) {
    if (machine_.trace.enabled()) {
      machine_.trace.decision("kv_write", fmt::format("block {} to place {}", block.block, block.place), "flash");
    }
    writes_.spawn(write(block));
  }
  std::vector<KvCache::Landing> wanted = kv_.absent(*rows, options_.window);
  // What is on its way for this step may go on, unless slots that it fills are to hold something else.
  const bool grown = wanted.size() >= landing_.size() && std::equal(landing_.begin(), landing_.end(), wanted.begin());
  if (!grown) co_await reads_.join();
  Status status = kv_.land(wanted);
  if (!status.ok()) throw RunError(fmt::format("no memory for the landing buffers of keys and values in flash: {}", status.message));
  landing_ = std::move(wanted);
  held_.resize(landing_.size());
  if (options_.prefetch) issue_reads(0);
}

// Neighbours in the file are neighbours in their slots: a run of them is one request, up to the largest.
void KvFlash::issue_reads(std::uint32_t layer) {
  const std::size_t most = std::max<Bytes>(std::min(kRequest, machine_.storage.caps().max_transfer) / kv_.slice_bytes(), 1);
  const auto missing = [&](std::size_t slot) { return held_[slot] != Held{layer, landing_[slot]}; };
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
  stats_.read += request.from.length;
  begins(reading_);
  const IoResult result = co_await machine_.storage.read(std::move(request));
  ends(reading_, "read");
  stats_.reading = reading_.total;
  if (!result.status.ok()) throw RunError(fmt::format("reading keys and values of layer {} from flash: {}", layer, result.status.message));
}

Task<void> KvFlash::write(KvCache::Leaving block) {
  for (std::uint32_t layer = 0; layer < kv_.shape().layers && !writes_.stop_requested(); ++layer) {
    WriteRequest request;
    request.to = extent(layer, block.place, 1);
    request.from = kv_.memory();
    request.from_offset = block.offset + layer * kv_.slice_bytes();
    request.issuer = options_.issuer;
    stats_.written += request.to.length;
    begins(writing_);
    const IoResult result = co_await machine_.storage.write(std::move(request));
    ends(writing_, "write");
    if (!result.status.ok()) throw RunError(fmt::format("writing keys and values of layer {} to flash: {}", layer, result.status.message));
  }
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

void KvFlash::attended(std::uint32_t layer) {
  if (options_.prefetch) issue_reads((layer + 1) % kv_.shape().layers);
}

Task<void> KvFlash::end_step(bool failed) {
  std::exception_ptr error;
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
  if (error && !failed) std::rethrow_exception(error);
  if (failed || error) co_return;
  for (const KvCache::Leaving& block : leaving_) kv_.has_left(block);
  leaving_.clear();
}

}  // namespace vitro
