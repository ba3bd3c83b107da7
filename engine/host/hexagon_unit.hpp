// A Hexagon NPU as a ComputeUnit of the host machine: loaded graphs run as requests to a worker behind a transport.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "engine/host/hexagon_operands.hpp"
#include "engine/host/hexagon_session.hpp"
#include "engine/host/host_executor.hpp"
#include "engine/machine/activity.hpp"
#include "engine/machine/compute_unit.hpp"
#include "engine/machine/function.hpp"
#include "engine/machine/trace.hpp"

namespace vitro {

struct HexagonOptions {
  HexagonTransportFactory transport;  // null: the machine has no Hexagon
  HexagonLimits limits;
  bool bit_serial = false;  // q4_0 by table look-up (T-MAN 4.3) in place of multiply-adds: the same bits, other kernels
};

// Takes graphs of matmuls in the int8 contract (q8_0, q4_0 and group formats) and in the hmx contract (q4_0): dense rows, no bias, weights
// named in the spec and unchanged from then on. load() answers unsupported_shape to any other, and a policy runs those elsewhere. Weights
// are packed into the session when their graph is loaded, once, and stay until the unit ends: over_budget when they do not fit. A worker
// that is lost twice is replaced by `function` on this unit's own thread: the same bits, and a note in the report. submit(), load() and
// unload() belong to the policy thread.
class HexagonUnit final : public ComputeUnit, public Device {
 public:
  HexagonUnit(UnitId id, std::size_t index, const HexagonOptions& options, HostExecutor& executor, Function& function, TraceSink& trace,
              Activity& activity);
  ~HexagonUnit() override;

  const UnitCaps& caps() const override { return caps_; }
  Executor& executor() override { return executor_; }
  Task<Result<Graph>> load(GraphSpec spec) override;
  void unload(Graph graph) override;
  bool busy() const override { return in_flight_.load(std::memory_order_acquire) > 0; }

  // When nothing is in flight.
  std::vector<std::string> notes();
  std::uint64_t operators() const { return operators_; }  // that the worker computed
  std::uint64_t requests() const { return requests_; }
  std::vector<PacketCount> packets() const { return session_.transport().packets(); }

 protected:
  void submit(const Chain& chain, Completion<RunResult>& done) override;
  void submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) override;

 private:
  struct Placed {
    std::uint32_t at = 0;  // in the session
    hexagon::ProductForm form;
  };
  struct PlacedInput {
    std::uint32_t first = 0, second = 0;
  };
  struct Loaded {
    GraphSpec spec;
    std::vector<Placed> weights;  // per call
  };
  struct Job {
    std::unique_ptr<Chain> chain;
    const Loaded* graph = nullptr;
    Completion<RunResult>* done = nullptr;
  };
  // Lease, offset, slice: what bytes a panel was made from, and for which operator.
  using WeightKey = std::tuple<std::uint64_t, Bytes, std::uint32_t, std::uint32_t, hexagon::Kind>;

  Result<Placed> place(const KernelCall& call);
  void work();
  void execute(Job job);
  void run(const Chain& chain, const Loaded& graph);
  std::size_t run_request(const Chain& chain, const Loaded& graph, std::size_t first);
  Result<PlacedInput> place_activations(const hexagon::ProductForm& form, const View& x);

  UnitCaps caps_;
  const std::size_t index_;
  const bool bit_serial_;
  HostExecutor& executor_;
  Function& function_;
  TraceSink& trace_;
  Activity& activity_;
  const TrackId track_;

  mutable HexagonSession session_;  // load() and the worker thread take turns: guarded by session_mutex_
  std::mutex session_mutex_;
  std::map<WeightKey, Placed> placed_;
  std::map<std::uint32_t, Loaded> graphs_;
  std::uint32_t next_graph_ = 0;
  std::uint64_t operators_ = 0, requests_ = 0, by_cpu_ = 0;
  std::string first_refusal_;

  std::atomic<int> in_flight_ = 0;
  std::mutex mutex_;
  std::condition_variable work_available_;
  std::deque<Job> queue_;  // guarded by mutex_
  bool stop_ = false;      // guarded by mutex_
  std::thread thread_;     // last: starts when everything above is ready
};

}  // namespace vitro
