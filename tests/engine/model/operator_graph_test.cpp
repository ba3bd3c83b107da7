#include "engine/model/operator_graph.hpp"

#include <algorithm>
#include <map>

#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

OperatorId by_name(const OperatorGraph& graph, std::string_view name) {
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
    if (graph[id].name == name) return id;
  }
  throw RunError("no operator " + std::string(name));
}

std::vector<std::string> input_names(const OperatorGraph& graph, std::string_view name) {
  std::vector<std::string> names;
  for (const Input& input : inputs_of(graph, by_name(graph, name))) names.push_back(graph[input.from].name);
  return names;
}

using Names = std::vector<std::string>;

TEST(OperatorGraph, a_dense_layer_has_its_operators_wired_in_operand_order) {
  const OperatorGraph graph = build_graph(SmallModel().config);
  EXPECT_EQ(boost::num_vertices(graph), 1u + 2 * 16 + 4);
  EXPECT_EQ(input_names(graph, "blk.0.attn_norm"), Names{"token_embd"});
  EXPECT_EQ(input_names(graph, "blk.0.kv_append"), (Names{"blk.0.rope_k", "blk.0.attn_v"}));
  EXPECT_EQ(input_names(graph, "blk.0.attention"), (Names{"blk.0.rope_q", "blk.0.kv_append"}));
  EXPECT_EQ(input_names(graph, "blk.0.ffn_glu"), (Names{"blk.0.ffn_gate", "blk.0.ffn_up"}));
  EXPECT_EQ(input_names(graph, "blk.1.attn_residual"), (Names{"blk.0.ffn_residual", "blk.1.attn_output"}));
  EXPECT_EQ(input_names(graph, "sample"), Names{"output"});
  const Operator& q = graph[by_name(graph, "blk.1.attn_q")];
  EXPECT_EQ(q.weight, Role::attn_q);
  EXPECT_FALSE(q.bias);
  EXPECT_EQ(q.layer, 1);
  EXPECT_EQ(q.split, Split::heads);
  EXPECT_EQ(q.shape, (std::array<std::uint32_t, 2>{4, 16}));
}

TEST(OperatorGraph, families_differ_in_data_alone) {
  SmallModel model;
  model.config.qkv_bias = true;
  model.config.tied_embedding = true;
  model.config.rope_factors = true;
  const OperatorGraph graph = build_graph(model.config);
  EXPECT_EQ(graph[by_name(graph, "blk.0.attn_k")].bias, Role::attn_k_bias);
  EXPECT_EQ(graph[by_name(graph, "blk.0.rope_k")].bias, Role::rope_factors);
  EXPECT_EQ(graph[by_name(graph, "output")].weight, Role::token_embedding);
  const OperatorGraph untied = build_graph(SmallModel().config);
  EXPECT_EQ(untied[by_name(untied, "output")].weight, Role::output);
}

TEST(OperatorGraph, a_mixture_routes_rows_to_experts) {
  SmallModel model;
  model.config.experts = 4;
  model.config.experts_used = 2;
  const OperatorGraph graph = build_graph(model.config);
  EXPECT_EQ(input_names(graph, "blk.0.expert_rows"), (Names{"blk.0.ffn_norm", "blk.0.route"}));
  EXPECT_EQ(input_names(graph, "blk.0.expert_sum"), (Names{"blk.0.ffn_down", "blk.0.route", "blk.0.route"}));
  for (const char* name : {"blk.0.ffn_gate", "blk.0.ffn_up", "blk.0.ffn_glu", "blk.0.ffn_down"}) {
    EXPECT_TRUE(graph[by_name(graph, name)].per_expert) << name;
  }
  EXPECT_FALSE(graph[by_name(graph, "blk.0.router")].per_expert);
}

TEST(OperatorGraph, execution_order_respects_every_edge_and_is_the_order_of_construction) {
  const OperatorGraph graph = build_graph(SmallModel().config);
  const std::vector<OperatorId> order = execution_order(graph);
  ASSERT_EQ(order.size(), boost::num_vertices(graph));
  std::map<OperatorId, std::size_t> place;
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  const auto [first, last] = boost::edges(graph);
  for (auto edge = first; edge != last; ++edge) EXPECT_LT(place[boost::source(*edge, graph)], place[boost::target(*edge, graph)]);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(OperatorGraph, every_weight_of_the_model_is_used_once) {
  for (const std::uint32_t experts : {0u, 4u}) {
    SmallModel model;
    model.config.experts = experts;
    model.config.experts_used = experts / 2;
    model.config.qkv_bias = true;
    const OperatorGraph graph = build_graph(model.config);
    std::map<std::pair<Role, int>, int> uses;
    for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
      for (const auto& role : {graph[id].weight, graph[id].bias}) {
        if (role) ++uses[{*role, is_of_model(*role) ? -1 : graph[id].layer}];
      }
    }
    const std::vector<Weight> weights = weights_of(model.config);
    EXPECT_EQ(uses.size(), weights.size());
    for (const Weight& w : weights) EXPECT_EQ((uses[{w.role, w.layer}]), 1) << w.name;
  }
}

TEST(OperatorGraph, broken_graphs_are_refused_by_operator) {
  const OperatorGraph good = build_graph(SmallModel().config);
  OperatorGraph cyclic = good;
  boost::add_edge(by_name(good, "blk.1.ffn_down"), by_name(good, "blk.0.attn_norm"), Flow{"", 0}, cyclic);
  EXPECT_NE(message_of([&] { validate(cyclic); }).find("cycle"), std::string::npos);
  OperatorGraph extra = good;
  boost::add_edge(by_name(good, "token_embd"), by_name(good, "blk.1.ffn_glu"), Flow{"", 2}, extra);
  EXPECT_NE(message_of([&] { validate(extra); }).find("blk.1.ffn_glu (glu): its inputs fill the operands [0, 1, 2]"), std::string::npos);
  OperatorGraph lacking = good;
  boost::remove_edge(by_name(good, "blk.0.rope_q"), by_name(good, "blk.0.attention"), lacking);
  EXPECT_NE(message_of([&] { validate(lacking); }).find("blk.0.attention"), std::string::npos);
  OperatorGraph weightless = good;
  weightless[by_name(good, "blk.0.ffn_up")].weight.reset();
  EXPECT_NE(message_of([&] { validate(weightless); }).find("needs a weight"), std::string::npos);
  OperatorGraph twice = good;
  twice[by_name(good, "blk.0.ffn_up")].name = "blk.0.ffn_gate";
  EXPECT_NE(message_of([&] { validate(twice); }).find("same name"), std::string::npos);
}

TEST(OperatorGraph, dot_text_names_every_operator_and_edge) {
  const OperatorGraph graph = build_graph(SmallModel().config);
  const std::string dot = to_dot(graph);
  EXPECT_TRUE(dot.starts_with("digraph"));
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) EXPECT_NE(dot.find("\"" + graph[id].name + "\\n"), std::string::npos);
  std::size_t arrows = 0;
  for (std::size_t at = dot.find("->"); at != std::string::npos; at = dot.find("->", at + 1)) ++arrows;
  EXPECT_EQ(arrows, boost::num_edges(graph));
}

}  // namespace
}  // namespace vitro
