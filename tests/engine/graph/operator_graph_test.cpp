#include "engine/graph/operator_graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "engine/base/check.hpp"
#include "tests/engine/graph/small_model.hpp"

namespace vitro {
namespace {

using test::small_model;

const Operator* find(const OperatorGraph& graph, std::string_view name) {
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
    if (graph[id].name == name) return &graph[id];
  }
  return nullptr;
}

TEST(OperatorGraph, names_are_unique_and_the_order_is_topological) {
  for (const std::uint32_t experts : {0u, 4u}) {
    ModelConfig config = small_model();
    config.experts = experts, config.experts_used = experts / 2;
    const OperatorGraph graph = build_graph(config);
    std::set<std::string> names;
    std::map<OperatorId, std::size_t> position;
    const std::vector<OperatorId> order = execution_order(graph);
    for (std::size_t i = 0; i < order.size(); ++i) {
      names.insert(graph[order[i]].name);
      position[order[i]] = i;
    }
    EXPECT_EQ(names.size(), boost::num_vertices(graph));
    const auto [first, last] = boost::edges(graph);
    for (auto edge = first; edge != last; ++edge) {
      EXPECT_LT(position.at(boost::source(*edge, graph)), position.at(boost::target(*edge, graph)));
    }
  }
}

TEST(OperatorGraph, a_pass_that_appends_operators_still_gets_a_topological_order) {
  OperatorGraph graph = build_graph(small_model());
  const OperatorId late = boost::add_vertex(Operator{}, graph);
  boost::add_edge(late, OperatorId{1}, Operand{1}, graph);
  const std::vector<OperatorId> order = execution_order(graph);
  EXPECT_LT(std::find(order.begin(), order.end(), late), std::find(order.begin(), order.end(), OperatorId{1}));
}

TEST(OperatorGraph, a_cycle_is_refused) {
  OperatorGraph graph = build_graph(small_model());
  boost::add_edge(boost::num_vertices(graph) - 1, OperatorId{0}, Operand{0}, graph);
  EXPECT_THROW(execution_order(graph), RunError);
}

TEST(OperatorGraph, families_differ_in_data_only) {
  ModelConfig qwen = small_model();
  qwen.qkv_bias = true;
  EXPECT_EQ(find(build_graph(qwen), "blk.0.attn_q")->bias, Role::attn_q_bias);
  EXPECT_FALSE(find(build_graph(small_model()), "blk.0.attn_q")->bias.has_value());
  ModelConfig normed = small_model();
  normed.qk_norm = QkNorm::heads;
  EXPECT_EQ(find(build_graph(normed), "blk.0.attn_q_norm")->width, normed.q_width());
  EXPECT_EQ(find(build_graph(normed), "blk.0.attn_k_norm")->width, normed.kv_width());
  EXPECT_EQ(find(build_graph(small_model()), "blk.0.attn_q_norm"), nullptr);
  ModelConfig bitnet = small_model();
  bitnet.sub_norms = true;
  EXPECT_EQ(find(build_graph(bitnet), "blk.1.ffn_sub_norm")->width, bitnet.ffn);
  EXPECT_EQ(find(build_graph(bitnet), "blk.1.attn_sub_norm")->weight, Role::attn_sub_norm);
  ModelConfig tied = small_model();
  tied.tied_embedding = true;
  EXPECT_EQ(find(build_graph(tied), "output")->weight, Role::token_embedding);
  EXPECT_EQ(find(build_graph(small_model()), "output")->weight, Role::output);
  ModelConfig reward = small_model();
  reward.value_head = reward.value_bias = true;
  EXPECT_EQ(find(build_graph(reward), "value"), nullptr) << "such a model can also speak";
  EXPECT_EQ(find(build_graph(reward, {.value = true}), "output"), nullptr);
  EXPECT_EQ(find(build_graph(reward, {.value = true}), "value")->weight, Role::value_head);
  EXPECT_EQ(find(build_graph(reward, {.value = true}), "value")->bias, Role::value_bias);
  EXPECT_EQ(find(build_graph(small_model()), "blk.1.kv_stage"), nullptr);
  EXPECT_TRUE(find(build_graph(small_model(), {.stages_kv = true}), "blk.1.kv_stage")->is<ops::KvStage>());
  ModelConfig moe = small_model();
  moe.experts = 4, moe.experts_used = 2;
  const OperatorGraph graph = build_graph(moe);
  EXPECT_EQ(find(graph, "blk.1.ffn_down")->rows, RowSet::routed);
  ASSERT_NE(find(graph, "blk.1.expert_sum"), nullptr);
  EXPECT_EQ(find(build_graph(small_model()), "blk.1.route"), nullptr);
}

TEST(OperatorGraph, what_stands_beside_experts_has_weights_and_widths_of_its_own) {
  ModelConfig moe = small_model();
  moe.experts = 4, moe.experts_used = 2, moe.shared_ffn = 160, moe.dense_layers = 1, moe.dense_ffn = 32;
  const OperatorGraph plain = build_graph(moe);
  EXPECT_EQ(find(plain, "blk.0.route"), nullptr);
  EXPECT_EQ(find(plain, "blk.0.ffn_shared_up"), nullptr);
  EXPECT_EQ(find(plain, "blk.0.ffn_up")->width, 32u);
  EXPECT_NE(find(plain, "blk.0.ffn_up")->output, find(plain, "blk.1.ffn_up")->output);  // a buffer has one width
  EXPECT_EQ(find(plain, "blk.1.ffn_up")->width, moe.ffn);
  EXPECT_EQ(find(plain, "blk.1.ffn_shared_up")->width, 160u);
  EXPECT_EQ(find(plain, "blk.1.ffn_shared_up")->rows, RowSet::all);
  EXPECT_EQ(find(plain, "blk.1.ffn_shared_down")->weight, Role::shared_down);
  EXPECT_TRUE(find(plain, "blk.1.ffn_shared_sum")->is<ops::Add>());
  moe.shared_gate = true;
  EXPECT_EQ(find(build_graph(moe), "blk.1.ffn_shared_sum")->weight, Role::shared_router);
  // A policy that carries out the experts leaves the rest to operators.
  const OperatorGraph whole = build_graph(moe, {.whole_ffns = true});
  EXPECT_TRUE(find(whole, "blk.1.ffn_clusters")->whole_ffn);
  EXPECT_NE(find(whole, "blk.1.ffn_shared_up"), nullptr);
  EXPECT_NE(find(whole, "blk.0.ffn_up"), nullptr);
  EXPECT_EQ(find(whole, "blk.0.ffn_clusters"), nullptr);
}

TEST(OperatorGraph, norms_with_biases_and_norms_over_all_heads_are_built_as_the_family_has_them) {
  ModelConfig config = small_model();
  config.norm = Norm::layer, config.attn_output_bias = config.output_bias = true, config.qk_norm = QkNorm::whole;
  const OperatorGraph graph = build_graph(config);
  EXPECT_TRUE(find(graph, "blk.1.attn_norm")->is<ops::LayerNorm>());
  EXPECT_EQ(find(graph, "blk.1.ffn_norm")->bias, Role::ffn_norm_bias);
  EXPECT_EQ(find(graph, "output_norm")->bias, Role::output_norm_bias);
  EXPECT_EQ(find(graph, "blk.0.attn_output")->bias, Role::attn_output_bias);
  EXPECT_EQ(find(graph, "output")->bias, Role::output_bias);
  EXPECT_EQ(find(graph, "blk.0.attn_q_norm")->split, Split::replicated);
  EXPECT_EQ(find(graph, "blk.0.attn_q_norm")->output, "q_normed");
  EXPECT_EQ(find(graph, "blk.0.rope_q")->output, "q_turned");  // another unit may still normalise
  EXPECT_EQ(std::get<ops::Attention>(find(graph, "blk.0.attention")->op).scale, 0.25f);
  config.rope.attention_factor = 2;
  EXPECT_EQ(std::get<ops::Attention>(find(build_graph(config), "blk.0.attention")->op).scale, 1.0f);
}

TEST(OperatorGraph, operators_have_the_inputs_that_their_contract_lists) {
  ModelConfig moe = small_model();
  moe.experts = 4, moe.experts_used = 2, moe.shared_ffn = 32, moe.shared_gate = true;
  const OperatorGraph graph = build_graph(moe);
  const std::map<std::string_view, std::size_t> expected{{"embed", 0},      {"rms_norm", 1}, {"rope", 1},  {"kv_append", 2},
                                                         {"attention", 2},  {"glu", 2},      {"add", 2},   {"route", 1},
                                                         {"expert_sum", 2}, {"gather", 1},   {"sample", 1}, {"add_gated", 3}};
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
    const auto entry = expected.find(to_string(graph[id].op));
    if (entry != expected.end()) {
      EXPECT_EQ(inputs_of(graph, id).size(), entry->second) << graph[id].name;
    }
  }
}

TEST(OperatorGraph, the_drawing_names_every_operator) {
  const OperatorGraph graph = build_graph(small_model());
  std::ostringstream dot;
  write_dot(dot, graph);
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
    EXPECT_NE(dot.str().find(graph[id].name), std::string::npos);
  }
  EXPECT_NE(dot.str().find("hidden [96]"), std::string::npos);
}

}  // namespace
}  // namespace vitro
