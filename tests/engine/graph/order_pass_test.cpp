#include "engine/graph/order_pass.hpp"

#include <gtest/gtest.h>

#include <map>

#include "engine/graph/lora_pass.hpp"
#include "engine/graph/lowering.hpp"
#include "engine/graph/operator_graph.hpp"
#include "tests/engine/graph/small_model.hpp"

namespace vitro {
namespace {

using test::small_model;

// q and v of the first layer share an order, k has another one; the second layer has them in its FFN.
const std::vector<InputOrder> kOrders{{0, Role::attn_q, Role::attn_q},       {0, Role::attn_k, Role::attn_k},
                                      {0, Role::attn_v, Role::attn_q},       {0, Role::attn_output, Role::attn_output},
                                      {1, Role::ffn_gate, Role::ffn_gate},   {1, Role::ffn_up, Role::ffn_gate},
                                      {1, Role::ffn_down, Role::ffn_down}};

ModelConfig ordered_model() {
  ModelConfig config = small_model();
  config.orders = kOrders;
  return config;
}

// Of each product that reads a gather: its name, and that of the gather.
std::map<std::string, OperatorId> gathers_of(const OperatorGraph& graph) {
  std::map<std::string, OperatorId> found;
  for (const OperatorId id : execution_order(graph)) {
    if (!graph[id].is<ops::Matmul>()) continue;
    const OperatorId x = inputs_of(graph, id).front();
    if (graph[x].is<ops::Gather>() && std::get<ops::Gather>(graph[x].op).columns) found[graph[id].name] = x;
  }
  return found;
}

TEST(OrderPass, products_with_an_order_read_their_input_by_a_gather_that_equal_orders_share) {
  const OperatorGraph graph = build_graph(ordered_model()), plain = build_graph(small_model());
  const std::map<std::string, OperatorId> gathers = gathers_of(graph);
  ASSERT_EQ(gathers.size(), kOrders.size());
  EXPECT_EQ(boost::num_vertices(graph), boost::num_vertices(plain) + 5);
  EXPECT_EQ(gathers.at("blk.0.attn_q"), gathers.at("blk.0.attn_v"));
  EXPECT_NE(gathers.at("blk.0.attn_q"), gathers.at("blk.0.attn_k"));
  EXPECT_EQ(gathers.at("blk.1.ffn_gate"), gathers.at("blk.1.ffn_up"));
  for (const auto& [product, id] : gathers) {
    const Operator& gather = graph[id];
    EXPECT_EQ(gather.split, Split::replicated);
    EXPECT_EQ(gather.width, graph[unordered(graph, id)].width) << product;
    EXPECT_FALSE(graph[unordered(graph, id)].is<ops::Gather>());
  }
  const Operator& down = graph[gathers.at("blk.1.ffn_down")];
  EXPECT_EQ(down.weight, Role::ffn_down_order);
  EXPECT_EQ(down.width, small_model().ffn);
  EXPECT_EQ(down.layer, 1);
  EXPECT_NE(graph[gathers.at("blk.0.attn_q")].output, graph[gathers.at("blk.0.attn_k")].output) << "both live at once";
  EXPECT_NE(graph[gathers.at("blk.0.attn_q")].output, down.output) << "a buffer has one width";
}

TEST(OrderPass, gathers_add_no_barrier) {
  const ModelConfig config = ordered_model();
  const OperatorGraph graph = build_graph(config), plain = build_graph(small_model());
  for (const std::size_t units : {1u, 3u}) EXPECT_EQ(lower(graph, config, units).size(), lower(plain, config, units).size()) << units;
}

TEST(OrderPass, adapters_read_the_input_as_it_was) {
  for (const LoraOrder order : {LoraOrder::a_bx, LoraOrder::ab_x}) {
    const auto rank = [](const Operator& op) { return op.layer >= 0 ? 4u : 0u; };
    const OperatorGraph graph = with_bypasses(build_graph(ordered_model()), order, rank);
    for (const OperatorId id : execution_order(graph)) {
      if (!graph[id].is<ops::AddProduct>()) continue;
      for (const OperatorId input : inputs_of(graph, id)) EXPECT_FALSE(graph[input].is<ops::Gather>()) << graph[id].name;
    }
  }
}

}  // namespace
}  // namespace vitro
