// LoraBank: the adapters of a run, beside one base in DRAM (MNN-LLM 5.5). All of them stay there, so a step may have a different one for
// each sequence, and a request that switches adapters reads nothing.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/graph/lora_pass.hpp"
#include "engine/machine/machine.hpp"
#include "engine/model/lora_adapter.hpp"
#include "engine/model/neuron_order.hpp"

namespace vitro {

struct LoraOptions {
  LoraOrder order = LoraOrder::a_bx;
  bool by_neuron = false;                // FFNs are computed neuron by neuron
  const NeuronOrder* neurons = nullptr;  // in which they lie then; null: as in the model
  // Of a layer's neurons as the model has them, what their rows of Down were multiplied with when they were packed; null: with nothing.
  // Down's A is multiplied alike. Asked while the adapters are loaded.
  std::function<const float*(int layer)> gains = {};
};

// Rows of a step that stand together and have one adapter.
struct AdapterRun {
  std::uint32_t adapter = 0;           // from 1 on, in the order of the bank
  std::uint32_t first = 0, count = 0;  // of the step's rows
  friend bool operator==(const AdapterRun&, const AdapterRun&) = default;
};
// adapters: of each row; 0: none, and no run.
std::vector<AdapterRun> adapter_runs(const std::vector<std::uint32_t>& adapters);
// The part of an operand [R, ...] that belongs to a run, its rows `width` elements wide (0: as they are).
View rows_of_run(View view, const AdapterRun& run, std::uint32_t width = 0);

// Lives on the policy thread.
class LoraBank {
 public:
  struct Pair {
    float scale = 1;
    // [rank, K], [N, rank]. By neuron Down's A is [K, rank], B of Gate and Up has the order of the neurons, and what adapts both as one
    // is a pair for each. For B A by neuron, Down's B is [rank, N], with the scale in it.
    View a, b;
  };

  // Leases room for all adapters. Throws ConfigError when the budget has none.
  LoraBank(Machine& machine, std::vector<LoraAdapter> adapters, const LoraOptions& options);

  // Reads every adapter. Throws RunError on a read error.
  Task<void> load();

  LoraOrder order() const { return options_.order; }
  // Null: that adapter leaves the matrix alone. Requires: 1 <= adapter <= number of adapters.
  const Pair* find(std::uint32_t adapter, Role role, int layer) const;
  // Of the largest adapter of a matrix; 0: none adapts it.
  std::uint32_t rank(Role role, int layer) const;
  std::uint32_t rank(Role role) const;  // over all layers
  // Room for B A of the matrix, f32 [N, K]; of Down by neuron [K, N]. Requires: the order is ab_x, and something adapts the matrix.
  View product(Role role, int layer) const;

 private:
  struct Loaded {
    LoraAdapter adapter;
    Lease memory;  // as the file has it, from the adapter's first byte on
    std::map<std::pair<Role, int>, Pair> pairs;
  };
  void place(Loaded& loaded);
  void lease_products();
  View laid_out(const Loaded& loaded, const Weight& matrix) const;
  bool is_transposed(const Weight& matrix, bool a) const;
  bool is_reordered(const Weight& matrix, bool a) const;
  View own_floats(const Weight& matrix, bool transposed);
  void rearrange(const Loaded& loaded, const Weight& matrix, bool a, float scale, const View& into) const;
  Lease lease(Bytes bytes, Region region, std::string_view what) const;

  Machine& machine_;
  LoraOptions options_;
  std::vector<Loaded> loaded_;
  std::map<Role, Lease> products_;
};

}  // namespace vitro
