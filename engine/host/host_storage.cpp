#include "engine/host/host_storage.hpp"

#include <fmt/format.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace vitro {
namespace {

constexpr Bytes kMaxTransfer = MiB;
constexpr Bytes kSmallBounce = 64 * KiB;                 // a cluster of neurons fits; larger covers take a buffer of kMaxTransfer
constexpr decltype(statfs::f_type) kTmpfs = 0x01021994;  // TMPFS_MAGIC of linux/magic.h
constexpr int kMaxRetries = 1000;                        // of one transfer, for EAGAIN and EINTR

bool page_aligned(const std::byte* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % kPageSize == 0; }

}  // namespace

HostStorage::HostStorage(HostExecutor& executor, std::unique_ptr<IoBackend> backend, bool direct, std::string scratch_folder,
                         Activity& activity, TraceSink& trace)
    : executor_(executor),
      backend_(std::move(backend)),
      direct_(direct),
      scratch_folder_(std::move(scratch_folder)),
      activity_(activity),
      trace_(trace),
      track_(trace.track("storage", "flash")),
      outstanding_track_(trace.track("storage", "outstanding")) {
  caps_ = {kPageSize, kMaxTransfer, backend_->queue_depth(), fmt::format("{}{}", backend_->name(), direct_ ? "+O_DIRECT" : "")};
}

HostStorage::~HostStorage() { VITRO_CHECK(operations_.empty(), "the storage went while an operation was in flight"); }

Result<FileId> HostStorage::adopt(Result<HostFile> file) {
  if (!file.ok()) return file.status();
  if (direct_ && !file.value().direct()) {
    caps_.path = backend_->name();
    notes_.push_back(fmt::format("{}: the filesystem refuses O_DIRECT, so this file goes through the page cache", file.value().path()));
  }
  files_.push_back(std::make_unique<HostFile>(std::move(file).value()));
  return FileId(files_.size() - 1);
}

Result<FileId> HostStorage::open(std::string_view path) { return adopt(HostFile::open(std::string(path), direct_)); }

Result<FileId> HostStorage::open_phantom(Bytes) {
  return Status{Code::io_error, "a model without weights has no file to read on machine: host (expected machine: sim, or a model.gguf)"};
}

Result<FileId> HostStorage::create_scratch(Bytes size) {
  struct statfs info{};
  if (::statfs(scratch_folder_.c_str(), &info) == 0 && info.f_type == kTmpfs) {
    notes_.push_back(fmt::format("{} is a tmpfs: the scratch file of {} there stays in memory (engine.kv.scratch names another folder)",
                                 scratch_folder_, format_bytes(size)));
  }
  return adopt(HostFile::scratch(scratch_folder_, size, direct_));
}

void HostStorage::submit(const ReadRequest& request, Completion<IoResult>& done) {
  const Picoseconds now = executor_.now();
  start(request, done, now);
  trace_outstanding(now);
}

// Whoever asks for many reads at once has no more to add to the batch: it need not wait for the executor to go idle.
void HostStorage::submit(VectorRead& read) {
  const Picoseconds now = executor_.now();
  for (std::uint32_t i = 0; i < read.requests().size(); ++i) start(read.requests()[i], ResultSlot(read, i), now);
  trace_outstanding(now);
  flush();
}

void HostStorage::submit(const WriteRequest& request, Completion<IoResult>& done) {
  std::byte* memory = request.from.data();
  VITRO_CHECK(request.from_offset + request.to.length <= request.from.size(), "a write beyond the end of its lease");
  const Picoseconds now = executor_.now();
  start(request.to, memory == nullptr ? nullptr : memory + request.from_offset, true, done, now);
  trace_outstanding(now);
}

void HostStorage::trace_outstanding(Picoseconds now) {
  if (trace_.enabled()) trace_.counter(outstanding_track_, now, activity_.storage_outstanding());
}

void HostStorage::start(const ReadRequest& request, ResultSlot done, Picoseconds now) {
  std::byte* memory = request.into.data();
  VITRO_CHECK(request.into_offset + request.from.length <= request.into.size(), "a read beyond the end of its lease");
  Operation& operation = start(request.from, memory == nullptr ? nullptr : memory + request.into_offset, false, done, now);
  operation.into = &request.into;
  operation.into_offset = request.into_offset;
}

HostStorage::Operation& HostStorage::start(Extent extent, std::byte* memory, bool write, ResultSlot done, Picoseconds now) {
  VITRO_CHECK(static_cast<std::size_t>(extent.file) < files_.size(), "I/O on a file that was never opened");
  VITRO_CHECK(extent.length > 0 && extent.offset + extent.length > extent.offset, "I/O of nothing");
  Operation& operation = operations_.emplace_back();
  operation.file = files_[static_cast<std::size_t>(extent.file)].get();
  operation.extent = extent;
  operation.write = write;
  operation.done = done;
  operation.submitted = now;
  operation.self = std::prev(operations_.end());
  activity_.storage_begin(now);

  const Bytes end = extent.offset + extent.length;
  for (Bytes at = round_down(extent.offset, kPageSize); at < end; at += kMaxTransfer) {
    Piece& piece = operation.pieces.emplace_back();
    piece.operation = &operation;
    piece.begin = std::max(at, extent.offset);
    piece.end = std::min(at + kMaxTransfer, end);
    piece.user = memory == nullptr ? nullptr : memory + (piece.begin - extent.offset);
  }
  operation.remaining = operation.pieces.size();
  (write ? totals_.writes : totals_.reads) += 1;
  (write ? totals_.bytes_written : totals_.bytes_read) += round_up(end, kPageSize) - round_down(extent.offset, kPageSize);
  for (Piece& piece : operation.pieces) pending_.push_back(&piece);
  return operation;
}

void HostStorage::flush() {
  pump();
  backend_->flush();
}

void HostStorage::pump() {
  while (!pending_.empty() && in_flight_ < backend_->queue_depth()) {
    Piece& piece = *pending_.front();
    pending_.pop_front();
    if (piece.operation->write && !piece.operation->file->writable()) {
      fail(piece, piece.begin,
           {Code::io_error, fmt::format("{}: can not be written (it was opened for reading)", piece.operation->file->path())});
      finish(piece);
      continue;
    }
    prepare(piece);
    ++in_flight_;
    backend_->submit(piece);
  }
}

void HostStorage::prepare(Piece& piece) {
  const HostFile& file = *piece.operation->file;
  const bool aligned = piece.begin % kPageSize == 0 && piece.end % kPageSize == 0 && page_aligned(piece.user);
  const bool in_place = piece.user != nullptr && (aligned || !file.direct() || piece.operation->write);
  Transfer& transfer = piece;
  transfer.fd = file.descriptor(aligned || !piece.operation->write);
  transfer.write = piece.operation->write;
  if (in_place) {
    piece.first = transfer.offset = piece.begin;
    transfer.buffer = piece.user;
    transfer.length = piece.end - piece.begin;
    return;
  }
  piece.first = transfer.offset = round_down(piece.begin, kPageSize);
  transfer.length = round_up(piece.end, kPageSize) - transfer.offset;
  const Bytes capacity = transfer.length <= kSmallBounce ? kSmallBounce : kMaxTransfer;
  const auto spare = std::find_if(spare_.begin(), spare_.end(), [capacity](const auto& buffer) { return buffer.size() == capacity; });
  if (spare != spare_.end()) {
    piece.bounce.emplace(std::move(*spare));
    spare_.erase(spare);
  } else {
    piece.bounce.emplace(capacity, kPageSize);
  }
  transfer.buffer = piece.bounce->data();
}

void HostStorage::reap() {
  if (in_flight_ == 0) return;
  finished_.clear();
  backend_->reap(finished_);
  if (finished_.empty()) return;
  for (Transfer* transfer : finished_) {
    --in_flight_;
    advance(static_cast<Piece&>(*transfer));
  }
  // Keep the device's queue full while policies work on what has arrived.
  if (!pending_.empty()) flush();
}

// Looks at what a transfer brought: done, failed, or worth another try for the rest.
void HostStorage::advance(Piece& piece) {
  Transfer& transfer = piece;
  const HostFile& file = *piece.operation->file;
  const char* verb = piece.operation->write ? "write" : "read";
  const std::int64_t result = transfer.result;
  const auto again = [&] {
    ++in_flight_;
    backend_->submit(transfer);
    backend_->flush();
  };
  if ((result == -EAGAIN || result == -EINTR) && ++piece.retries < kMaxRetries) return again();
  if (result < 0) {
    const int error = static_cast<int>(-result);
    const Code code = error == ENOSPC || error == EDQUOT ? Code::no_space : Code::io_error;
    fail(piece, std::max(transfer.offset, piece.begin),
         {code, fmt::format("{}: {} of {} bytes at offset {} failed: {}", file.path(), verb, piece.operation->extent.length,
                            piece.operation->extent.offset, std::strerror(error))});
    return finish(piece);
  }
  const Bytes reached = transfer.offset + static_cast<Bytes>(result);
  if (reached >= piece.end) return finish(piece);
  // A short transfer: go on behind it. Direct I/O has to go on at a page, so a last partial page is asked for again and
  // brings nothing new, which is how the end of the file shows.
  const Bytes next = file.direct() ? round_down(reached, kPageSize) : reached;
  if (next > transfer.offset) {
    transfer.buffer += next - transfer.offset;
    transfer.length -= next - transfer.offset;
    transfer.offset = next;
    return again();
  }
  fail(piece, std::clamp(reached, piece.begin, piece.end),
       {piece.operation->write ? Code::io_error : Code::short_read,
        fmt::format("{}: the file ends at offset {}, but a {} of {} bytes at offset {} was requested", file.path(), file.size_now(), verb,
                    piece.operation->extent.length, piece.operation->extent.offset)});
  finish(piece);
}

void HostStorage::fail(Piece& piece, Bytes at, Status status) {
  Operation& operation = *piece.operation;
  if (at >= operation.failed_at) return;
  operation.failed_at = at;
  operation.status = std::move(status);
}

void HostStorage::finish(Piece& piece) {
  Operation& operation = *piece.operation;
  if (piece.bounce) {
    if (piece.user != nullptr) {
      const Bytes end = std::min(piece.end, std::max(piece.begin, operation.failed_at));
      std::memcpy(piece.user, piece.bounce->data() + (piece.begin - piece.first), end - piece.begin);
    }
    spare_.push_back(std::move(*piece.bounce));
    piece.bounce.reset();
  }
  if (--operation.remaining == 0) finish(operation);
}

void HostStorage::finish(Operation& operation) {
  const Picoseconds now = executor_.now();
  activity_.storage_end(now);
  if (trace_.enabled()) {
    trace_.request(track_, operation.submitted, now,
                   {operation.write, operation.extent.offset, operation.extent.length, operation.into, operation.into_offset});
  }
  trace_outstanding(now);
  const Bytes end = operation.extent.offset + operation.extent.length;
  const Bytes moved = std::clamp(operation.failed_at, operation.extent.offset, end) - operation.extent.offset;
  const ResultSlot done = operation.done;
  IoResult result{std::move(operation.status), moved};
  operations_.erase(operation.self);
  done.complete(std::move(result));
}

}  // namespace vitro
