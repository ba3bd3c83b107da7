#include "engine/graph/attention_pass.hpp"

#include <gtest/gtest.h>

#include "engine/graph/operator_graph.hpp"
#include "tests/engine/graph/small_model.hpp"

namespace vitro {
namespace {

using test::small_model;

std::vector<OperatorId> named(const OperatorGraph& graph, std::string_view name) {
  std::vector<OperatorId> ids;
  for (const OperatorId id : execution_order(graph)) {
    if (to_string(graph[id].op) == name) ids.push_back(id);
  }
  return ids;
}

TEST(AttentionPass, as_it_is_built_attention_is_three_operators) {
  ModelConfig config = small_model();
  const OperatorGraph graph = build_graph(config, {.fuse = Fuse::geometry, .positions = 40});
  EXPECT_TRUE(named(graph, "attention").empty());
  const OperatorId scores = named(graph, "attention_scores").at(1), weights = named(graph, "attention_weights").at(1);
  EXPECT_EQ(graph[scores].width, 4u * 40);
  EXPECT_EQ(graph[weights].width, 4u * 40);
  EXPECT_NE(graph[scores].output, graph[weights].output) << "scores may be float16, weights are not";
  EXPECT_EQ(graph[named(graph, "attention_values").at(1)].width, config.q_width());
  EXPECT_EQ(build_graph(config, {.fuse = Fuse::geometry})[scores].width, 4u * config.context);
  config.window = 24;
  EXPECT_EQ(build_graph(config, {.fuse = Fuse::geometry, .positions = 40})[scores].width, 4u * 24) << "no row sees more";
}

TEST(AttentionPass, the_parts_become_one_operator_in_their_place_with_the_queries_and_the_pool) {
  ModelConfig config = small_model();
  config.window = 24;
  const OperatorGraph parts = build_graph(config, {.fuse = Fuse::geometry}), fused = fuse_attention(parts);
  const std::vector<OperatorId> attention = named(fused, "attention"), values = named(parts, "attention_values");
  ASSERT_EQ(attention.size(), 2u);
  EXPECT_EQ(boost::num_vertices(fused), boost::num_vertices(parts) - 4);
  for (std::size_t i = 0; i < 2; ++i) {
    const Operator &whole = fused[attention[i]], &last = parts[values[i]];
    EXPECT_EQ(std::get<ops::Attention>(whole.op), (ops::Attention{0.25f, 24, config.layers}));
    EXPECT_EQ(whole.name, last.name);
    EXPECT_EQ(whole.output, last.output);
    EXPECT_EQ(whole.split, Split::kv_heads);
    const std::vector<OperatorId> inputs = inputs_of(fused, attention[i]);
    ASSERT_EQ(inputs.size(), 2u);
    EXPECT_EQ(fused[inputs[0]].output, "q");
    EXPECT_TRUE(fused[inputs[1]].is<ops::KvAppend>());
  }
  const OperatorGraph whole = build_graph(config, {.fuse = Fuse::none, .whole_attention = true});
  EXPECT_EQ(named(whole, "attention").size(), 2u);
  EXPECT_EQ(named(whole, "move").size(), 2u * 3 * 4) << "and nothing else is fused";
}

TEST(AttentionPass, parts_that_somebody_else_reads_or_that_do_not_belong_together_stay) {
  for (int change = 0; change < 3; ++change) {
    OperatorGraph graph = build_graph(small_model(), {.fuse = Fuse::geometry});
    const OperatorId scores = named(graph, "attention_scores").at(0), weights = named(graph, "attention_weights").at(0),
                     values = named(graph, "attention_values").at(0);
    if (change == 0) boost::add_edge(scores, boost::num_vertices(graph) - 1, Operand{1}, graph);
    if (change == 1) std::get<ops::AttentionWeights>(graph[weights].op).window = 8;
    if (change == 2) {
      const OperatorId later = named(graph, "attention_values").at(1), pool = inputs_of(graph, later).at(1);
      boost::remove_edge(pool, later, graph);
      boost::add_edge(inputs_of(graph, values).at(1), later, Operand{1}, graph);
    }
    const OperatorGraph fused = fuse_attention(graph);
    EXPECT_EQ(named(fused, "attention").size(), 1u) << change;
    EXPECT_EQ(named(fused, "attention_values").size(), 1u) << change;
  }
}

}  // namespace
}  // namespace vitro
