// Each kind of placement: its units, its shares, and what it refuses by which key.
// Long because one fixture serves the laws of all kinds.
#include "engine/parts/placement/placement_kinds.hpp"

#include <gmock/gmock.h>

#include <numeric>

#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr BlockKind kBlocks[] = {BlockKind::embed, BlockKind::attention, BlockKind::ffn, BlockKind::head};

class Nothing final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

// Three cores, two units of static graphs and one without.
class PlacementKinds : public testing::Test {
 protected:
  PlacementKinds() : host_(machine_of({"cpu0", "cpu1", "cpu2", "npu", "gpu", "ane"})) { register_placements(kinds); }

  std::unique_ptr<VirtualMachine> machine_of(const std::vector<std::string>& names) {
    VirtualMachineSpec spec;
    for (const std::string& name : names) {
      UnitCaps caps;
      caps.id = UnitId(spec.units.size());
      caps.name = name;
      caps.kind = name.starts_with("cpu") ? UnitKind::core : name == "gpu" ? UnitKind::gpu : UnitKind::npu;
      caps.static_graphs = caps.kind == UnitKind::npu;
      spec.units.push_back(caps);
    }
    return std::make_unique<VirtualMachine>(std::move(spec), function_, trace_);
  }

  std::unique_ptr<UnitPlacement> make(const PlacementConfig& config) { return make(config, *host_); }
  std::unique_ptr<UnitPlacement> make(const PlacementConfig& config, VirtualMachine& host) {
    return kinds.find(config.kind)->make({host.machine(), config, chunk, decode_rows, kv_format, sequences, whole_ffns});
  }
  std::string error_of(const PlacementConfig& config) { return error_of(config, *host_); }
  std::string error_of(const PlacementConfig& config, VirtualMachine& host) {
    try {
      make(config, host);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  static PlacementConfig config(std::string kind, std::vector<std::string> units) {
    PlacementConfig config;
    config.kind = std::move(kind);
    config.units = std::move(units);
    return config;
  }
  static std::vector<std::string> names(const std::vector<ComputeUnit*>& units) {
    std::vector<std::string> names;
    for (const ComputeUnit* unit : units) names.push_back(unit->caps().name);
    return names;
  }

  Registry<PlacementKind> kinds;
  std::uint32_t chunk = 8, decode_rows = 2, sequences = 1, whole_ffns = 0;
  Format kv_format = Format::f32;

 private:
  Nothing function_;
  NullTrace trace_;
  std::unique_ptr<VirtualMachine> host_;
};

PlacementConfig with_splits(PlacementConfig config) {
  config.unit = "npu";
  config.splits = {{1, 0.25, 0.5, 0.75}, {4, 0.5, 1, 0}};
  return config;
}

TEST_F(PlacementKinds, are_named_once_and_one_wants_a_copy_of_the_weights) {
  EXPECT_THAT(kinds.names(), ElementsAre("cores", "unit", "matmuls", "layers", "prompts", "chunk_attention"));
  for (const PlacementKind& kind : kinds.all()) {
    EXPECT_FALSE(kind.description.empty());
    EXPECT_EQ(kind.int8_copy, kind.name == "prompts");
  }
}

PlacementConfig matmuls_on_gpu(PlacementConfig config) {
  config.unit = "gpu";
  return config;
}

TEST_F(PlacementKinds, matmuls_go_to_the_unit_through_each_core) {
  const auto placement = make(matmuls_on_gpu(config("matmuls", {"cpu0", "cpu1", "gpu"})));
  EXPECT_THAT(names(placement->units()), ElementsAre("cpu0", "cpu1"));
  EXPECT_THAT(names(placement->cores()), ElementsAre("cpu0", "cpu1"));
  EXPECT_EQ(placement->accelerator(), nullptr);
  EXPECT_EQ(placement->shares(BlockKind::ffn, 1, false), (Shares{1, 1}));
  EXPECT_THAT(names(make(matmuls_on_gpu(config("matmuls", {"gpu"})))->cores()), ElementsAre("cpu0")) << "the machine's first core";
}

// Whatever the rows: there is one share for each unit, and all of the phase falls to somebody.
TEST_F(PlacementKinds, shares_of_every_phase_are_those_of_all_units) {
  for (const Format format : {Format::f32, Format::int8_fp8}) {
    kv_format = format;
    for (const PlacementConfig& c :
         {config("cores", {"cpu0", "cpu2"}), with_splits(config("cores", {"cpu0", "cpu1"})), config("cores", {"cpu1", "npu"}),
          config("unit", {"npu"}), matmuls_on_gpu(config("matmuls", {"cpu0"})), config("layers", {"cpu0", "cpu1", "npu"}),
          config("prompts", {"cpu0", "npu"}), config("chunk_attention", {"cpu0", "cpu1"})}) {
      const auto placement = make(c);
      for (const BlockKind kind : kBlocks) {
        for (const std::uint32_t rows : {1u, 2u, 3u, 7u, 8u, 9u, 500u}) {
          for (const bool attends : {true, false}) {
            const Shares shares = placement->shares(kind, rows, attends);
            ASSERT_EQ(shares.size(), placement->units().size()) << c.kind;
            EXPECT_GT(std::accumulate(shares.begin(), shares.end(), 0.0), 0) << c.kind;
            for (const double share : shares) EXPECT_TRUE(share >= 0 && share <= 1) << c.kind;
          }
        }
      }
      EXPECT_TRUE(std::ranges::is_sorted(placement->row_limits())) << c.kind;
    }
  }
}

TEST_F(PlacementKinds, cores_share_evenly) {
  const auto named = make(config("cores", {"cpu2", "cpu0"}));
  EXPECT_THAT(names(named->units()), ElementsAre("cpu2", "cpu0"));
  EXPECT_THAT(named->shares(BlockKind::ffn, 3, false), ElementsAre(1, 1));
  EXPECT_THAT(named->row_limits(), IsEmpty());
  EXPECT_EQ(named->accelerator(), nullptr);
  PlacementConfig counted = config("cores", {});
  counted.threads = 3;
  EXPECT_THAT(names(make(counted)->cores()), ElementsAre("cpu0", "cpu1", "cpu2"));
}

TEST_F(PlacementKinds, an_accelerator_beside_cores_takes_its_split_and_prompts) {
  PlacementConfig c = with_splits(config("cores", {"cpu0", "cpu1"}));
  const auto whole = make(c);
  EXPECT_THAT(names(whole->units()), ElementsAre("cpu0", "cpu1", "npu"));
  EXPECT_THAT(names(whole->cores()), ElementsAre("cpu0", "cpu1"));
  EXPECT_EQ(whole->accelerator()->caps().name, "npu");
  EXPECT_EQ(whole->splits().size(), 2u);
  EXPECT_TRUE(whole->prefill_on_accelerator());
  EXPECT_THAT(whole->row_limits(), ElementsAre(1, 4, ~0u));
  EXPECT_THAT(whole->shares(BlockKind::ffn, 1, false), ElementsAre(0.375, 0.375, 0.25));
  EXPECT_THAT(whole->shares(BlockKind::attention, 1, true), ElementsAre(0.25, 0.25, 0.5));
  EXPECT_THAT(whole->shares(BlockKind::head, 1, false), ElementsAre(0.125, 0.125, 0.75));
  EXPECT_THAT(whole->shares(BlockKind::ffn, 3, false), ElementsAre(0.25, 0.25, 0.5));
  EXPECT_THAT(whole->shares(BlockKind::ffn, 5, false), ElementsAre(0, 0, 1)) << "a prompt";
  EXPECT_THAT(whole->shares(BlockKind::embed, 5, false), ElementsAre(0.5, 0.5, 0));
  c.prefill = false;
  EXPECT_THAT(make(c)->shares(BlockKind::ffn, 5, false), ElementsAre(0.25, 0.25, 0.5)) << "the last split's";
}

TEST_F(PlacementKinds, whole_ffns_have_the_share_of_their_layer_and_of_their_expert) {
  PlacementConfig c = with_splits(config("cores", {"cpu0", "cpu1"}));
  c.splits[0].hot_by_layer = {{0}, {0.5, 1}, {0.75}};
  const auto ffn = [](std::int16_t layer) { return Phase{.layer = layer, .block = BlockKind::ffn}; };
  whole_ffns = 2;  // neurons of the third layer are computed by themselves
  const auto placement = make(c);
  EXPECT_THAT(placement->shares_of(ffn(0), 1), ElementsAre(0.5, 0.5, 0));
  EXPECT_THAT(placement->shares_of(ffn(1), 1), ElementsAre(0.125, 0.125, 0.75)) << "the mean of the experts";
  EXPECT_THAT(placement->shares_of(ffn(2), 1), ElementsAre(0.375, 0.375, 0.25)) << "as everywhere";
  EXPECT_THAT(placement->shares_of(ffn(0), 4), ElementsAre(0.25, 0.25, 0.5)) << "another split";
  EXPECT_THAT(placement->shares_of(ffn(1), 5), ElementsAre(0, 0, 1)) << "a prompt";
  EXPECT_EQ(placement->shares_of(Phase{.layer = 0, .block = BlockKind::attention}, 1), placement->shares(BlockKind::attention, 1, false));
  EXPECT_EQ(placement->shares_of_expert(0, 1, 1), std::nullopt);
  EXPECT_THAT(placement->shares_of_expert(1, 0, 1).value(), ElementsAre(0.25, 0.25, 0.5));
  EXPECT_THAT(placement->shares_of_expert(1, 1, 1).value(), ElementsAre(0, 0, 1));
  EXPECT_EQ(placement->shares_of_expert(1, 1, 4), std::nullopt);
}

TEST_F(PlacementKinds, what_is_left_to_cores_is_theirs_by_their_rates_in_every_layer) {
  PlacementConfig c = with_splits(config("cores", {"cpu0", "cpu1"}));
  c.balanced = true;
  c.splits[0].hot_by_layer = {{0}, {0.5, 1}};
  whole_ffns = 2;
  const auto placement = make(c);
  ASSERT_NE(placement->balance(), nullptr);
  placement->balance()->learn(BlockKind::ffn, 1, {1, 3}, 1);  // the first core is three times as fast
  EXPECT_THAT(placement->shares(BlockKind::ffn, 1, false), ElementsAre(0.5625, 0.1875, 0.25));
  EXPECT_THAT(placement->shares_of(Phase{.layer = 0, .block = BlockKind::ffn}, 1), ElementsAre(0.75, 0.25, 0));
  EXPECT_THAT(placement->shares_of(Phase{.layer = 1, .block = BlockKind::ffn}, 1), ElementsAre(0.1875, 0.0625, 0.75));
  EXPECT_THAT(placement->shares_of_expert(1, 0, 1).value(), ElementsAre(0.375, 0.125, 0.5));
}

TEST_F(PlacementKinds, steps_of_more_sequences_than_the_last_split_are_no_prompts) {
  sequences = 6;
  const auto placement = make(with_splits(config("cores", {"cpu0", "cpu1"})));
  EXPECT_THAT(placement->row_limits(), ElementsAre(1, 6, ~0u));
  for (const BlockKind kind : {BlockKind::ffn, BlockKind::attention, BlockKind::head}) {
    EXPECT_EQ(placement->shares(kind, 6, true), placement->shares(kind, 4, true));
  }
  EXPECT_THAT(placement->shares(BlockKind::ffn, 7, false), ElementsAre(0, 0, 1)) << "a prompt";
  sequences = 3;
  EXPECT_THAT(make(with_splits(config("cores", {"cpu0", "cpu1"})))->row_limits(), ElementsAre(1, 4, ~0u)) << "as the splits say";
}

TEST_F(PlacementKinds, heads_stay_with_the_cores_where_the_accelerator_can_not_read_keys_and_values) {
  kv_format = Format::int4_fp8;
  for (const PlacementConfig& c : {with_splits(config("cores", {"cpu0"})), config("layers", {"cpu0", "npu"})}) {
    const auto placement = make(c);
    for (const std::uint32_t rows : {1u, 4u, 100u}) {
      EXPECT_THAT(placement->shares(BlockKind::attention, rows, true), ElementsAre(1, 0)) << c.kind;
      EXPECT_GT(placement->shares(BlockKind::attention, rows, false).back(), 0) << c.kind << ": projections are still its own";
    }
  }
  EXPECT_EQ(make(config("chunk_attention", {"cpu0"}))->attention_graphs().unit, nullptr);
}

TEST_F(PlacementKinds, heads_are_the_accelerators_where_keys_and_values_are_staged_for_it) {
  kv_format = Format::int8_fp8;
  for (PlacementConfig c : {with_splits(config("cores", {"cpu0"})), config("layers", {"cpu0", "npu"})}) {
    EXPECT_FALSE(make(c)->stages_kv()) << c.kind << ": nobody asked for it";
    c.stages_kv = true;
    const auto placement = make(c);
    EXPECT_TRUE(placement->stages_kv()) << c.kind;
    for (const std::uint32_t rows : {1u, 4u, 100u}) {
      EXPECT_GT(placement->shares(BlockKind::attention, rows, true).back(), 0) << c.kind;
    }
    kv_format = Format::f16;
    EXPECT_FALSE(make(c)->stages_kv()) << c.kind << ": it reads them as they are";
    kv_format = Format::int8_fp8;
  }
  PlacementConfig chunks = config("chunk_attention", {"cpu0"});
  chunks.stages_kv = true;
  for (const Format format : {Format::f32, Format::int8_fp8, Format::f16}) {
    kv_format = format;
    const auto placement = make(chunks);
    EXPECT_NE(placement->attention_graphs().unit, nullptr);
    EXPECT_EQ(placement->stages_kv(), format != Format::f16) << "a neural engine computes in f16";
  }
  for (const char* kind : {"prompts", "cores", "unit"}) {
    PlacementConfig c = config(kind, {"cpu0"});
    c.stages_kv = true;
    EXPECT_FALSE(make(c)->stages_kv()) << kind << ": no accelerator beside cores attends";
  }
}

TEST_F(PlacementKinds, an_accelerator_among_the_units_takes_the_products_of_a_core_beside_it) {
  for (const std::vector<std::string>& units : {std::vector<std::string>{"npu", "cpu1"}, {"cpu1", "npu"}}) {
    const auto placement = make(config("cores", units));
    ASSERT_EQ(placement->units().size(), 1u);
    EXPECT_EQ(placement->units()[0]->caps().name, "cpu1") << "it stands for its core";
    EXPECT_THAT(names(placement->cores()), ElementsAre("cpu1"));
  }
  EXPECT_THAT(names(make(config("cores", {"npu"}))->cores()), ElementsAre("cpu0"));
}

TEST_F(PlacementKinds, each_of_several_cores_hands_its_share_of_the_products_over) {
  const auto placement = make(config("cores", {"cpu2", "npu", "cpu0"}));
  EXPECT_THAT(names(placement->units()), ElementsAre("cpu2", "cpu0")) << "each stands for its core";
  EXPECT_THAT(names(placement->cores()), ElementsAre("cpu2", "cpu0"));
  EXPECT_THAT(placement->shares(BlockKind::head, 1, false), ElementsAre(1, 1));
  for (const ComputeUnit* unit : placement->units()) EXPECT_NE(dynamic_cast<const OffloadUnit*>(unit), nullptr);
}

TEST_F(PlacementKinds, one_unit_has_all_and_maps_all) {
  const auto placement = make(config("unit", {"gpu"}));
  EXPECT_THAT(names(placement->units()), ElementsAre("gpu"));
  const std::optional<MappedOperands> mapped = placement->mapped();
  ASSERT_TRUE(mapped.has_value());
  EXPECT_TRUE(mapped->kv && mapped->head && !mapped->copy);
  EXPECT_THAT(error_of(config("unit", {"cpu0", "npu"})), StartsWith("engine.units: 2 units"));
  EXPECT_THAT(error_of(config("unit", {})), StartsWith("engine.units: "));
}

TEST_F(PlacementKinds, layers_are_the_accelerators_and_the_output_matrix_is_the_cores) {
  const auto placement = make(config("layers", {"npu", "cpu0", "cpu1"}));
  EXPECT_THAT(names(placement->units()), ElementsAre("cpu0", "cpu1", "npu")) << "cores first";
  for (const std::uint32_t rows : {1u, 100u}) {
    EXPECT_THAT(placement->shares(BlockKind::attention, rows, true), ElementsAre(0, 0, 1));
    EXPECT_THAT(placement->shares(BlockKind::ffn, rows, false), ElementsAre(0, 0, 1));
    EXPECT_THAT(placement->shares(BlockKind::head, rows, false), ElementsAre(0.5, 0.5, 0));
  }
  EXPECT_TRUE(placement->mapped()->kv);
  EXPECT_FALSE(placement->mapped()->head);
  EXPECT_EQ(placement->accelerator(), placement->units().back()) << "and so are neurons that can stay in DRAM";
  EXPECT_EQ(placement->splits().front().hot, 1);
}

TEST_F(PlacementKinds, prompts_are_the_accelerators_but_for_attention_and_outliers) {
  PlacementConfig c = config("prompts", {"cpu0", "npu"});
  c.outliers = 0.25;
  const auto placement = make(c);
  for (const BlockKind kind : {BlockKind::attention, BlockKind::ffn}) {
    EXPECT_THAT(placement->shares(kind, 2, false), ElementsAre(1, 0)) << "decoding";
    EXPECT_THAT(placement->shares(kind, 3, false), ElementsAre(0.25, 0.75));
  }
  EXPECT_THAT(placement->shares(BlockKind::attention, 3, true), ElementsAre(1, 0));
  EXPECT_THAT(placement->shares(BlockKind::head, 3, false), ElementsAre(1, 0));
  EXPECT_TRUE(placement->mapped()->copy);
  EXPECT_FALSE(placement->mapped()->kv);
}

TEST_F(PlacementKinds, what_is_not_named_is_the_machines_first) {
  for (const char* kind : {"layers", "prompts"}) {
    EXPECT_THAT(names(make(config(kind, {"npu"}))->units()), ElementsAre("cpu0", "npu")) << kind << ": a core";
    EXPECT_THAT(names(make(config(kind, {"cpu2"}))->units()), ElementsAre("cpu2", "npu")) << kind << ": an accelerator";
    PlacementConfig stand_in = config(kind, {"cpu0"});
    stand_in.unit = "cpu0";
    EXPECT_THAT(names(make(stand_in)->units()), ElementsAre("cpu1", "cpu0")) << kind << ": a core beside the one that stands in";
  }
}

// The first one takes the layers, or the one that `unit` names; matmuls of the cores go to the others.
TEST_F(PlacementKinds, who_takes_the_accelerators_part_is_told_by_every_kind) {
  for (const char* kind : {"layers", "prompts", "unit"}) {
    PlacementConfig c = config(kind, {"cpu0"});
    if (std::string_view(kind) != "unit") c.unit = "cpu1";
    const auto placement = make(c);
    EXPECT_TRUE(placement->is_accelerator(*placement->units().back())) << kind << ": a core that stands in";
    if (placement->units().size() > 1) EXPECT_FALSE(placement->is_accelerator(*placement->units().front())) << kind;
  }
  const auto cores = make(config("cores", {"cpu0", "cpu1"}));
  for (const ComputeUnit* unit : cores->units()) EXPECT_FALSE(cores->is_accelerator(*unit));
}

TEST_F(PlacementKinds, of_several_accelerators_one_takes_the_layers_and_the_cores_hand_their_matmuls_to_the_others) {
  for (const char* kind : {"layers", "prompts"}) {
    PlacementConfig c = config(kind, {"cpu0", "cpu1", "npu", "ane"});
    for (const auto& [unit, other] : {std::pair{"", "npu"}, {"ane", "ane"}}) {
      c.unit = unit;
      const auto placement = make(c);
      EXPECT_THAT(names(placement->units()), ElementsAre("cpu0", "cpu1", other)) << kind;
      EXPECT_THAT(names(placement->cores()), ElementsAre("cpu0", "cpu1")) << kind;
      for (std::size_t core = 0; core < 2; ++core) EXPECT_NE(dynamic_cast<OffloadUnit*>(placement->units()[core]), nullptr) << kind;
      EXPECT_EQ(dynamic_cast<OffloadUnit*>(placement->units()[2]), nullptr) << kind;
      EXPECT_EQ(placement->shares(BlockKind::ffn, 100, false).back(), 1) << kind;
    }
    EXPECT_THAT(names(make(config(kind, {"npu", "ane"}))->units()), ElementsAre("cpu0", "npu")) << kind << ": beside the first core";
  }
}

TEST_F(PlacementKinds, a_machine_without_an_accelerator_or_a_core_is_refused_by_both_keys) {
  const auto without = [this](const std::string& what) {
    std::vector<std::string> names;
    for (const char* name : {"cpu0", "npu"}) {
      if (name != what) names.emplace_back(name);
    }
    return machine_of(names);
  };
  const std::unique_ptr<VirtualMachine> cores = without("npu"), accelerators = without("cpu0");
  for (const char* kind : {"layers", "prompts"}) {
    EXPECT_THAT(error_of(config(kind, {"cpu0"}), *cores),
                AllOf(StartsWith(std::string("engine.placement.kind: ") + kind + " needs an accelerator"),
                      HasSubstr("engine.placement.units"), HasSubstr("has cpu0;"), HasSubstr("such as npu")));
  }
  for (const char* kind : {"layers", "prompts", "cores"}) {
    EXPECT_THAT(error_of(config(kind, {"npu"}), *accelerators),
                AllOf(StartsWith(std::string("engine.placement.kind: ") + kind + " needs a core"), HasSubstr("engine.placement.units"),
                      HasSubstr("has npu;"), HasSubstr("such as cpu0")));
  }
}

TEST_F(PlacementKinds, attention_of_a_full_chunk_is_the_accelerators_and_of_no_other_step) {
  kv_format = Format::f16;  // what such an engine computes in
  PlacementConfig c = config("chunk_attention", {"cpu0", "cpu1"});
  const auto placement = make(c);
  EXPECT_EQ(placement->attention_graphs().rows, 8u);
  EXPECT_EQ(placement->attention_graphs().unit, placement->units().back());
  EXPECT_THAT(names(placement->graph_units()), ElementsAre("npu", "ane"));
  EXPECT_THAT(placement->shares(BlockKind::attention, 8, true), ElementsAre(0, 0, 1));
  for (const std::uint32_t rows : {1u, 7u, 9u}) EXPECT_THAT(placement->shares(BlockKind::attention, rows, true), ElementsAre(0.5, 0.5, 0));
  EXPECT_THAT(placement->shares(BlockKind::ffn, 8, false), ElementsAre(0.5, 0.5, 0));
  c.attention_on_unit = false;
  EXPECT_EQ(make(c)->units().size(), 2u);
  c = config("chunk_attention", {"cpu0"});
  c.graph_units = {"cpu1"};
  EXPECT_EQ(make(c)->attention_graphs().unit, nullptr) << "a core in its place runs experts alone";
}

TEST_F(PlacementKinds, units_that_are_not_there_are_refused_by_the_key_that_names_them) {
  for (const PlacementKind& kind : kinds.all()) {
    EXPECT_THAT(error_of(config(kind.name, {"cpu0", "cpu9"})), StartsWith("engine.units: there is no \"cpu9\"")) << kind.name;
    EXPECT_THAT(error_of(config(kind.name, {"cpu0", "cpu0"})), StartsWith("engine.units: \"cpu0\" is named twice")) << kind.name;
    PlacementConfig many = config(kind.name, {});
    many.threads = 4;
    EXPECT_THAT(error_of(many), StartsWith("engine.threads: 4 threads, but the machine has 3 cores")) << kind.name;
  }
  PlacementConfig c = with_splits(config("cores", {"cpu0"}));
  c.unit = "tpu";
  EXPECT_THAT(error_of(c), StartsWith("engine.placement.unit: there is no \"tpu\""));
  c = config("chunk_attention", {"cpu0"});
  c.graph_units = {"ane0"};
  EXPECT_THAT(error_of(c), StartsWith("engine.placement.graph_units: there is no \"ane0\""));
}

}  // namespace
}  // namespace vitro
