// Storage of the real machine: splits requests into page-aligned transfers and lets a backend move them.
#pragma once
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/aligned.hpp"
#include "engine/host/host_file.hpp"
#include "engine/host/io_backend.hpp"
#include "engine/machine/activity.hpp"
#include "engine/machine/storage.hpp"
#include "engine/machine/trace.hpp"

namespace vitro {

// Requests wait in a queue until the executor goes idle and then start in one batch; a vector read starts it at once. A transfer that is
// aligned in the file and in memory moves in place; any other goes through a bounce buffer that holds its aligned cover. A page fault
// needs nothing here: the policy that awaits such a read gives the core no other work meanwhile.
class HostStorage final : public Storage, public Device {
 public:
  HostStorage(HostExecutor& executor, std::unique_ptr<IoBackend> backend, bool direct, std::string scratch_folder, Activity& activity,
              TraceSink& trace);
  ~HostStorage() override;

  const StorageCaps& caps() const override { return caps_; }
  const StorageTotals& totals() const override { return totals_; }
  Executor& executor() override { return executor_; }
  Result<FileId> open(std::string_view path) override;
  Result<FileId> open_phantom(Bytes size) override;
  Result<FileId> create_scratch(Bytes size) override;
  const std::vector<std::string>& notes() const { return notes_; }

  bool busy() const override { return !operations_.empty(); }
  void flush() override;
  void reap() override;
  void arm() override { backend_->arm(); }
  void disarm() override { backend_->disarm(); }

 protected:
  void submit(const ReadRequest& request, Completion<IoResult>& done) override;
  void submit(const WriteRequest& request, Completion<IoResult>& done) override;
  void submit(VectorRead& read) override;

 private:
  struct Operation;
  // A transfer and the part of a request that it serves.
  struct Piece : Transfer {
    Operation* operation = nullptr;
    Bytes first = 0;            // file offset at which the transfer began, before any retry
    Bytes begin = 0, end = 0;   // file offsets that the request wants of this piece
    std::byte* user = nullptr;  // where `begin` goes; null in a phantom run
    std::optional<AlignedArray<std::byte>> bounce;
    int retries = 0;
  };
  struct Operation {
    const HostFile* file = nullptr;
    Extent extent;
    bool write = false;
    const Lease* into = nullptr;  // of a read, in the request, which lives until it is complete
    Bytes into_offset = 0;
    ResultSlot done;
    Picoseconds submitted{0};
    std::vector<Piece> pieces;
    std::size_t remaining = 0;
    Bytes failed_at = ~Bytes{0};  // file offset of the first byte that did not move
    Status status;
    std::list<Operation>::iterator self;
  };

  Result<FileId> adopt(Result<HostFile> file);
  void start(const ReadRequest& request, ResultSlot done, Picoseconds now);
  Operation& start(Extent extent, std::byte* memory, bool write, ResultSlot done, Picoseconds now);
  void trace_outstanding(Picoseconds now);
  void pump();
  void prepare(Piece& piece);
  void advance(Piece& piece);
  void fail(Piece& piece, Bytes at, Status status);
  void finish(Piece& piece);
  void finish(Operation& operation);

  HostExecutor& executor_;
  const std::unique_ptr<IoBackend> backend_;
  const bool direct_;
  const std::string scratch_folder_;
  Activity& activity_;
  TraceSink& trace_;
  const TrackId track_, outstanding_track_;

  StorageCaps caps_;
  StorageTotals totals_;
  std::vector<std::string> notes_;
  std::vector<std::unique_ptr<HostFile>> files_;
  std::list<Operation> operations_;
  std::deque<Piece*> pending_;
  std::uint32_t in_flight_ = 0;
  std::vector<AlignedArray<std::byte>> spare_;  // bounce buffers for the next transfers
  std::vector<Transfer*> finished_;
};

}  // namespace vitro
