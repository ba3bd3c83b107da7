// One CPU core as a ComputeUnit: a pinned worker thread that runs chains in the order of their submission. On the policy thread's own
// core the policy thread runs them itself, unless storage is busy.
#pragma once
#include <deque>

#include "engine/host/host_executor.hpp"
#include "engine/host/prepared_chains.hpp"
#include "engine/host/worker_thread.hpp"
#include "engine/machine/activity.hpp"
#include "engine/machine/compute_unit.hpp"
#include "engine/machine/function.hpp"
#include "engine/machine/trace.hpp"

namespace vitro {

// submit(), load(), unload() and carry_out() belong to the policy thread. An exception from the Function ends its chain and is
// rethrown where the chain is awaited. The destructor finishes what is queued.
class HostUnit final : public ComputeUnit, public Device {
 public:
  // `index` is the unit's place in `activity`. spin: how long the worker polls for the next chain before it sleeps. `storage`: null, or
  // of the unit on the policy thread's core. While it is busy the worker has the chains, since the policy thread has to take
  // completions and to start the reads that follow from them.
  HostUnit(UnitCaps caps, std::size_t index, Picoseconds spin, HostExecutor& executor, Function& function, TraceSink& trace,
           Activity& activity, const Device* storage = nullptr);

  const UnitCaps& caps() const override { return caps_; }
  Executor& executor() override { return executor_; }
  Task<Result<Graph>> load(GraphSpec spec) override;
  void unload(Graph graph) override;

  bool busy() const override { return worker_.busy() || !own_.empty(); }
  bool carry_out() override;
  bool pinned() const { return pinned_; }

 protected:
  void submit(const Chain& chain, Completion<RunResult>& done) override;
  void submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) override;

 private:
  struct Job {
    const Chain* chain = nullptr;  // in the awaiting frame, or `bound`
    std::unique_ptr<Chain> bound;
    Completion<RunResult>* done = nullptr;
    std::size_t call = 0;  // the next one
    RunResult result;
  };

  void submit(Job job);
  bool run_call(Job& job);
  void finish(Job job);

  const UnitCaps caps_;
  const std::size_t index_;
  HostExecutor& executor_;
  Function& function_;
  TraceSink& trace_;
  Activity& activity_;
  const TrackId track_;
  const Device* const storage_;
  PreparedChains graphs_;
  std::deque<Job> own_;  // of the policy thread, which runs them one call at a time
  bool pinned_ = false;
  WorkerThread<Job> worker_;
};

}  // namespace vitro
