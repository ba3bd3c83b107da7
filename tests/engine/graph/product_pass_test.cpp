#include "engine/graph/product_pass.hpp"

#include <gtest/gtest.h>

#include "engine/graph/geometry_pass.hpp"
#include "engine/graph/operator_graph.hpp"
#include "tests/engine/graph/small_model.hpp"

namespace vitro {
namespace {

using test::small_model;

ModelConfig joined_model() {
  ModelConfig config = small_model();
  config.joined_qkv = config.joined_gate_up = config.qkv_bias = true;
  return config;
}

const Operator* named_in(const OperatorGraph& graph, std::string_view name) {
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
    if (graph[id].name == name) return &graph[id];
  }
  return nullptr;
}

std::size_t slices_in(const OperatorGraph& graph) {
  std::size_t slices = 0;
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) slices += !graph[id].path.empty() && graph[id].path.front().is_slice();
  return slices;
}

TEST(ProductPass, as_it_is_built_one_product_is_read_by_its_slices) {
  const OperatorGraph graph = build_graph(joined_model(), {.fuse = Fuse::none});
  EXPECT_EQ(slices_in(graph), 2u * (3 + 2)) << "q, k and v, Gate and Up of two layers";
  EXPECT_EQ(named_in(graph, "blk.1.attn_qkv")->width, 64u + 2 * 32);
  EXPECT_EQ(named_in(graph, "blk.1.attn_qkv")->bias, Role::attn_qkv_bias);
  EXPECT_EQ(named_in(graph, "blk.1.attn_v")->path, (std::vector{Movement{.first = 96, .row = 128}}));
  EXPECT_EQ(named_in(graph, "blk.1.ffn_up")->path, (std::vector{Movement{.first = 96, .row = 192}}));
}

// The same operators as of a model that has each matrix by itself, over rows of the one that there is.
TEST(ProductPass, each_slice_becomes_a_product_with_its_rows_of_the_weight) {
  ModelConfig apart = small_model();
  apart.qkv_bias = true;
  const OperatorGraph expected = build_graph(apart), fused = build_graph(joined_model());
  ASSERT_EQ(boost::num_vertices(fused), boost::num_vertices(expected));
  for (OperatorId id = 0; id < boost::num_vertices(fused); ++id) {
    EXPECT_EQ(fused[id].name, expected[id].name);
    EXPECT_EQ(fused[id].op, expected[id].op) << fused[id].name;
    EXPECT_EQ(fused[id].output, expected[id].output) << fused[id].name;
    EXPECT_EQ(fused[id].width, expected[id].width) << fused[id].name;
    EXPECT_EQ(fused[id].split, expected[id].split) << fused[id].name;
    EXPECT_EQ(inputs_of(fused, id), inputs_of(expected, id)) << fused[id].name;
  }
  const auto part = [&](std::string_view name) { return named_in(fused, name)->part; };
  EXPECT_EQ(part("blk.0.attn_q"), (Slice{0, 64}));
  EXPECT_EQ(part("blk.0.attn_k"), (Slice{64, 32}));
  EXPECT_EQ(part("blk.0.attn_v"), (Slice{96, 32}));
  EXPECT_EQ(part("blk.1.ffn_gate"), (Slice{0, 96}));
  EXPECT_EQ(part("blk.1.ffn_up"), (Slice{96, 96}));
  EXPECT_EQ(part("blk.1.ffn_down"), Slice{});
  EXPECT_EQ(named_in(fused, "blk.0.attn_k")->weight, Role::attn_qkv);
  EXPECT_EQ(named_in(fused, "blk.0.attn_k")->bias, Role::attn_qkv_bias);
  EXPECT_EQ(named_in(fused, "blk.1.ffn_up")->weight, Role::ffn_gate_up);
}

TEST(ProductPass, slices_that_cut_strips_or_have_another_reader_beside_them_stay) {
  ModelConfig config = joined_model();
  config.kv_heads = 1, config.head_dim = config.rope.dims = 48;  // three tiles, one strip and a half
  const OperatorGraph cut = split_products(build_graph(config, {.fuse = Fuse::none}));
  EXPECT_NE(named_in(cut, "blk.0.attn_qkv"), nullptr);
  EXPECT_EQ(named_in(cut, "blk.0.ffn_gate_up"), nullptr);
  EXPECT_EQ(slices_in(cut), 2u * 3);
  EXPECT_EQ(slices_in(build_graph(config)), 2u * 3) << "each is one Move, with what follows it";

  OperatorGraph read = build_graph(joined_model(), {.fuse = Fuse::none});
  for (OperatorId id = 0; id < boost::num_vertices(read); ++id) {
    if (read[id].name == "blk.0.attn_qkv") boost::add_edge(id, boost::num_vertices(read) - 1, Operand{1}, read);
  }
  EXPECT_NE(named_in(split_products(read), "blk.0.attn_qkv"), nullptr);
  EXPECT_EQ(named_in(split_products(read), "blk.1.attn_qkv"), nullptr);
}

}  // namespace
}  // namespace vitro
