// `engine.placement:` which unit takes which share of a step, by its rows.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/config.hpp"
#include "engine/base/registry.hpp"
#include "engine/base/stage_plan.hpp"
#include "engine/base/units.hpp"
#include "engine/base/worker_transport.hpp"
#include "engine/ops/variants.hpp"

namespace vitro {

// Of a graph's attention: whole chunks of keys; a chunk times powers of two; those that are listed; or what rows see, which no static graph
// can, to tell what its padding costs.
enum class KeyShapes : std::uint8_t { chunks, powers, listed, visible };

// When graphs of units with static shapes are loaded: as soon as a step of their size may be the next one; when they are first launched;
// or of decode steps those that are listed, and no others.
enum class GraphLoading : std::uint8_t { ahead, needed, listed };

// The graphs of decode steps of so many sequences.
struct StepGraphs {
  std::uint32_t batch = 1;
  bool from_start = false;  // before the first token; else as soon as the next step may have that size
  std::string name;         // for traces
};

struct GraphLoadConfig {
  GraphLoading loading = GraphLoading::ahead;
  std::vector<StepGraphs> listed;  // by ascending batch
};

struct PlacementConfig {
  // What the accelerator `unit` takes of a step with up to `batch` rows.
  struct Split {
    std::uint32_t batch = 1;
    double hot = 0;        // share of each FFN's neurons that it computes densely: the first ones of the file, the hottest
    double attention = 0;  // share of the heads, and of the rows of their projections
    double head = 0;       // share of the vocabulary
    double streamed = 0;   // of `hot`, the share of each FFN's neurons that is read for every step while the attention before it runs
    std::string streamed_at = {};  // file, line and key, for messages; empty: not given
    // In place of `hot`: one entry for each layer, of one share for all of its experts or one for each. Empty: all alike.
    std::vector<std::vector<double>> hot_by_layer = {};
    std::string by_layer_at = {};  // file, line and key, for messages
  };
  std::string kind = "cores";
  std::vector<std::string> units;        // names; empty: `threads` fastest cores, or `unit` where one unit does everything
  std::uint32_t threads = 0;             // 0: as many cores like the fastest as the model keeps busy (useful_threads)
  bool balanced = false;                 // of kind `cores`: work is cut by measured rates, not evenly (CoreBalance)
  std::string unit;                      // an accelerator beside the cores; empty: none
  std::vector<Split> splits;             // by ascending batch; a larger step has the last one's
  GraphLoadConfig graphs;                // of units with static shapes
  bool prefill = true;                   // whole prefills on `unit` (PowerInfer-2, section 4.1.1)
  std::vector<std::string> graph_units;  // that run graphs of experts and of a chunk's attention; empty: all of static graphs
  bool attention_on_unit = true;         // of a full chunk, on the first of graph_units, if it runs static graphs
  KeyShapes key_shapes = KeyShapes::visible;  // of that attention, on static graphs: the numbers of keys that a graph is enumerated for
  std::vector<std::uint32_t> keys;       // of KeyShapes::listed, ascending
  bool stages_kv = false;                // `kv: staged`: keys and values that an accelerator does not read are converted for it
  double outliers = 0;                   // of kind `prompts`: share of the accelerator's matmuls that cores compute beside it
  double head = 0;                       // of kind `layers`: share of the output matrix that the accelerator computes
  std::uint32_t sessions = 0;            // of an accelerator, each of which maps so much and no more; 0: as many as the model takes
  VariantId activations{};               // contract of layers' matmuls that an accelerator carries out; none: that of all
  std::uint32_t hvx_threads = 4;         // of `hexagon`: that share a step of a matmul on its matrix unit
  std::uint32_t stage_buffers = 2;       // of `hexagon`: between two stages of it
  hexagon::Spill spill{};                // of `hexagon`: where sums of look-ups wait for more of the depth
  WorkerTransport transport{};           // of `hexagon`: how its worker is reached
  Node options;                          // for the kind itself; null: none
};

// Whether a name in `units` is a core's: for what is decided while there are names alone, such as the layout of weights in a pack, which
// is made before the machine. All machines call their cores cpu0, cpu1, ... Who has a machine asks is_core(unit).
bool is_core_name(const std::string& name);
// "gpu", and where there are several of them "gpu0", "gpu1", ...
bool is_gpu_name(const std::string& name);

// What engine.placement.activations may say.
const std::vector<std::string>& activations_choices();

struct PlacementKind;
// Keys below `options:` are for the kind itself, such as one that a plug-in brings. Throws ConfigError.
PlacementConfig read_placement(Reader reader, const Registry<PlacementKind>& kinds);

}  // namespace vitro
