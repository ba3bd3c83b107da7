// SimStorage: the flash device's timing, then the real bytes, if there are any.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/file.hpp"
#include "engine/machine/storage.hpp"
#include "engine/machine/trace.hpp"
#include "hw_models/storage.hpp"
#include "sim/unit.hpp"

namespace vitro::sim {

class SimStorage final : public Storage {
 public:
  struct Surroundings {
    SimExecutor& executor;
    TraceSink& trace;
    Meter& meter;
    PowerMeter* power;  // null: the device file has no power block
    std::vector<std::unique_ptr<SimUnit>>& units;
    Core& policy_core;              // issues what an accelerator asks for
    double mapped_page_cycles = 0;  // of the core that faults, for each page
    std::string scratch_folder;     // empty: the system's folder for temporary files
  };
  SimStorage(hw::StorageModel& model, std::uint16_t device, bool phantom, const Surroundings& surroundings);
  ~SimStorage() override;

  const StorageCaps& caps() const override { return caps_; }
  const StorageTotals& totals() const override { return totals_; }
  Executor& executor() override { return s_.executor; }
  Result<FileId> open(std::string_view path) override;
  Result<FileId> open_phantom(Bytes size) override;
  Result<FileId> create_scratch(Bytes size) override;

 protected:
  void submit(const ReadRequest& request, Completion<IoResult>& done) override;
  void submit(const WriteRequest& request, Completion<IoResult>& done) override;
  void submit(VectorRead& read) override;

 private:
  // Issuer number of what an accelerator asks for: the policy's core drives the device for it.
  static constexpr std::uint16_t kPolicyIssuer = 0xffff;

  struct File {
    std::string name;
    std::optional<InputFile> input;
    int scratch = -1;  // descriptor of a file without a name
    Bytes size = 0;
    std::uint64_t address = 0;  // on the device
  };
  // A request in flight; the request itself and what takes its result live in the awaiting frame.
  struct Operation {
    const ReadRequest* read = nullptr;
    const WriteRequest* write = nullptr;
    ResultSlot done;
    SimUnit* blocked = nullptr;  // until the data is there, or, where it reads ahead, until the read is issued
    bool goes_on = false;
    Core* core = nullptr;
    std::uint16_t issuer = 0;
    std::uint64_t address = 0;
    Bytes length = 0;
    Picoseconds submitted{0};
    std::uint32_t commands = 0, issued = 0, finished = 0;
  };

  // Reads of one vector that are wanted together, from one issuer. Room that is used again.
  struct Group {
    VectorRead* read = nullptr;
    std::vector<std::uint32_t> members;  // of the vector
    std::vector<hw::TimedRead> commands;
    Core* core = nullptr;
    Bytes length = 0;  // of all commands
    Picoseconds submitted{0};
  };

  FileId add(File file);
  // Starts a request in `operation`, unless it can be told to fail at once.
  void start(const ReadRequest& request, ResultSlot done);
  void start(Operation operation, const Extent& extent, UnitId issuer);
  void fault(std::uint32_t index);
  // Why a request fails at once, if it does. Requires: it names a file that was opened, and some bytes.
  std::optional<IoResult> refusal(const Extent& extent, bool write) const;
  void start_together(VectorRead& read);
  std::uint32_t take_group(VectorRead& read, UnitId issuer);
  void issue_group(std::uint32_t number);
  void end_group(std::uint32_t number);
  void issue(std::uint32_t index, Picoseconds from);
  void enter(std::uint32_t index, std::uint32_t command);
  void end_command(std::uint32_t index);
  void trace_end(Picoseconds submitted, Picoseconds now, const ReadRequest* read, const WriteRequest* write);
  IoResult move_bytes(const ReadRequest* read, const WriteRequest* write);
  const File& file(FileId id) const { return files_[static_cast<std::size_t>(id)]; }

  hw::StorageModel& model_;
  std::uint16_t device_;
  bool phantom_;
  Surroundings s_;
  TrackId track_, outstanding_track_;
  StorageCaps caps_;
  StorageTotals totals_;
  std::vector<File> files_;
  std::uint64_t next_address_ = 0;
  std::vector<Operation> operations_;
  std::vector<std::uint32_t> free_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> free_groups_;
};

}  // namespace vitro::sim
