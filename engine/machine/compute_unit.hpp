// ComputeUnit: one hardware queue (one core, one NPU, one GPU). Splitting work over units is policy.
#pragma once
#include <coroutine>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/machine/completion.hpp"
#include "engine/machine/frame_pool.hpp"
#include "engine/machine/task.hpp"
#include "engine/ops/kernel_call.hpp"

namespace vitro {

enum class UnitId : std::uint16_t {};

// Calls that run in order on one unit, for the price of one dispatch. Small operators are cheap and dispatches are not:
// a wake-up costs microseconds on a real host.
using Chain = std::vector<KernelCall, PooledAllocator<KernelCall>>;

// What a unit is, whatever its name. A core runs anything, the engine's own code and drivers among it; the others are accelerators.
enum class UnitKind : std::uint8_t { core, npu, gpu };  // npu: neural accelerators of all makes

struct UnitCaps {
  UnitId id{};
  UnitKind kind = UnitKind::core;
  std::string name;                  // "cpu0" (fastest first), "npu": the name plans and traces use on both machines
  std::string core_class;            // "big", "mid", "little", "npu", ...: the key of a price table
  int os_cpu = -1;                   // host: the CPU that the worker is pinned to
  bool static_graphs = false;        // work has to be loaded as a graph before it runs
  Bytes session_limit = 0;           // bytes a unit can map; 0: no limit of its own
  Bytes graph_weights = 0;           // of one graph; the system runs a larger one on the CPU. 0: no limit
  std::uint32_t graph_count = 0;     // graphs that it holds at a time; the system runs others on the CPU. 0: no limit
  std::uint32_t shape_multiple = 1;  // sizes that suit it
  // Matrices in these formats are computed where they lie, if they lie in `maps`, and the unit makes itself copies of others; rows of a
  // matrix that lie in places of their own are computed only there, and in these formats.
  std::vector<Format> as_stored, in_places;
  Placement maps = Placement::dram;
};

struct Graph {
  std::uint32_t id = 0;
  Bytes size = 0;  // of the graph description itself, not of the weights
};

// A prepared chain with fixed shapes; views with slot > 0 are filled in at launch.
struct GraphSpec {
  std::string name;
  Chain calls;
  bool built = false;  // ahead of time, by a planner: load() only loads
  std::vector<std::uint32_t> keys;  // of its attention: the numbers that it is enumerated for, ascending; empty: there is one shape
};

struct Bindings {
  std::vector<View> views;
  Batch batch;  // null: the batch of the spec's calls
  // Rows that are chosen anew for each launch, for the calls that name rows, in chain order; as many as in the spec. Empty:
  // those of the spec.
  struct Choice {
    IndexList rows, row_offsets;
  };
  std::vector<Choice> choices;
  // For a graph that serves every layer: the layer of the first of the spec's calls that has one, the others keep their distance
  // to it, and the expert of all that have one. -1: as the spec says.
  std::int16_t layer = -1, expert = -1;
  std::uint32_t keys = 0;  // of its attention, one that the spec names; 0: as the calls say
};

struct LaunchRequest {
  Graph graph;
  Bindings bindings;
};

inline RunResult take(Completion<RunResult>& completion) {
  if (completion.result->error) std::rethrow_exception(std::move(completion.result->error));
  return std::move(*completion.result);
}

class ComputeUnit {
 public:
  virtual ~ComputeUnit() = default;
  virtual const UnitCaps& caps() const = 0;
  virtual Executor& executor() = 0;

  using Run = Operation<ComputeUnit, Chain, RunResult>;
  using Launch = Operation<ComputeUnit, LaunchRequest, RunResult>;

  // Queued behind earlier submissions to this unit. Requires: the chain is not empty.
  Run run(Chain chain) { return Run{*this, std::move(chain), {}}; }
  Run run(KernelCall call) {
    Chain chain;
    chain.push_back(std::move(call));
    return run(std::move(chain));
  }
  Launch launch(Graph graph, Bindings bindings) { return Launch{*this, {graph, std::move(bindings)}, {}}; }

  // Builds and loads. Code::over_budget when the unit's session can not map it, Code::unsupported_shape when it can not
  // run it. Every unit can load graphs; on units without static_graphs it is merely a prepared chain.
  virtual Task<Result<Graph>> load(GraphSpec spec) = 0;
  virtual void unload(Graph graph) = 0;  // Requires: no launch of it in flight

 protected:
  template <class, class, class>
  friend struct Operation;
  friend class UnitDecorator;
  // The chain and the completion live in the awaiting frame until complete() is called.
  virtual void submit(const Chain& chain, Completion<RunResult>& done) = 0;
  virtual void submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) = 0;

 private:
  void submit(const LaunchRequest& request, Completion<RunResult>& done) { submit(request.graph, request.bindings, done); }
};

// The chain that a launch runs: the spec's calls with slots and batch filled in. Shared by all implementations.
Chain bind(const GraphSpec& spec, const Bindings& bindings);

}  // namespace vitro
