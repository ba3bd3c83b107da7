// Each kind of placement: its units, what it hands to which, and what it refuses by which key.
#include "tests/engine/parts/placement/placement_machine.hpp"

namespace vitro::placements {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class PlacementKinds : public PlacementTest {};

TEST_F(PlacementKinds, are_named_once_and_one_wants_a_copy_of_the_weights) {
  EXPECT_THAT(kinds.names(), ElementsAre("cores", "unit", "matmuls", "layers", "prompts", "chunk_attention"));
  for (const PlacementKind& kind : kinds.all()) {
    EXPECT_FALSE(kind.description.empty());
    EXPECT_EQ(kind.int8_copy, kind.name == "prompts");
  }
}

TEST_F(PlacementKinds, matmuls_go_to_the_unit_through_each_core) {
  const auto placement = make(matmuls_on_gpu(config("matmuls", {"cpu0", "cpu1", "gpu"})));
  EXPECT_THAT(names(placement->units()), ElementsAre("cpu0", "cpu1"));
  EXPECT_THAT(names(placement->cores()), ElementsAre("cpu0", "cpu1"));
  EXPECT_EQ(placement->accelerator(), nullptr);
  EXPECT_EQ(placement->shares(BlockKind::ffn, 1, false), (Shares{1, 1}));
  EXPECT_THAT(names(make(matmuls_on_gpu(config("matmuls", {"gpu"})))->cores()), ElementsAre("cpu0")) << "the machine's first core";
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
    if (placement->units().size() > 1) {
      EXPECT_FALSE(placement->is_accelerator(*placement->units().front())) << kind;
    }
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
}  // namespace vitro::placements
