// A GPU as a ComputeUnit of the host machine (MNN-LLM 5.1): it takes any chain, computes matmuls in W4A16 and W8A16 on the device, and all
// other operators on a thread of its own.
#pragma once
#include <map>
#include <optional>
#include <tuple>

#include "engine/host/gpu_device.hpp"
#include "engine/host/host_executor.hpp"
#include "engine/host/prepared_chains.hpp"
#include "engine/host/worker_thread.hpp"
#include "engine/machine/activity.hpp"
#include "engine/machine/compute_unit.hpp"
#include "engine/machine/function.hpp"
#include "engine/machine/trace.hpp"

namespace vitro {

struct GpuOptions {
  std::string name;   // of the unit
  GpuFactory device;  // null: the machine has no GPU
};

// On the device go dense matmuls of the contract variant::kA16 over weights that stay (Region::fixed) and have a form there
// (opencl::panel_form). Weights are copied to it when a matmul first needs them, once for each layout (Method::image, Method::buffer;
// automatic: images where the device has them). Neighbouring matmuls of a chain that do not feed each other are one request.
// A matrix that the device has no room or no form for is computed by `function`, with the same bits.
// A device that is lost ends the run with a RunError that names it: what it had not finished was written nowhere.
// submit(), load() and unload() belong to the policy thread.
class GpuUnit final : public ComputeUnit, public Device {
 public:
  // `index` is the unit's place in `activity`.
  GpuUnit(UnitId id, std::size_t index, const GpuOptions& options, HostExecutor& executor, Function& function, TraceSink& trace,
          Activity& activity);

  const UnitCaps& caps() const override { return caps_; }
  Executor& executor() override { return executor_; }
  Task<Result<Graph>> load(GraphSpec spec) override;
  void unload(Graph graph) override;
  bool busy() const override { return worker_.busy(); }

  // When nothing is in flight.
  std::vector<std::string> notes() const;
  std::uint64_t products() const { return products_; }  // that the device computed
  std::uint64_t requests() const { return requests_; }
  std::uint64_t launches() const { return device_->launches(); }

 protected:
  void submit(const Chain& chain, Completion<RunResult>& done) override;
  void submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) override;

 private:
  struct Job {
    const Chain* chain = nullptr;  // in the awaiting frame, or `bound`
    std::unique_ptr<Chain> bound;
    Completion<RunResult>* done = nullptr;
  };
  using WeightKey = std::tuple<std::uint64_t, Bytes, std::uint32_t, std::uint32_t, bool>;  // lease, offset, slice, in images

  void execute(Job job);
  void run(const Chain& chain, std::vector<Outcome>& outcomes);
  std::size_t run_request(const Chain& chain, std::size_t first);
  std::optional<GpuDevice::Weights> placed(const KernelCall& call);

  UnitCaps caps_;
  const std::size_t index_;
  const std::unique_ptr<GpuDevice> device_;
  HostExecutor& executor_;
  Function& function_;
  TraceSink& trace_;
  Activity& activity_;
  const TrackId track_;

  PreparedChains graphs_;
  // Of the worker thread.
  std::map<WeightKey, std::optional<GpuDevice::Weights>> placed_;  // none: refused
  std::string first_refusal_;
  std::uint64_t products_ = 0, requests_ = 0, elsewhere_ = 0;
  WorkerThread<Job> worker_;
};

}  // namespace vitro
