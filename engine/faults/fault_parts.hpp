// Units, storage and memory that go wrong: the parts of a FaultyMachine.
#pragma once
#include "engine/faults/fault_state.hpp"
#include "engine/machine/detached.hpp"
#include "engine/machine/signal.hpp"
#include "engine/machine/storage_decorator.hpp"
#include "engine/machine/task.hpp"
#include "engine/machine/unit_decorator.hpp"

namespace vitro {

class FaultyUnit final : public UnitDecorator {
 public:
  FaultyUnit(ComputeUnit& inner, FaultState& state) : UnitDecorator(inner), state_(state) {}
  Task<Result<Graph>> load(GraphSpec spec) override;

 protected:
  void submit(const Chain& chain, Completion<RunResult>& done) override;
  void submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) override;

 private:
  // What becomes of a submission.
  struct Fate {
    Picoseconds delay{0};
    std::string failure;  // empty: it runs
    bool garbage = false;
  };
  Fate fate();
  Detached serve(Fate fate, Task<RunResult> inner, Completion<RunResult>* done);
  Task<RunResult> spoil(Fate fate, RunResult result);

  FaultState& state_;
  bool dead_ = false;
};

class FaultyFlash final : public StorageDecorator {
 public:
  FaultyFlash(Storage& inner, FaultState& state) : StorageDecorator(inner), state_(state), turn_(inner.executor()) {}

 protected:
  void submit(const ReadRequest& request, Completion<IoResult>& done) override;
  void submit(const WriteRequest& request, Completion<IoResult>& done) override;
  void submit(VectorRead& read) override;

 private:
  struct Fate {
    bool struck = false;
    Picoseconds delay{0};
    Status status;
    Bytes moved = 0;             // of a request that fails
    bool queued = false;         // it waits for the ones before it
    std::optional<Bytes> wrong;  // byte
  };
  Fate fate_of_read(Bytes length);
  Fate fate_of_write();
  Picoseconds stalled() const;
  Task<IoResult> read(ReadRequest request, Fate fate);
  Detached serve(ReadRequest request, Fate fate, ResultSlot done);
  Detached serve(WriteRequest request, Fate fate, Completion<IoResult>* done);
  Detached serve_all(std::vector<ReadRequest> requests, std::vector<std::uint32_t> index, VectorRead* read);

  FaultState& state_;
  Signal turn_;             // a read completed
  std::uint32_t busy_ = 0;  // reads behind this
  Picoseconds stalled_until_{0};
};

class FaultyMemory final : public Memory {
 public:
  FaultyMemory(Memory& inner, FaultState& state) : inner_(inner), state_(state) {}

  Result<Lease> lease(Bytes size, Placement where, Region region) override;
  Result<Lease> reserve(Bytes size, Placement where, Region region) override { return inner_.reserve(size, where, region); }
  Status commit(const Lease& range, Bytes offset, Bytes length) override;
  void decommit(const Lease& range, Bytes offset, Bytes length) override { inner_.decommit(range, offset, length); }
  // Under pressure the limit is lower, but never below what is in use.
  const Budget& budget(Placement where) const override;

 private:
  Status refusal(Bytes size, Placement where);

  Memory& inner_;
  FaultState& state_;
  Bytes pressure_ = 0;
  mutable std::array<Budget, kPlacements> shown_;
};

}  // namespace vitro
