#include "engine/parts/placement/placement_kinds.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vitro {
namespace {

// Cores that share evenly, with or without an accelerator that takes its share by the rows of a step.
class SharedPlacement : public UnitPlacement {
 public:
  const std::vector<ComputeUnit*>& units() const override { return units_; }
  Shares shares(BlockKind kind, std::uint32_t rows, bool attends) const override {
    return balanced(accelerator_.shares(units_.size(), kind, rows, attends), kind, rows);
  }
  Shares shares_of(const Phase& phase, std::uint32_t rows) const override {
    const Accelerator::Split* const split = split_by_layer(phase.block, phase.layer, rows);
    if (split == nullptr) return shares(phase.block, rows, phase.attends);
    return balanced(Accelerator::with_own(units_.size(), split->ffn_of(phase.layer)), phase.block, rows);
  }
  std::optional<Shares> shares_of_expert(std::int16_t layer, std::uint32_t expert, std::uint32_t rows) const override {
    const Accelerator::Split* const split = split_by_layer(BlockKind::ffn, layer, rows);
    if (split == nullptr || split->by_layer[static_cast<std::size_t>(layer)].size() == 1) return std::nullopt;
    const double own = split->by_layer[static_cast<std::size_t>(layer)].at(expert);
    return balanced(Accelerator::with_own(units_.size(), own), BlockKind::ffn, rows);
  }
  CoreBalance* balance() override { return balance_ ? &*balance_ : nullptr; }
  std::vector<std::uint32_t> row_limits() const override {
    std::vector<std::uint32_t> limits;
    for (const Accelerator::Split& split : accelerator_.splits) limits.push_back(split.rows);
    return limits;
  }
  const std::vector<ComputeUnit*>& cores() const override { return cores_; }
  ComputeUnit* accelerator() const override { return hot_; }
  bool is_accelerator(const ComputeUnit& unit) const override { return &unit == hot_ || (mapped_ && mapped_->unit == &unit); }
  const std::vector<PlacementConfig::Split>& splits() const override { return splits_; }
  bool prefill_on_accelerator() const override { return prefill_; }
  const std::vector<ComputeUnit*>& graph_units() const override { return graph_units_; }
  AttentionGraphs attention_graphs() const override { return attention_graphs_; }
  std::optional<MappedOperands> mapped() const override { return mapped_; }
  bool stages_kv() const override { return stages_kv_; }

 protected:
  explicit SharedPlacement(const PlacementSetup& setup) : cores_(select_units(setup.machine, setup.config)), units_(cores_) {}

  // Takes the accelerators out of the units and returns them.
  std::vector<ComputeUnit*> part_units() {
    const auto first = std::stable_partition(cores_.begin(), cores_.end(), [](const auto* unit) { return !unit->caps().static_graphs; });
    std::vector<ComputeUnit*> accelerators(first, cores_.end());
    cores_.erase(first, cores_.end());
    units_ = cores_;
    return accelerators;
  }
  // Each core hands its share of the matmuls over. With more cores than accelerators some share one, and the other way round.
  void offload_to(Machine& machine, const std::vector<ComputeUnit*>& accelerators) {
    units_.clear();
    for (std::size_t i = 0; i < std::max(cores_.size(), accelerators.size()); ++i) {
      ComputeUnit &core = *cores_[i % cores_.size()], &accelerator = *accelerators[i % accelerators.size()];
      offloads_.push_back(std::make_unique<OffloadUnit>(machine, core, accelerator));
      units_.push_back(offloads_.back().get());
    }
  }
  // Where only accelerators are named, the machine's first core, but for `other`, is the one beside them.
  void need_a_core(const PlacementSetup& setup, const ComputeUnit* other = nullptr) {
    if (!cores_.empty()) return;
    const auto& units = setup.machine.units;
    const auto first = std::ranges::find_if(units, [&](const auto* unit) { return is_core(*unit) && unit != other; });
    if (first == units.end()) throw ConfigError(lacks(setup, "a core beside its accelerator", "such as cpu0"));
    cores_ = units_ = {*first};
  }
  static std::string lacks(const PlacementSetup& setup, std::string_view what, std::string_view such) {
    std::vector<std::string> names;
    for (const ComputeUnit* unit : setup.machine.units) names.push_back(unit->caps().name);
    return fmt::format(
        "engine.placement.kind: {} needs {}, and engine.placement.units names none (the machine of this run has {}; expected one more, {})",
        setup.config.kind, what, fmt::join(names, ", "), such);
  }
  void take_accelerator(ComputeUnit* unit, std::vector<Accelerator::Split> splits) {
    accelerator_ = {unit, std::move(splits)};
    units_.push_back(unit);
  }
  // Where the accelerator can not read keys and values as they are kept, they are staged for it, or the heads stay with the cores.
  void place_heads(const PlacementSetup& setup) {
    if (setup.accelerator_reads_kv()) return;
    stages_kv_ = setup.config.stages_kv;
    if (stages_kv_) return;
    for (Accelerator::Split& split : accelerator_.splits) split.heads = 0;
  }

  // Faster cores have more of what the cores have together.
  Shares balanced(Shares shares, BlockKind kind, std::uint32_t rows) const {
    if (!balance_) return shares;
    const Shares& rates = balance_->shares(kind, rows);
    for (std::size_t core = 0; core < rates.size(); ++core) shares[core] *= rates[core];
    return shares;
  }

  // That of a layer with a share of its own for the FFN; null: it has the one that all layers have.
  const Accelerator::Split* split_by_layer(BlockKind kind, std::int16_t layer, std::uint32_t rows) const {
    if (accelerator_.unit == nullptr || kind != BlockKind::ffn || layer < 0) return nullptr;
    const Accelerator::Split& split = accelerator_.split(rows);
    return static_cast<std::size_t>(layer) < split.by_layer.size() ? &split : nullptr;
  }

  std::vector<ComputeUnit*> cores_, units_, graph_units_;
  Accelerator accelerator_;
  std::optional<CoreBalance> balance_;
  ComputeUnit* hot_ = nullptr;
  std::vector<PlacementConfig::Split> splits_;
  bool prefill_ = false, stages_kv_ = false;
  AttentionGraphs attention_graphs_;
  std::optional<MappedOperands> mapped_;
  std::vector<std::unique_ptr<OffloadUnit>> offloads_;
};

// The units that run graphs: those that are named, or all of static graphs.
std::vector<ComputeUnit*> graph_units(const PlacementSetup& setup) {
  std::vector<ComputeUnit*> units;
  for (const std::string& name : setup.config.graph_units) units.push_back(unit_named(setup.machine, name, "engine.placement.graph_units"));
  if (!units.empty()) return units;
  std::ranges::copy_if(setup.machine.units, std::back_inserter(units), [](const auto* unit) { return unit->caps().static_graphs; });
  return units;
}

// `cores`. Without splits accelerators among the units take the matmuls of the cores beside them.
class Cores final : public SharedPlacement {
 public:
  explicit Cores(const PlacementSetup& setup) : SharedPlacement(setup) {
    const PlacementConfig& config = setup.config;
    const std::vector<ComputeUnit*> accelerators = part_units();
    if (!accelerators.empty()) {
      need_a_core(setup);
      offload_to(setup.machine, accelerators);
    } else if (config.balanced && cores_.size() > 1) {
      balance_.emplace(cores_.size(), setup.decode_rows);
    }
    graph_units_ = vitro::graph_units(setup);
    if (config.unit.empty()) return;
    hot_ = unit_named(setup.machine, config.unit, "engine.placement.unit");
    splits_ = config.splits;
    prefill_ = config.prefill;
    std::vector<Accelerator::Split> splits;
    for (const PlacementConfig::Split& split : splits_) {
      splits.push_back({split.batch, split.attention, split.hot, split.head, {}, split.hot_by_layer});
      std::vector<std::vector<double>>& by_layer = splits.back().by_layer;
      by_layer.resize(std::min<std::size_t>(by_layer.size(), setup.whole_ffns));
    }
    if (prefill_) {  // all steps of more rows than decoding has
      splits.back().rows = std::max(splits.back().rows, setup.sequences);
      splits.push_back({~0u, 1, 1, splits_.back().head});
    }
    take_accelerator(hot_, std::move(splits));
    place_heads(setup);
  }
};

// `unit`: one unit has everything.
class OneUnit final : public SharedPlacement {
 public:
  explicit OneUnit(const PlacementSetup& setup) : SharedPlacement(setup) {
    if (setup.config.units.size() != 1) {
      throw ConfigError(fmt::format("engine.units: {} units are named, but engine.placement.kind: unit computes on one (expected one name)",
                                    units_.size()));
    }
    graph_units_ = vitro::graph_units(setup);
    mapped_ = MappedOperands{units_.front(), true, 1, false};
  }
};

// `matmuls`: cores share each phase, and the accelerator `unit` takes the layers' matmuls of all of them.
class MatmulsOnAccelerator final : public SharedPlacement {
 public:
  explicit MatmulsOnAccelerator(const PlacementSetup& setup) : SharedPlacement(setup) {
    ComputeUnit* const accelerator = unit_named(setup.machine, setup.config.unit, "engine.placement.unit");
    std::erase(cores_, accelerator);
    need_a_core(setup, accelerator);
    offload_to(setup.machine, {accelerator});
    graph_units_ = vitro::graph_units(setup);
  }
};

// Cores and an accelerator, which takes the layers, or the matmuls of prompts. It is the one that `unit` names, which may be a core that
// stands in for it, or the first unit of static graphs among the units, or else of the machine. To any others the cores hand their share
// of the matmuls.
class BesideAccelerator : public SharedPlacement {
 protected:
  BesideAccelerator(const PlacementSetup& setup, std::vector<Accelerator::Split> splits) : SharedPlacement(setup) {
    std::vector<ComputeUnit*> accelerators = part_units();
    ComputeUnit* const taken = accelerator_of(setup, accelerators);
    std::erase(accelerators, taken);
    std::erase(cores_, taken);
    units_ = cores_;
    need_a_core(setup, taken);
    if (!accelerators.empty()) offload_to(setup.machine, accelerators);
    graph_units_ = vitro::graph_units(setup);
    take_accelerator(taken, std::move(splits));
  }

 private:
  static ComputeUnit* accelerator_of(const PlacementSetup& setup, const std::vector<ComputeUnit*>& named) {
    if (!setup.config.unit.empty()) return unit_named(setup.machine, setup.config.unit, "engine.placement.unit");
    if (!named.empty()) return named.front();
    const auto& units = setup.machine.units;
    const auto first = std::ranges::find_if(units, [](const auto* unit) { return unit->caps().static_graphs; });
    if (first == units.end()) throw ConfigError(lacks(setup, "an accelerator", "such as npu"));
    return *first;
  }
};

// `layers`: the output matrix is left to the cores, since logits are large and a session's address space is not (TTS-NPU 7.2.2), but for
// the share `head`, for which the accelerator has more sessions (TTS-NPU 8).
class LayersOnAccelerator final : public BesideAccelerator {
 public:
  explicit LayersOnAccelerator(const PlacementSetup& setup) : BesideAccelerator(setup, {{~0u, 1, 1, setup.config.head}}) {
    mapped_ = MappedOperands{accelerator_.unit, setup.accelerator_reads_kv(), setup.config.head, false};
    // Neurons in clusters: those that can stay in DRAM are the accelerator's.
    hot_ = accelerator_.unit;
    splits_ = {{1, 1, 1, 0}};
    prefill_ = true;
    place_heads(setup);
  }
};

// `prompts`: attention, what follows the prompt, and the channels with outliers stay on the cores (T-MAN 3).
class PromptsOnAccelerator final : public BesideAccelerator {
 public:
  explicit PromptsOnAccelerator(const PlacementSetup& setup) : BesideAccelerator(setup, splits(setup)) {
    mapped_ = MappedOperands{accelerator_.unit, false, 0, true};
  }

 private:
  static std::vector<Accelerator::Split> splits(const PlacementSetup& setup) {
    const double share = 1 - setup.config.outliers;
    return {{setup.decode_rows, 0, 0, 0}, {~0u, share, share, 0, 0.0}};
  }
};

// A neural engine's graph has so many shapes at most (the device file's graph_count says where that is from).
constexpr std::uint32_t kMostShapes = 128;

std::vector<std::uint32_t> enumerated_keys(const PlacementConfig& config, std::uint32_t chunk) {
  if (config.key_shapes == KeyShapes::visible) return {};
  if (config.key_shapes == KeyShapes::listed) return config.keys;
  std::vector<std::uint32_t> keys;
  const bool powers = config.key_shapes == KeyShapes::powers;
  constexpr std::uint32_t kLongest = 1 << 24;
  for (std::uint32_t next = chunk; keys.size() < kMostShapes && next <= kLongest; next = powers ? 2 * next : next + chunk) {
    keys.push_back(next);
  }
  return keys;
}

// `chunk_attention`: a full chunk's attention is one accelerator's, through the first core; the rest is the cores' (NPUMoE 3.2).
class ChunkAttention final : public SharedPlacement {
 public:
  explicit ChunkAttention(const PlacementSetup& setup) : SharedPlacement(setup) {
    graph_units_ = vitro::graph_units(setup);
    if (graph_units_.empty()) {
      throw ConfigError(
          "engine.placement.graph_units: is empty, and no unit of the run has static graphs (expected an accelerator, or a core in its "
          "place)");
    }
    ComputeUnit* const first = graph_units_.front();
    if (!setup.config.attention_on_unit || is_core(*first)) return;
    const bool fixed = first->caps().static_graphs;  // else it is a GPU, which computes as many keys as there are
    stages_kv_ = fixed && setup.kv_format != Format::f16 && setup.config.stages_kv;  // a neural engine computes in f16
    if (setup.kv_format != Format::f16 && !stages_kv_) return;
    std::vector<std::uint32_t> keys;
    if (fixed) keys = enumerated_keys(setup.config, setup.prefill_chunk);
    offloads_.push_back(
        std::make_unique<OffloadUnit>(setup.machine, *cores_.front(), *first, Offloaded::attention, std::move(keys)));
    OffloadUnit* const offload = offloads_.back().get();
    const std::uint32_t chunk = setup.prefill_chunk;
    std::vector<Accelerator::Split> splits;
    if (chunk > 1) splits.push_back({chunk - 1, 0, 0, 0});
    splits.push_back({chunk, 1, 0, 0});
    splits.push_back({~0u, 0, 0, 0});  // another shape: of more sequences than a chunk has rows
    take_accelerator(offload, std::move(splits));
    attention_graphs_ = {offload, chunk};
  }
};

template <class P>
std::unique_ptr<UnitPlacement> make(const PlacementSetup& setup) {
  return std::make_unique<P>(setup);
}

}  // namespace

void register_placements(Registry<PlacementKind>& kinds) {
  kinds.add({"cores", "cores share each phase, evenly or by their rates; an accelerator beside them takes its share by the rows of a step",
             make<Cores>});
  kinds.add({"unit", "one unit carries everything out", make<OneUnit>});
  kinds.add({"matmuls", "matmuls of the layers on the accelerator, all else on the cores", make<MatmulsOnAccelerator>});
  kinds.add({"layers", "layers on the accelerator, the output matrix on the cores but for a share", make<LayersOnAccelerator>});
  kinds.add({"prompts", "matmuls of a prompt on the accelerator, all else on the cores", make<PromptsOnAccelerator>, true});
  kinds.add({"chunk_attention", "attention of a full chunk on the accelerator, all else on the cores", make<ChunkAttention>});
}

}  // namespace vitro
