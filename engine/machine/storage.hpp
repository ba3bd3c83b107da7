// Flash: files, extents, and reads that name their issuer and their pattern, because both cost.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/machine/completion.hpp"
#include "engine/machine/io_request.hpp"
#include "engine/machine/memory.hpp"
#include "engine/machine/vector_read.hpp"

namespace vitro {

struct StorageCaps {
  Bytes alignment = kPageSize, max_transfer = 0;
  std::uint32_t queue_depth = 0;
  std::string path;  // "io_uring+O_DIRECT", "pread+O_DIRECT", "pread", "model": what runs, reported in the result
};

struct StorageTotals {
  std::uint64_t reads = 0, writes = 0;      // requests: each of a vector counts
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
  // Submits all of them at once, and on host whatever is queued before them: one system call, as far as the queue depth reaches.
  // No requests: nothing is submitted. vector_read.hpp has the rules.
  VectorRead read_many(std::vector<ReadRequest> requests, Delivery delivery = Delivery::as_they_come) {
    return VectorRead(*this, std::move(requests), delivery);
  }

 protected:
  template <class, class, class>
  friend struct Operation;
  friend class VectorRead;
  friend class StorageDecorator;
  // The request and the completion live in the awaiting frame until complete() is called; so does a vector until its last complete().
  virtual void submit(const ReadRequest& request, Completion<IoResult>& done) = 0;
  virtual void submit(const WriteRequest& request, Completion<IoResult>& done) = 0;
  virtual void submit(VectorRead& read) = 0;
};

}  // namespace vitro
