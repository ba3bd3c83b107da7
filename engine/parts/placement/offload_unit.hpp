// A core that hands matrix products to an accelerator: the split by operator class, where the unit with the matrix engine
// takes what it is good at and everything else stays on the CPU (TTS-NPU 6).
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "engine/machine/machine.hpp"
#include "engine/machine/signal.hpp"
#include "engine/parts/placement/graph_cache.hpp"

namespace vitro {

// What goes to the accelerator, of the chains that a core is given.
enum class Offloaded : std::uint8_t {
  products,   // with layers' weights, and attention in the accelerator's own variant
  attention,  // all of an attention block but its norm and its sum: projections, rotation, keys and values, attention (NPUMoE 3.2)
};

// Of attention on an accelerator with static shapes.
struct KeyCounts {
  std::uint64_t pairs = 0;   // of a row and a key, that graphs computed
  std::uint64_t masked = 0;  // of these, keys that the row does not see: padding up to the graph's shape
};

// Carries out a chain part by part, in order: runs of dense products with layers' weights, and of attention in the accelerator's own
// variant, as one graph on the accelerator, the rest as chains on the core. The output matrix stays on the core (TTS-NPU 7.2.2), since it
// has no layer. Graphs are loaded when they first run or ahead of that, one per batch size; the weights have to stay where they are. What
// the accelerator refuses to load (a format that it lacks, a session that is full) runs on the core from then on, product by product.
// Where `keys` are given, a graph with attention is enumerated for so many keys, and is launched in the smallest shape that holds those
// that the step's rows see (NPUMoE 3.2: a graph's shape is static). A step that sees more keys than any shape has runs on the core.
// Lives on the policy thread, and dies when nothing is in flight.
class OffloadUnit final : public ComputeUnit {
 public:
  // keys: ascending; empty: graphs compute what rows see, and no more.
  OffloadUnit(Machine& machine, ComputeUnit& core, ComputeUnit& accelerator, Offloaded what = Offloaded::products,
              std::vector<std::uint32_t> keys = {});
  ~OffloadUnit() override;  // unloads its graphs

  // Loads the graphs of such a chain ahead of time. Operands that are bound at launch need shapes, not memory.
  Task<void> prepare(Chain chain);

  std::size_t graphs() const { return graphs_.size(); }  // that it has loaded on the accelerator
  const ComputeUnit& accelerator() const { return accelerator_; }
  const GraphLoads& loads() const { return loads_; }
  const KeyCounts& key_counts() const { return key_counts_; }

  const UnitCaps& caps() const override { return core_.caps(); }
  Executor& executor() override { return core_.executor(); }
  Task<Result<Graph>> load(GraphSpec spec) override { return core_.load(std::move(spec)); }
  void unload(Graph graph) override { core_.unload(graph); }

 protected:
  void submit(const Chain& chain, Completion<RunResult>& done) override;
  void submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) override;

 private:
  // Weights of a product, or the KV pool, and the number of activation rows: what a graph of fixed shapes is made for.
  struct Shape {
    OpKind op{};
    std::int16_t layer = -1, expert = -1;
    std::uint64_t weights = 0;
    Bytes offset = 0;
    std::uint32_t first = 0, count = 0, rows = 0;
    friend auto operator<=>(const Shape&, const Shape&) = default;
  };

  static Shape shape_of(const KernelCall& call);
  static std::vector<Shape> key_of(const Chain& part);
  bool takes(const KernelCall& call) const;
  std::size_t end_of_part(const Chain& chain, std::size_t begin) const;
  struct Coming;
  Task<bool> load_part(const Chain* part);  // false: refused
  Task<void> run(const Chain* chain, Completion<RunResult>* done);
  Task<void> run_part(Chain part, bool offload, RunResult* all);
  Task<void> run_offloaded(Chain part, RunResult* all);
  Task<void> run_enumerated(Chain part, std::size_t attention, RunResult* all);
  Task<void> launch_part(Chain part, std::uint32_t keys, RunResult* all);

  Machine& machine_;
  ComputeUnit& core_;
  ComputeUnit& accelerator_;
  const Offloaded what_;
  const std::vector<std::uint32_t> keys_;
  KeyCounts key_counts_;
  std::map<std::vector<Shape>, Graph> graphs_;
  std::set<std::vector<Shape>> coming_;  // on their way
  GraphLoads loads_;
  Signal loaded_;
  std::set<Shape> refused_;
  TaskScope scope_;
};

}  // namespace vitro
