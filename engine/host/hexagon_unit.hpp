// A Hexagon NPU as a ComputeUnit of the host machine: loaded graphs run as requests to a worker behind a transport.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "engine/host/hexagon_attention.hpp"
#include "engine/host/hexagon_operands.hpp"
#include "engine/host/hexagon_sessions.hpp"
#include "engine/host/hexagon_stages.hpp"
#include "engine/host/hexagon_weights.hpp"
#include "engine/host/host_executor.hpp"
#include "engine/host/worker_thread.hpp"
#include "engine/machine/activity.hpp"
#include "engine/machine/compute_unit.hpp"
#include "engine/machine/function.hpp"
#include "engine/machine/trace.hpp"

namespace vitro {

struct HexagonOptions {
  HexagonTransportFactory transport;  // null: the machine has no Hexagon
  HexagonLimits limits;
  std::uint32_t sessions = 4;                   // at most: another one opens when weights do not fit into those that are there (TTS-NPU 8)
  hexagon::StageOptions stages;                 // of products on the matrix unit
  hexagon::Spill spill = hexagon::Spill::tcm;   // of products by look-up
  CodeMatmul products = CodeMatmul::automatic;  // by look-up (T-MAN 4.3) or multiply-adds: the same bits, other kernels
};

// Computes matmuls in the int8 contract (q8_0, q4_0 and group formats), with tables of int8 (what has planes), in the hmx contract (all
// formats) and in int8_rows (rows of weights with one scale), dense rows, no bias; and attention in fp16 (lut_exp, exp_f16, exp_f32). Of
// graphs there are two kinds.
// - Weights named in the spec: they stay unchanged from then on, and are placed at load(), once (HexagonWeights): shared where they lie in
//   npu_mapped memory as the worker reads them, else packed into a session. Any call that the worker does not compute is answered by
//   unsupported_shape, and a policy runs it elsewhere; over_budget when no session has room. Throws ConfigError when the budget has none.
// - Weights bound at launch: the graph is taken whole. Products whose weights lie in Region::fixed, which nobody writes twice, are placed
//   when they first run. Products and sums over rows in places, neurons in a cache, read them where they lie in npu_mapped memory, in the
//   formats of rows_form(). All other calls are computed on this unit's own thread by `function`, one by one.
// Copies stay until the unit ends. A worker that is lost twice is replaced by `function`, too: the same bits, and a note in the report.
// submit(), load() and unload() belong to the policy thread; none of them waits for a request.
class HexagonUnit final : public ComputeUnit, public Device {
 public:
  // memory: what copies of weights are charged to; its npu_mapped leases are to come from pages().
  HexagonUnit(UnitId id, std::size_t index, const HexagonOptions& options, HostExecutor& executor, Function& function, TraceSink& trace,
              Activity& activity, Memory& memory);

  const UnitCaps& caps() const override { return caps_; }
  Executor& executor() override { return executor_; }
  Task<Result<Graph>> load(GraphSpec spec) override;
  void unload(Graph graph) override;
  bool busy() const override { return worker_.busy(); }

  // Memory that the workers read where it lies.
  std::shared_ptr<SharedPages> pages() const { return sessions_; }

  // When nothing is in flight.
  std::vector<std::string> notes();
  std::uint64_t operators() const { return operators_ + attention_->operators(); }  // that the worker computed
  std::uint64_t requests() const { return requests_ + attention_->requests(); }
  std::vector<PacketCount> packets() const;  // of all sessions
  Bytes spilled(hexagon::Spill place) const;  // sums of look-ups that waited there, stored and loaded once each
  const HexagonWeights& weights() const { return weights_; }
  const hexagon::StageOverlap& stage_overlap() const { return overlap_; }  // of all products in stages that the logs have

 protected:
  void submit(const Chain& chain, Completion<RunResult>& done) override;
  void submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) override;

 private:
  using Placed = HexagonWeights::Placed;
  struct PlacedInput {
    std::uint32_t first = 0, second = 0;
  };
  // Activations of a request, by place, shape and encoding.
  using Inputs = std::map<std::tuple<const std::byte*, std::uint32_t, std::uint32_t, std::uint32_t>, PlacedInput>;
  struct Loaded {
    GraphSpec spec;
    std::vector<std::optional<Placed>> weights;  // per call; none: bound at launch
  };
  struct Job {
    std::unique_ptr<Chain> chain;
    const Loaded* graph = nullptr;
    Completion<RunResult>* done = nullptr;
  };
  std::optional<Placed> placed_at_launch(const KernelCall& call);
  void execute(Job job);
  void run(const Chain& chain, const Loaded& graph, std::vector<Outcome>& outcomes);
  std::size_t run_request(const Chain& chain, const std::vector<std::optional<Placed>>& weights, std::size_t first);
  std::optional<hexagon::Operator> make_operator(HexagonSession& session, const KernelCall& call, const Placed& weights, Inputs& inputs);
  Result<PlacedInput> place_activations(HexagonSession& session, const hexagon::MatmulForm& form, const View& x);

  UnitCaps caps_;
  const std::size_t index_;
  const HexagonOptions options_;
  HostExecutor& executor_;
  Function& function_;
  TraceSink& trace_;
  Activity& activity_;
  const TrackId track_;

  // Weights are placed and packed beside a request that runs: load() waits for no launch.
  const std::shared_ptr<HexagonSessions> sessions_;  // leases of its memory keep it
  HexagonWeights weights_;
  mutable std::mutex running_;                    // guards requests of sessions
  std::optional<hexagon::Attention> attention_;  // in the first of them
  std::map<std::uint32_t, Loaded> graphs_;
  std::uint32_t next_graph_ = 0;
  std::uint64_t operators_ = 0, requests_ = 0, lost_ = 0, lacking_ = 0;
  hexagon::StageOverlap overlap_;
  std::string first_refusal_, first_rows_;  // why a graph was refused, and why rows in places are the CPU's

  WorkerThread<Job> worker_;
};

}  // namespace vitro
