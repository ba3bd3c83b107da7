#include "sim/storage.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace vitro::sim {
namespace {

enum Kind : std::uint16_t { kIssued = 200, kHandled };

// A file without a name: gone with its descriptor, whatever ends the process. Its blocks are reserved where the filesystem does that.
int anonymous_file(const std::string& folder, Bytes size) {
  std::string path = folder + "/vitro-scratch-XXXXXX";
  const int fd = ::mkstemp(path.data());
  if (fd < 0) return -1;
  ::unlink(path.c_str());
  if (::fallocate(fd, 0, 0, static_cast<off_t>(size)) == 0) return fd;
  if (errno == EOPNOTSUPP && ::ftruncate(fd, static_cast<off_t>(size)) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

// All of it, or the errno that stopped it.
template <class Transfer>
int transfer_all(Transfer transfer, std::byte* data, Bytes length, Bytes offset) {
  while (length > 0) {
    const ssize_t n = transfer(data, length, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    data += n;
    length -= static_cast<Bytes>(n);
    offset += static_cast<Bytes>(n);
  }
  return 0;
}

}  // namespace

SimStorage::SimStorage(hw::StorageModel& model, std::uint16_t device, bool phantom, const Surroundings& surroundings)
    : model_(model),
      device_(device),
      phantom_(phantom),
      s_(surroundings),
      track_(s_.trace.track("storage", "flash")),
      outstanding_track_(s_.trace.track("storage", "outstanding")),
      caps_{kPageSize, model.limits().max_transfer, model.limits().queue_depth, "model"} {}

SimStorage::~SimStorage() {
  for (const File& file : files_) {
    if (file.scratch >= 0) ::close(file.scratch);
  }
}

FileId SimStorage::add(File file) {
  file.address = next_address_;
  next_address_ += round_up(file.size, MiB);
  files_.push_back(std::move(file));
  return FileId(files_.size() - 1);
}

Result<FileId> SimStorage::open(std::string_view path) {
  File file;
  file.name = path;
  file.input.emplace(std::string(path));
  file.size = file.input->size();
  return add(std::move(file));
}

Result<FileId> SimStorage::open_phantom(Bytes size) {
  File file;
  file.name = "(phantom)";
  file.size = size;
  return add(std::move(file));
}

Result<FileId> SimStorage::create_scratch(Bytes size) {
  File file;
  const std::string folder = s_.scratch_folder.empty() ? std::filesystem::temp_directory_path().string() : s_.scratch_folder;
  file.name = "a scratch file in " + folder;
  file.size = size;
  if (!phantom_) {
    file.scratch = anonymous_file(folder, size);
    if (file.scratch < 0) {
      return Status{Code::no_space, fmt::format("{}: no scratch file of {}: {}", folder, format_bytes(size), std::strerror(errno))};
    }
  }
  return add(std::move(file));
}

void SimStorage::submit(const ReadRequest& request, Completion<IoResult>& done) { start(request, done); }

// One by one, each at the time when the policy's core is done with issuing those before; or together, where the device knows how.
void SimStorage::submit(VectorRead& read) {
  if (read.delivery() == Delivery::together && model_.most_together() > 0) return start_together(read);
  for (std::uint32_t i = 0; i < read.requests().size(); ++i) start(read.requests()[i], ResultSlot(read, i));
}

void SimStorage::submit(const WriteRequest& request, Completion<IoResult>& done) {
  VITRO_CHECK(request.from && request.from_offset + request.to.length <= request.from.size(), "a write beyond the end of its lease");
  Operation operation;
  operation.write = &request;
  operation.done = done;
  start(operation, request.to, request.issuer);
}

void SimStorage::start(const ReadRequest& request, ResultSlot done) {
  VITRO_CHECK(request.into && request.into_offset + request.from.length <= request.into.size(), "a read beyond the end of its lease");
  Operation operation;
  operation.read = &request;
  operation.done = done;
  operation.goes_on = request.page_fault == PageFault::goes_on;
  const bool takes_time = operation.goes_on ? s_.mapped_page_cycles > 0 : request.page_fault == PageFault::waits;
  if (takes_time) operation.blocked = s_.units.at(static_cast<std::size_t>(request.issuer)).get();
  start(operation, request.from, request.issuer);
}

std::optional<IoResult> SimStorage::refusal(const Extent& extent, bool write) const {
  VITRO_CHECK(static_cast<std::size_t>(extent.file) < files_.size(), "I/O on a file that was never opened");
  VITRO_CHECK(extent.length > 0 && extent.offset + extent.length > extent.offset, "I/O of nothing");
  const File& target = file(extent.file);
  if (extent.offset + extent.length > target.size) {
    return IoResult{{Code::short_read, fmt::format("{}: offset {} + {} is past the end at {}", target.name, extent.offset, extent.length,
                                                   target.size)},
                    0};
  }
  if (write && target.scratch < 0 && !phantom_) {
    return IoResult{{Code::io_error, fmt::format("{}: was opened for reading", target.name)}, 0};
  }
  return std::nullopt;
}

void SimStorage::start(Operation operation, const Extent& extent, UnitId issuer) {
  if (std::optional<IoResult> refused = refusal(extent, operation.write != nullptr)) return operation.done.complete(*std::move(refused));
  const File& target = file(extent.file);
  const Bytes first = round_down(extent.offset, kPageSize);
  operation.address = target.address + first;
  operation.length = round_up(extent.offset + extent.length, kPageSize) - first;
  operation.commands = static_cast<std::uint32_t>((operation.length + caps_.max_transfer - 1) / caps_.max_transfer);
  SimUnit& unit = *s_.units.at(static_cast<std::size_t>(issuer));
  const bool drives = unit.caps().kind == UnitKind::core;
  operation.core = drives ? &unit.core() : &s_.policy_core;
  operation.issuer = drives ? static_cast<std::uint16_t>(issuer) : kPolicyIssuer;
  (operation.write ? totals_.writes : totals_.reads) += 1;
  (operation.write ? totals_.bytes_written : totals_.bytes_read) += operation.length;

  const Picoseconds now = s_.executor.now();
  operation.submitted = now;
  s_.meter.storage_begins(now);
  if (s_.trace.enabled()) s_.trace.counter(outstanding_track_, now, s_.meter.storage_outstanding());

  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(operations_.size()));
    operations_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  operations_[index] = operation;
  if (operation.blocked == nullptr) return issue(index, now);
  operation.blocked->block([this, index] { fault(index); });
}

// The operating system's part of bringing pages through a mapping, in the thread that faults or reads ahead: until it is done nothing is
// asked of the device. The policy, where it shares the core, does not wait for it.
void SimStorage::fault(std::uint32_t index) {
  const Operation& operation = operations_[index];
  const Picoseconds now = s_.executor.device_now();
  const double cycles = s_.mapped_page_cycles * static_cast<double>(operation.length / kPageSize);
  if (cycles == 0) return issue(index, now);
  s_.meter.kernel_begins(operation.core->processor(), now);
  s_.executor.at(now + from_seconds(cycles / operation.core->model().clock().value), {device_, kHandled}, [this, index, now] {
    const Operation& faulted = operations_[index];
    const Picoseconds handled = s_.executor.device_now();
    s_.meter.kernel_ends(faulted.core->processor(), handled);
    if (s_.trace.enabled()) {
      s_.trace.span(s_.trace.track("units", faulted.blocked->caps().name), now, handled, "page_fault",
                    fmt::format("{} pages", faulted.length / kPageSize));
    }
    issue(index, handled);
    if (!faulted.goes_on) return;
    std::exchange(operations_[index].blocked, nullptr)->release();
  });
}

void SimStorage::issue(std::uint32_t index, Picoseconds from) {
  const Operation& operation = operations_[index];
  const Picoseconds cost = model_.issue_time(operation.core->model().clock());
  for (std::uint32_t command = 0; command < operation.commands; ++command) {
    const Picoseconds issued = operation.core->system_work(SystemWork::issue_io, from, cost);
    s_.executor.at(issued, {device_, kIssued}, [this, index, command] { enter(index, command); });
  }
  if (operation.core == &s_.policy_core) s_.executor.hold_policy_until(s_.policy_core.system_free());
}

void SimStorage::enter(std::uint32_t index, std::uint32_t command) {
  const Operation& operation = operations_[index];
  hw::IoRequest request;
  request.address = operation.address + command * caps_.max_transfer;
  request.length = std::min(caps_.max_transfer, operation.length - command * caps_.max_transfer);
  request.write = operation.write != nullptr;
  // The later commands of one request follow on its first.
  request.sequential = command > 0 || (operation.read != nullptr && operation.read->pattern == Pattern::sequential);
  request.issuer = operation.issuer;
  model_.submit(request, [this, index] { end_command(index); });
}

// One of the two.
IoResult SimStorage::move_bytes(const ReadRequest* read, const WriteRequest* write) {
  const Extent& extent = read != nullptr ? read->from : write->to;
  const File& target = file(extent.file);
  std::byte* memory = read != nullptr ? read->into.data() : write->from.data();
  if (memory == nullptr) return {{}, extent.length};
  memory += read != nullptr ? read->into_offset : write->from_offset;
  int error = 0;
  if (target.scratch >= 0 && write != nullptr) {
    error = transfer_all([&](std::byte* data, Bytes n, off_t at) { return ::pwrite(target.scratch, data, n, at); }, memory, extent.length,
                         extent.offset);
  } else if (target.scratch >= 0) {
    error = transfer_all([&](std::byte* data, Bytes n, off_t at) { return ::pread(target.scratch, data, n, at); }, memory, extent.length,
                         extent.offset);
  } else if (target.input) {
    try {
      target.input->read_at(extent.offset, {memory, extent.length});
    } catch (const RunError& lost) {
      return {{Code::io_error, lost.what()}, 0};
    }
  }
  if (error == 0) return {{}, extent.length};
  return {{error == ENOSPC ? Code::no_space : Code::io_error, fmt::format("{}: {}", target.name, std::strerror(error))}, 0};
}

void SimStorage::end_command(std::uint32_t index) {
  if (++operations_[index].finished < operations_[index].commands) return;
  const Operation operation = operations_[index];
  free_.push_back(index);
  const Picoseconds now = s_.executor.device_now();
  s_.meter.storage_ends(now);
  if (s_.power != nullptr && operation.write != nullptr) s_.power->flash_written(operation.length);
  if (s_.power != nullptr && operation.read != nullptr) s_.power->dram_written(operation.length);
  trace_end(operation.submitted, now, operation.read, operation.write);
  IoResult result = move_bytes(operation.read, operation.write);
  if (operation.blocked != nullptr) operation.blocked->release();
  operation.done.complete(std::move(result));
}

// One of the two.
void SimStorage::trace_end(Picoseconds submitted, Picoseconds now, const ReadRequest* read, const WriteRequest* write) {
  if (!s_.trace.enabled()) return;
  const Extent& extent = read != nullptr ? read->from : write->to;
  TracedRequest request{write != nullptr, extent.offset, extent.length};
  if (read != nullptr) request.into = &read->into, request.into_offset = read->into_offset;
  s_.trace.request(track_, submitted, now, request);
  s_.trace.counter(outstanding_track_, now, s_.meter.storage_outstanding());
}

}  // namespace vitro::sim
