// Shares of units in each phase: of cores among themselves, and of an accelerator beside them.
#include <numeric>

#include "tests/engine/parts/placement/placement_machine.hpp"

namespace vitro::placements {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class PlacementShares : public PlacementTest {};

// Whatever the rows: there is one share for each unit, and all of the phase falls to somebody.
TEST_F(PlacementShares, shares_of_every_phase_are_those_of_all_units) {
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

TEST_F(PlacementShares, cores_share_evenly) {
  const auto named = make(config("cores", {"cpu2", "cpu0"}));
  EXPECT_THAT(names(named->units()), ElementsAre("cpu2", "cpu0"));
  EXPECT_THAT(named->shares(BlockKind::ffn, 3, false), ElementsAre(1, 1));
  EXPECT_THAT(named->row_limits(), IsEmpty());
  EXPECT_EQ(named->accelerator(), nullptr);
  PlacementConfig counted = config("cores", {});
  counted.threads = 3;
  EXPECT_THAT(names(make(counted)->cores()), ElementsAre("cpu0", "cpu1", "cpu2"));
}

TEST_F(PlacementShares, an_accelerator_beside_cores_takes_its_split_and_prompts) {
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

TEST_F(PlacementShares, whole_ffns_have_the_share_of_their_layer_and_of_their_expert) {
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

TEST_F(PlacementShares, what_is_left_to_cores_is_theirs_by_their_rates_in_every_layer) {
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

TEST_F(PlacementShares, steps_of_more_sequences_than_the_last_split_are_no_prompts) {
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

TEST_F(PlacementShares, heads_stay_with_the_cores_where_the_accelerator_can_not_read_keys_and_values) {
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

TEST_F(PlacementShares, heads_are_the_accelerators_where_keys_and_values_are_staged_for_it) {
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

}  // namespace
}  // namespace vitro::placements
