// TieredExperts: the experts of a mixture on units of static graphs and on cores at once (NPUMoE, sections 3 and 4). A chunk's rows are
// packed into slices of fixed capacity, one graph computes a group of them, and the cores compute cold experts meanwhile.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/machine/machine.hpp"
#include "engine/ops/product_contract.hpp"
#include "engine/parts/ffn/experts/cold_by_time.hpp"
#include "engine/parts/ffn/experts/expert_admission.hpp"
#include "engine/parts/ffn/experts/expert_drift.hpp"
#include "engine/parts/ffn/experts/expert_placement.hpp"
#include "engine/parts/ffn/experts/graph_residency.hpp"
#include "engine/parts/ffn/experts/graph_slots.hpp"
#include "engine/parts/ffn/experts/layer_loads.hpp"
#include "engine/parts/ffn/experts/load_monitor.hpp"
#include "engine/parts/ffn/ffn_block.hpp"
#include "engine/parts/ffn/moe_stats.hpp"
#include "engine/parts/placement/offload_unit.hpp"
#include "engine/parts/weights/phase_runner.hpp"

namespace vitro {

// What is known of the layers' loads before a run, and how placements follow from it.
struct ExpertLayers {
  ExpertLoads shares;            // as calibrated
  ChunkCounts counts;            // of the chunks that shares were seen in, if they are known
  TierRule tiers;
  std::shared_ptr<ExpertPlacer> placer;  // null: placements are as given
  std::shared_ptr<ExpertDrift> drift;  // between requests tiers follow the load; null: they stay
  std::vector<LayerLoad> loads;  // by layer, what follows from shares and tiers; empty: no expert goes to a graph
  GroupRule rule;
  // As many experts as cores finish meanwhile (cold_by_time.hpp), in place of what the rule says of cold experts and launches.
  bool cold_by_time = false;
  Bytes expert_bytes = 0;
  Bytes resident = 0;            // most bytes of weights in the graphs of one unit; 0: no limit but the unit's
  bool comes = false;            // graphs that a unit does not hold are loaded ahead of their layer; else the cores have their experts
  const OffloadUnit* attention = nullptr;  // whose graphs are on the first of the units; null: there are none
};

struct TieredOptions {
  std::vector<ComputeUnit*> cores;         // gather rows, and compute what is in no graph
  std::vector<ComputeUnit*> units;         // that run graphs; a core among them runs them as chains of the same fixed shapes
  std::vector<LayerPlacement> placements;  // by layer with experts; all that is by layer here counts from the first of them
  std::int16_t first_layer = 0;            // of the model, that has experts
  ExpertLayers layers;
  Ranking ranking = Ranking::router_weight;  // of what overflows
  Overflow overflow = Overflow::drop;
  // MoeConfig. Where weights do not stay, or lie as neurons, `graphs_of_launches` holds the graphs of one layer until it is computed.
  bool exact = false;
  std::shared_ptr<GraphCache> graphs_of_launches;
  bool side_by_side = true;
  std::uint32_t max_rows = 1;
  std::uint32_t graph_rows = 1;   // a step with fewer rows is the cores'
  Picoseconds host_per_token{0};  // MoeConfig
  AskedContracts asked;
  std::uint32_t decode_rows = 1;  // a step of more rows has the prompt's contract. Graphs have it, where there is one, and no other steps
  Activation activation{};
  Format activations = Format::f32;  // of whole matrices' inputs and results: or f16
  std::uint32_t width = 0, ffn = 0, experts_used = 0;
  // Of experts that lie as neurons: what computes them on `units` (null: no graphs) and on `cores`; both null: they are whole matrices.
  std::shared_ptr<FfnBlock> on_units, on_cores;
};

// Lives on the policy thread, and dies when nothing is in flight.
class TieredExperts final : public RoutedFfn {
 public:
  // Throws ConfigError when the budget has no room for its activations.
  TieredExperts(Machine& machine, GraphCache& graphs, const WeightStore& weights, Residency& residency, TieredOptions options);
  ~TieredExperts() override;  // unloads its graphs

  // Loads every graph, ahead of the first token: weights belong to a graph, so each layer's groups have their own ("each compute graph is
  // unique", section 2). Weights that come as they are needed are bound at launch instead, and their graphs are loaded then.
  // Throws RunError where a unit refuses, ConfigError where there is no room for what one item needs.
  Task<void> load() override;

  std::uint32_t pool_rows(std::uint32_t rows) const override;
  ExpertPlan admit(std::int16_t model_layer, const std::vector<ExpertChoice>& choices, const RowNorms& norms = {}) override;
  void prepare(std::int16_t model_layer, std::uint32_t rows, std::uint32_t sequences) override;
  Task<void> run(std::int16_t model_layer, RoutedStep step) override;

  Task<void> settle() override;
  Task<void> between_requests() override;
  Task<void> finish() override;
  std::vector<std::string> notes() const override;
  CacheStats stats() const override;
  const MoeStats* experts() const override;

 private:
  // Activations of the FFN, [rows, ffn] each.
  struct Scratch {
    Lease gate, up, hidden;
  };

  Scratch make_scratch(std::uint32_t rows);
  View wide(const Lease& lease, std::uint32_t first, std::uint32_t count) const;
  std::int16_t in_model(std::int16_t layer) const { return static_cast<std::int16_t>(layer + options_.first_layer); }
  std::uint32_t grain(Role role, std::int16_t layer) const;  // by which a matrix's outputs are cut
  KernelCall call(Op op, std::int16_t layer, std::uint16_t expert, Batch batch) const;
  // Of a product on a unit that runs graphs, and on a core.
  static constexpr ProductOf kInGraph{.prompt = true, .accelerator = true};
  ProductOf on_cores() const { return {.prompt = is_prompt_}; }
  KernelCall product(ProductOf by, Role role, std::int16_t layer, std::uint16_t expert, Batch batch, View x, View out, Slice slice) const;
  void append_gated(ProductOf by, Chain& chain, std::int16_t layer, std::uint16_t expert, const Batch& batch, const View& x,
                    const Scratch& scratch, std::uint32_t first, Slice slice) const;
  // rows: by expert of the group, those of its slice; empty: all have the group's capacity. An expert without rows is left out.
  GraphSpec spec_of(std::int16_t layer, const StaticGroup& group, const std::vector<std::uint32_t>& rows = {}) const;
  Chain gather(std::int16_t layer, const RoutedStep& step, std::uint32_t first, std::uint32_t count) const;
  Task<void> run_chain(ComputeUnit* unit, Chain chain);
  Task<void> run_group(std::int16_t layer, std::size_t group, const RoutedStep* step);
  Task<void> run_exact(std::int16_t layer, std::size_t group, const RoutedStep* step);
  void charge_host(std::size_t rows);
  Task<void> run_on_cores(std::int16_t layer, const RoutedStep* step);
  Task<void> pack_for_cores(std::int16_t layer, const RoutedStep* step);
  Task<void> on_all_cores(std::vector<Chain> chains);

  // Which graphs there are, and where (resident_graphs.cpp).
  void place_by_time(const ExpertPrices& prices);
  void place_by_rule();
  void fit_scratch();
  void keep_to_pool();
  std::optional<ExpertLoads> drifted_loads() const;
  void unload_graphs();
  Task<ExpertPrices> measure_prices();
  View measured_rows(std::uint32_t rows);  // in memory of their own
  Task<double> seconds_on_cores(std::uint32_t rows);
  Task<double> seconds_of_launch(const StaticGroup* group);
  std::uint32_t attention_graphs() const;
  UnitRoom with_spare(UnitRoom room) const;
  bool chooses() const;
  void keep_resident();
  std::vector<UnitRoom> unit_rooms() const;
  Task<void> keep_experts();
  Task<void> load_graphs();
  Task<Graph> graph_of(std::int16_t layer, std::size_t group);
  void expect_drops();
  void observe(std::int16_t layer, const std::vector<ExpertChoice>& choices);

  // Of weights that come as they are needed, or neuron by neuron (staged_experts.cpp).
  Task<void> pack_pool(std::int16_t layer, const RoutedStep* step);
  Task<void> run_by_neuron(std::int16_t layer, const RoutedStep* step, std::size_t groups);
  Task<void> run_staged(std::int16_t layer, const RoutedStep* step, std::size_t groups);
  Task<void> run_kept(std::int16_t layer, const RoutedStep* step, std::size_t groups);
  Task<void> run_coming(std::int16_t layer, const RoutedStep* step);
  Task<void> run_phase(UnitQueues queues);
  std::vector<ExpertPlan::Group> in_order_of_arrival(std::int16_t layer) const;
  Batch members(const ExpertPlan::Group& expert, const RoutedStep& step) const;
  WeightUse use(Role role, std::int16_t layer, std::uint16_t expert, Slice slice) const;
  std::uint32_t rows_of(const StaticGroup& group, std::uint16_t expert) const;
  WorkItem group_item(std::int16_t layer, const StaticGroup& group, const RoutedStep& step) const;
  void queue_gated(std::int16_t layer, const RoutedStep& step, UnitQueues& queues) const;
  void queue_down(std::int16_t layer, const RoutedStep& step, UnitQueues& queues) const;
  // What a core computes in one item.
  struct Piece {
    std::size_t core = 0;
    Slice outputs;
  };
  std::vector<Piece> pieces(std::uint32_t outputs, const std::vector<Role>& roles, std::int16_t layer) const;
  std::vector<WeightUse> uses(const StaticGroup& group, std::int16_t layer) const;
  std::vector<WeightUse> uses(const std::vector<Role>& roles, std::int16_t layer, std::uint16_t expert, Slice slice) const;
  void check_room() const;

  Machine& machine_;
  const WeightStore& weights_;
  Residency& residency_;
  PhaseRunner runner_;
  TieredOptions options_;
  std::vector<Scratch> unit_scratch_;  // by unit: its queue runs one graph at a time
  Scratch core_scratch_;
  std::vector<std::vector<std::optional<Graph>>> graphs_;  // by layer and group; none: it comes
  std::vector<std::unique_ptr<GraphSlots>> slots_;         // by unit, of the graphs that come; null: none do
  std::vector<std::uint32_t> spare_;                       // slots by unit; empty: no graph comes
  std::vector<std::pair<std::int16_t, std::size_t>> coming_;  // layer and group of each, in the order of use
  std::optional<LoadMonitor> monitor_;                     // none: no expert goes to a graph
  std::optional<ExpertPrices> prices_;                     // once they are measured
  std::uint32_t most_slices_ = 0;                          // rows of slices that a layer has room for
  std::uint32_t scratch_rows_ = 1;                         // of the largest unit_scratch_
  std::uint64_t overflowed_ = 0, in_graphs_pairs_ = 0;     // pairs of the request at hand, of steps that used graphs
  std::uint64_t past_loads_ = 0;                           // of graphs that came, before tiers last followed the load
  ResidentSet resident_;                                   // of which only the numbers are used after load()
  ExpertAdmission admitted_;                // of the layer at hand
  bool keeps_ = false;                      // experts in graphs stay, whatever becomes of the others
  bool in_graphs_ = false;                  // the step at hand uses them
  bool is_prompt_ = true;                   // the step at hand has more rows than decoding; so have those that prices are measured of
  mutable MoeStats stats_;  // graph_loads is summed up when somebody asks
};

}  // namespace vitro
