// Flash: files, extents, and reads that name their issuer and their pattern, because both cost.
#pragma once
#include <coroutine>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engine/machine/completion.hpp"
#include "engine/machine/compute_unit.hpp"
#include "engine/machine/memory.hpp"

namespace vitro {

enum class FileId : std::uint32_t {};

struct Extent {
  FileId file{};
  Bytes offset = 0, length = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

enum class Pattern : std::uint8_t { sequential, random };

struct ReadRequest {
  Extent from;             // need not be aligned; storage reads the aligned cover and counts what it really reads
  Lease into;
  Bytes into_offset = 0;
  UnitId issuer{};         // the core that issues the command: issuing costs its time
  Pattern pattern = Pattern::random;
  bool blocks_issuer = false;  // a page fault: the issuing core does nothing else until the data is there
};

struct WriteRequest {
  Extent to;
  Lease from;
  Bytes from_offset = 0;
  UnitId issuer{};
};

struct IoResult {
  Status status;
  Bytes done = 0;  // less than asked only with a status that is not ok
};

struct StorageCaps {
  Bytes alignment = kPageSize, max_transfer = 0;
  std::uint32_t queue_depth = 0;
  std::string path;  // "io_uring+O_DIRECT", "pread+O_DIRECT", "pread", "model": what runs, reported in the result
};

struct StorageTotals {
  std::uint64_t reads = 0, writes = 0;
  Bytes bytes_read = 0, bytes_written = 0;  // as moved by the device, alignment included
};

class Storage {
 public:
  virtual ~Storage() = default;
  virtual const StorageCaps& caps() const = 0;
  virtual const StorageTotals& totals() const = 0;
  virtual Executor& executor() = 0;

  virtual Result<FileId> open(std::string_view path) = 0;
  // A file of `size` bytes that never existed, for shape-only models. Sim only; host answers with a failure.
  virtual Result<FileId> open_phantom(Bytes size) = 0;
  // A scratch file of `size` bytes for writing (KV tier), removed when the machine goes.
  virtual Result<FileId> create_scratch(Bytes size) = 0;

  using Read = Operation<Storage, ReadRequest, IoResult>;
  using Write = Operation<Storage, WriteRequest, IoResult>;

  // Queued; host flushes the queue in one batch when its executor goes idle.
  Read read(ReadRequest request) { return Read{*this, std::move(request), {}}; }
  Write write(WriteRequest request) { return Write{*this, std::move(request), {}}; }

 protected:
  template <class, class, class>
  friend struct Operation;
  virtual void submit(const ReadRequest& request, Completion<IoResult>& done) = 0;
  virtual void submit(const WriteRequest& request, Completion<IoResult>& done) = 0;
};

}  // namespace vitro
