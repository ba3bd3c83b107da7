// SimUnit: the queue in front of one processor. Prices chains call by call and executes each call once, when it ends.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "engine/machine/compute_unit.hpp"
#include "engine/machine/function.hpp"
#include "engine/machine/trace.hpp"
#include "hw_models/piece.hpp"
#include "sim/core.hpp"
#include "sim/cpu_fallback.hpp"
#include "sim/accounting.hpp"
#include "sim/energy_causes.hpp"
#include "sim/executor.hpp"
#include "sim/operand_check.hpp"
#include "sim/power_meter.hpp"
#include "sim/reuse.hpp"
#include "sim/soc.hpp"
#include "sim/work.hpp"

namespace vitro::sim {

class SimUnit final : public ComputeUnit {
 public:
  struct Surroundings {
    SimExecutor& executor;
    Function& function;
    TraceSink& trace;
    Meter& meter;
    Accounting& accounting;
    PowerMeter* power;  // null: the device file has no power block
    EnergyCauses* causes;  // likewise
    const CountFunction& count;
    ReuseTracker* reuse;                                 // null: no processor prices what is read again
    const std::vector<std::unique_ptr<SimUnit>>& units;  // of the machine, this one among them; complete before the first call
    Core& policy_core;
    PolicyWakes wakes;
    bool check_operands = false;
    bool calls_together = false;  // of a chain, in pieces of work, where the models can
  };
  SimUnit(UnitCaps caps, Core& core, std::uint16_t device, const Surroundings& surroundings);

  const UnitCaps& caps() const override { return caps_; }
  Executor& executor() override { return s_.executor; }
  Task<Result<Graph>> load(GraphSpec spec) override;
  void unload(Graph graph) override;

  Core& core() { return core_; }
  const WorkBuilder& work() const { return work_; }
  std::vector<std::string> notes() const;       // what a result has to say of this unit: graphs that the CPU ran
  std::uint64_t runs() const { return runs_; }  // submitted so far
  std::uint64_t launches() const { return launches_; }

  // Takes the unit for something that is not a kernel (a page fault): `begin` runs when its turn comes, and the unit does
  // nothing else until release().
  void block(hw::Callback begin);
  void release();
  // A call in this unit's prices, and time of this unit for a share of a call whose effect belongs to another unit.
  const hw::Work& price(const KernelCall& call) { return work_.build(call); }  // valid until the next one
  void lend(const hw::Work& work, Cause cause, hw::Callback done);

  // For what repeats a phase (phase_repeater.hpp).
  bool idle() const { return jobs_.empty() && unseen_.empty(); }
  bool about_to_begin(std::coroutine_handle<> waiter) const;  // the only chain that it has
  const Chain& next_chain() const { return *jobs_.front().chain; }
  Picoseconds begins() const { return begins_; }  // as far as was known when it was submitted
  // What the next chain does to the engine's data, and its end. Requires: about_to_begin.
  void replay_call(std::size_t call);
  void replay_end();

 protected:
  void submit(const Chain& chain, Completion<RunResult>& done) override;
  void submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) override;

 private:
  struct Share {
    hw::Work work;
    Cause cause{};
    hw::Callback done;
  };
  struct Job {
    const Chain* chain = nullptr;  // in the awaiting frame, or bound below
    std::unique_ptr<Chain> bound;
    Completion<RunResult>* done = nullptr;
    hw::Callback block;            // without a chain
    std::unique_ptr<Share> share;  // likewise
    std::uint32_t graph = 0;       // of a launch
    bool on_cpu = false;           // a graph beyond the unit's limits
    Picoseconds from{0};
    std::vector<OperandSums> sums;  // per call, taken at submission
  };
  struct Loaded {
    GraphSpec spec;
    Bytes mapped = 0;
    bool on_cpu = false;
  };

  void enqueue(Job job);
  void start_next();
  void begin_job();
  void begin_call();
  void run_on_model(const hw::Work& work, hw::Callback done);
  void begin_on_model();
  void note_bytes(const hw::Work& work);  // that it moves
  const hw::Work& work_of(const KernelCall& call);  // that begins; valid until the next one does
  void execute(const KernelCall& call, Picoseconds begin, Picoseconds end);
  // Several calls of a chain as one piece.
  bool takes_pieces() const;
  void begin_piece();
  void end_piece();
  double stretched_by(Picoseconds took) const;  // a piece, by what else used memory; one that takes no time alone is not
  void note_piece();
  // Of what ends now, with a power model: what it moved and for how long it computed, which is the answer; and what its parts drew.
  Picoseconds note_end();
  void note_call(Cause cause);  // that ends: what it has moved, for how long it computed, and what it drew for which cause
  void end_call();
  void continue_chain();  // with its next call, if there is one and none has failed
  void end_job();
  Completion<RunResult>& finish_job();  // of whoever waits for it
  void answer(std::coroutine_handle<> waiter);
  bool give_answers();
  void reject(Completion<RunResult>& done, std::string why);
  void end_share();
  Status refusal(const GraphSpec& spec) const;             // why the unit can not run it at all
  std::string beyond_limits(const GraphSpec& spec) const;  // why the CPU has to; empty: it has not
  Bytes mapped_by(const GraphSpec& spec) const;

  UnitCaps caps_;
  Core& core_;
  std::uint16_t device_;
  Surroundings s_;
  WorkBuilder work_;
  hw::Work reusing_;  // of the last call, where what is read again has a price
  TrackId track_;
  std::deque<Job> jobs_;                         // front: in progress
  std::vector<std::coroutine_handle<>> unseen_;  // answers of other units, on the core where the policy computes
  bool working_ = false, begun_ = false;  // begun: the front job
  Picoseconds awake_until_{-1}, begins_{0};
  std::size_t call_ = 0;  // of the front job
  Picoseconds call_began_{0};
  Bytes written_ = 0, weights_ = 0, moved_ = 0;  // by that call: to DRAM, and from and to it weights and all else
  RunResult result_;
  hw::PieceModel* pieces_;  // null: calls are begun one by one
  std::map<std::uint32_t, Loaded> graphs_;
  std::uint32_t next_graph_ = 1, last_graph_ = 0;
  Bytes mapped_ = 0;
  CpuFallback fallback_;
  std::uint64_t fallbacks_ = 0;  // graphs that were loaded beyond a limit
  std::string first_fallback_;
  std::uint64_t runs_ = 0, launches_ = 0;
};

}  // namespace vitro::sim
