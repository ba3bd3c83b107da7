#include "engine/transformer/kv_transfer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/over_budget.hpp"

namespace vitro {
namespace {

constexpr std::size_t kWritesAtOnce = 8;  // enough for several dies

Task<void> write_from(Storage* storage, const std::vector<WriteRequest>* requests, std::size_t* begun, const TaskScope* scope) {
  while (*begun < requests->size() && !scope->stop_requested()) {
    const IoResult result = co_await storage->write((*requests)[(*begun)++]);
    if (!result.status.ok()) throw RunError(fmt::format("writing keys and values of a sequence: {}", result.status.message));
  }
}

Task<void> write_all(Machine* machine, std::vector<WriteRequest> requests) {
  std::size_t begun = 0;
  TaskScope scope(machine->executor);
  for (std::size_t i = 0; i < std::min(kWritesAtOnce, requests.size()); ++i) {
    scope.spawn(write_from(&machine->storage, &requests, &begun, &scope));
  }
  co_await scope.join();
}

constexpr const char* kReading = "reading keys and values of a sequence back: {}";

// What brought other bytes than were written is read once more.
Task<void> read_all(Machine* machine, std::vector<ReadRequest> requests, KvSums* sums) {
  Status status;
  std::vector<ReadRequest> damaged;
  VectorRead reads = machine->storage.read_many(requests);
  while (const VectorRead::Group* group = co_await reads.next()) {
    for (const ReadCompletion& done : *group) {
      if (!done.result.status.ok() && status.ok()) status = done.result.status;
      if (done.result.status.ok() && sums != nullptr && sums->damage_in(requests[done.index])) damaged.push_back(requests[done.index]);
    }
  }
  if (!status.ok()) throw RunError(fmt::format(kReading, status.message));
  for (const ReadRequest& request : damaged) {
    const IoResult again = co_await machine->storage.read(request);
    if (!again.status.ok()) throw RunError(fmt::format(kReading, again.status.message));
    if (const std::optional<Bytes> damage = sums->damage_in(request)) {
      throw RunError(fmt::format(kReading, fmt::format("{} of the scratch file in engine.kv.scratch is not what was written to it (read "
                                                       "twice)", *damage)));
    }
  }
}

// Calls take(extent, offset in the pool) for each request's share of a part.
template <class Take>
void each_request(const Machine& machine, const KvCache& kv, std::uint32_t sequence, std::uint32_t first, std::uint32_t end,
                  std::uint32_t part, const BlocksInFile& file, Take&& take) {
  const Bytes most = std::max<Bytes>(machine.storage.caps().max_transfer / file.unit, 1);
  for (const KvPiece& piece : pieces_of(kv, sequence, first, end, part, file.unit)) {
    for (Bytes done = 0; done < piece.count; done += most) {
      const auto begin = static_cast<std::uint32_t>(piece.first + done);
      const auto count = static_cast<std::uint32_t>(std::min<Bytes>(most, piece.count - done));
      take(file.extent(part, begin, count), piece.memory + done * file.unit);
    }
  }
}

std::uint32_t blocks_for(const KvCache& kv, std::uint32_t length) {
  return (length + kv.shape().block_tokens - 1) / kv.shape().block_tokens;
}

}  // namespace

std::vector<KvPiece> pieces_of(const KvCache& kv, std::uint32_t sequence, std::uint32_t first, std::uint32_t end, std::uint32_t layer,
                               Bytes unit) {
  std::vector<KvPiece> found;
  for (std::uint32_t i = first; i < end; ++i) {
    const Bytes memory = kv.memory_offset(kv.blocks_of(sequence)[i], layer);
    if (!found.empty() && found.back().memory + found.back().count * unit == memory) {
      ++found.back().count;
    } else {
      found.push_back({i, 1, memory});
    }
  }
  return found;
}

std::uint32_t first_block_of(const KvCache& kv, std::uint32_t sequence) {
  const std::vector<std::uint32_t>& blocks = kv.blocks_of(sequence);
  return static_cast<std::uint32_t>(std::ranges::find_if(blocks, [](std::uint32_t b) { return b != KvCache::kGone; }) - blocks.begin());
}

Task<void> read_blocks(Machine* machine, Transformer* model, std::uint32_t sequence, std::uint32_t length, std::uint32_t first,
                       BlocksInFile from) {
  KvCache& kv = model->kv();
  KvFlash* const flash = model->kv_tier();
  VITRO_CHECK(flash == nullptr || from.parts == kv.shape().layers, "what spills comes layer by layer");
  std::vector<SeqPos> rows;
  for (std::uint32_t position = 0; position < length; ++position) rows.push_back({sequence, position});
  std::vector<KvCache::BlockCopy> copies;  // none: nothing is shared
  if (flash != nullptr) {
    co_await flash->begin_prompt(&rows, &copies);
  } else if (const Status status = kv.extend(sequence, length, copies); !status.ok()) {
    fail(status, fmt::format("KV cache of sequence {}", sequence));
  }
  std::exception_ptr error;
  try {
    for (std::uint32_t part = 0; part < from.parts; ++part) {
      if (flash != nullptr) co_await flash->writable(part, length);
      std::vector<ReadRequest> requests;
      each_request(*machine, kv, sequence, first, blocks_for(kv, length), part, from, [&](Extent extent, Bytes memory) {
        ReadRequest request;
        request.from = extent;
        request.into = kv.memory();
        request.into_offset = memory;
        request.pattern = Pattern::sequential;
        requests.push_back(std::move(request));
      });
      co_await read_all(machine, std::move(requests), from.sums);
      if (flash != nullptr) flash->computed(part, length);
    }
  } catch (...) {
    error = std::current_exception();
  }
  if (flash != nullptr) co_await flash->end_step(error != nullptr);
  if (error) std::rethrow_exception(error);
}

Task<void> write_blocks(Machine* machine, Transformer* model, std::uint32_t sequence, std::uint32_t first, BlocksInFile to) {
  KvCache& kv = model->kv();
  KvFlash* const flash = model->kv_tier();
  VITRO_CHECK(flash == nullptr || to.parts == kv.shape().layers, "what spills goes layer by layer");
  const std::vector<SeqPos> rows(1, SeqPos{sequence, kv.length(sequence)});
  std::exception_ptr error;
  try {
    if (flash != nullptr) co_await flash->begin_step(&rows);
    first = std::max(first, first_block_of(kv, sequence));  // a step gives up what has left the window
    for (std::uint32_t part = 0; part < to.parts; ++part) {
      if (flash != nullptr) co_await flash->landed(part);
      std::vector<WriteRequest> requests;
      each_request(*machine, kv, sequence, first, blocks_for(kv, kv.length(sequence)), part, to, [&](Extent extent, Bytes memory) {
        WriteRequest request;
        request.to = extent;
        request.from = kv.memory();
        request.from_offset = memory;
        if (to.sums != nullptr) to.sums->take(request);
        requests.push_back(std::move(request));
      });
      co_await write_all(machine, std::move(requests));
      if (flash != nullptr) flash->attended(part);
    }
  } catch (...) {
    error = std::current_exception();
  }
  if (flash != nullptr) co_await flash->end_step(error != nullptr);
  if (error) std::rethrow_exception(error);
}

}  // namespace vitro
