#include "engine/graph/precompute_pass.hpp"
#include "engine/graph/operator_graph.hpp"
#include "tests/engine/graph/small_model.hpp"

#include <gtest/gtest.h>

#include <set>

namespace vitro {
namespace {

using test::small_model;

bool of_layers(const Operator& product) { return product.layer >= 0; }
bool always(const Operator&, const Operator&) { return true; }

std::vector<OperatorId> tables_of(const OperatorGraph& graph) {
  std::vector<OperatorId> ids;
  for (const OperatorId id : execution_order(graph)) {
    if (graph[id].is<ops::Precompute>()) ids.push_back(id);
  }
  return ids;
}

std::set<std::string> readers(const OperatorGraph& graph, OperatorId tables) {
  std::set<std::string> names;
  const auto [first, last] = boost::out_edges(tables, graph);
  for (auto edge = first; edge != last; ++edge) {
    EXPECT_EQ(graph[*edge].index, 1) << "tables come beside the activations";
    names.insert(graph[boost::target(*edge, graph)].name);
  }
  return names;
}

TEST(PrecomputePass, puts_tables_in_front_of_every_product_that_looks_up) {
  const OperatorGraph plain = build_graph(small_model()), graph = with_precompute(plain, of_layers);
  EXPECT_EQ(boost::num_vertices(graph), boost::num_vertices(plain) + 2 * 7);  // q, k, v, output, gate, up, down
  for (const OperatorId id : tables_of(graph)) {
    ASSERT_EQ(readers(graph, id).size(), 1u);
    EXPECT_EQ(*readers(graph, id).begin() + ".tables", graph[id].name);
    const OperatorId product = boost::target(*boost::out_edges(id, graph).first, graph);
    EXPECT_EQ(inputs_of(graph, id).front(), inputs_of(graph, product).front()) << "of the product's own activations";
  }
}

TEST(PrecomputePass, products_with_one_input_share_their_tables) {
  const OperatorGraph graph = share_precompute(with_precompute(build_graph(small_model()), of_layers), always);
  const std::vector<OperatorId> tables = tables_of(graph);
  ASSERT_EQ(tables.size(), 2u * 4);
  EXPECT_EQ(readers(graph, tables[0]), (std::set<std::string>{"blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v"}));
  EXPECT_EQ(readers(graph, tables[1]), (std::set<std::string>{"blk.0.attn_output"}));
  EXPECT_EQ(readers(graph, tables[2]), (std::set<std::string>{"blk.0.ffn_gate", "blk.0.ffn_up"}));
  EXPECT_EQ(readers(graph, tables[3]), (std::set<std::string>{"blk.0.ffn_down"}));
  std::set<OperatorId> inputs;
  for (const OperatorId id : tables) EXPECT_TRUE(inputs.insert(inputs_of(graph, id).front()).second) << "one for each input";
}

TEST(PrecomputePass, tables_of_other_formats_stay_apart) {
  const auto graph = share_precompute(with_precompute(build_graph(small_model()), of_layers), [](const Operator& a, const Operator& b) {
    return (a.weight == Role::attn_v) == (b.weight == Role::attn_v);
  });
  EXPECT_EQ(tables_of(graph).size(), 2u * 5);
}

// q and v read one order of the input, k another. A unit holds one set of tables, and k's came last.
TEST(PrecomputePass, tables_are_made_again_behind_those_of_another_input) {
  ModelConfig config = small_model();
  const auto graph_of = [&] { return share_precompute(with_precompute(build_graph(config), of_layers), always); };
  config.orders = {{0, Role::attn_q, Role::attn_q}, {0, Role::attn_k, Role::attn_k}, {0, Role::attn_v, Role::attn_q}};
  const OperatorGraph apart = graph_of();
  const std::vector<OperatorId> tables = tables_of(apart);
  ASSERT_EQ(tables.size(), 2u * 4 + 2);
  EXPECT_EQ(readers(apart, tables[0]), (std::set<std::string>{"blk.0.attn_q"}));
  EXPECT_EQ(readers(apart, tables[1]), (std::set<std::string>{"blk.0.attn_k"}));
  EXPECT_EQ(readers(apart, tables[2]), (std::set<std::string>{"blk.0.attn_v"}));
  config.orders[2].same_as = Role::attn_k;  // k and v share, with nothing between them
  config.orders[1].same_as = Role::attn_k;
  EXPECT_EQ(tables_of(graph_of()).size(), 2u * 4 + 1);
}

TEST(PrecomputePass, everything_else_and_the_order_stay) {
  const OperatorGraph plain = build_graph(small_model()), graph = share_precompute(with_precompute(plain, of_layers), always);
  std::vector<std::string> names, kept;
  for (const OperatorId id : execution_order(plain)) names.push_back(plain[id].name);
  for (const OperatorId id : execution_order(graph)) {
    if (!graph[id].is<ops::Precompute>()) kept.push_back(graph[id].name);
  }
  EXPECT_EQ(names, kept);
  EXPECT_EQ(boost::num_edges(graph), boost::num_edges(plain) + tables_of(graph).size() + 2 * 7);
  EXPECT_TRUE(tables_of(with_precompute(plain, [](const Operator&) { return false; })).empty());
}

}  // namespace
}  // namespace vitro
