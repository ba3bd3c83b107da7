#include "engine/graph/lora_pass.hpp"

#include <gtest/gtest.h>

#include <set>

#include "engine/graph/lowering.hpp"
#include "engine/graph/operator_graph.hpp"
#include "tests/engine/graph/small_model.hpp"

namespace vitro {
namespace {

using test::small_model;

constexpr std::uint32_t kRank = 4;
std::uint32_t every_layer(const Operator& product) { return product.layer >= 0 ? kRank : 0; }
std::uint32_t second_up(const Operator& product) { return product.layer == 1 && product.weight == Role::ffn_up ? kRank : 0; }

std::vector<std::string> names_of(const OperatorGraph& graph, bool bypasses) {
  std::vector<std::string> names;
  for (const OperatorId id : execution_order(graph)) {
    if (graph[id].is<ops::AddProduct>() == bypasses) names.push_back(graph[id].name);
  }
  return names;
}

TEST(LoraPass, puts_two_narrow_products_around_each_adapted_matrix) {
  const OperatorGraph plain = build_graph(small_model()), graph = with_bypasses(plain, LoraOrder::a_bx, second_up);
  EXPECT_EQ(names_of(graph, true), (std::vector<std::string>{"blk.1.ffn_up.lora_a", "blk.1.ffn_up.lora_b"}));
  EXPECT_EQ(names_of(graph, false), names_of(plain, false)) << "the rest keeps its order";
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
    const Operator& op = graph[id];
    if (op.name == "blk.1.ffn_up.lora_a") {
      EXPECT_EQ(op.width, kRank);
      EXPECT_FALSE(op.op == Op(ops::AddProduct{})) << "starts from zero";
      EXPECT_EQ(graph[inputs_of(graph, id).at(kBypassInput)].name, "blk.1.ffn_norm");
    }
    if (op.name == "blk.1.ffn_up.lora_b") {
      const std::vector<OperatorId> inputs = inputs_of(graph, id);
      EXPECT_EQ(graph[inputs.at(kBypassInput)].name, "blk.1.ffn_up.lora_a");
      EXPECT_EQ(graph[inputs.at(kAdaptedProduct)].name, "blk.1.ffn_up");
      EXPECT_EQ(op.output, graph[inputs[kAdaptedProduct]].output) << "in place";
      EXPECT_EQ(op.adapts, Role::ffn_up);
      EXPECT_FALSE(op.weight);
    }
    if (op.name == "blk.1.ffn_act") {
      EXPECT_EQ(graph[inputs_of(graph, id).at(1)].name, "blk.1.ffn_up.lora_b") << "reads the adapted product";
    }
  }
}

TEST(LoraPass, parts_of_one_matrix_share_the_first_of_the_two_products) {
  ModelConfig config = small_model();
  config.joined_qkv = true;
  const auto first_layer = [](const Operator& product) { return product.layer == 0 && product.weight == Role::attn_qkv ? kRank : 0; };
  const OperatorGraph graph = with_bypasses(build_graph(config), LoraOrder::a_bx, first_layer);
  EXPECT_EQ(names_of(graph, true), (std::vector<std::string>{"blk.0.attn_q.lora_a", "blk.0.attn_q.lora_b", "blk.0.attn_k.lora_b",
                                                             "blk.0.attn_v.lora_b"}));
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
    const Operator& op = graph[id];
    if (op.name == "blk.0.attn_q.lora_a") {
      EXPECT_EQ(op.part, Slice{}) << "all of A";
    }
    if (op.name != "blk.0.attn_v.lora_b") continue;
    EXPECT_EQ(op.part, (Slice{96, 32}));
    EXPECT_EQ(graph[inputs_of(graph, id).at(kBypassInput)].name, "blk.0.attn_q.lora_a");
    EXPECT_EQ(graph[inputs_of(graph, id).at(kAdaptedProduct)].name, "blk.0.attn_v");
  }
}

TEST(LoraPass, the_other_order_is_one_operator_that_meets_the_input_itself) {
  const OperatorGraph graph = with_bypasses(build_graph(small_model()), LoraOrder::ab_x, second_up);
  ASSERT_EQ(names_of(graph, true), std::vector<std::string>{"blk.1.ffn_up.lora_b"});
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
    if (graph[id].name != "blk.1.ffn_up.lora_b") continue;
    EXPECT_EQ(graph[inputs_of(graph, id).at(kBypassInput)].name, "blk.1.ffn_norm");
  }
}

TEST(LoraPass, without_adapters_the_graph_stays) {
  const OperatorGraph plain = build_graph(small_model()), graph = with_bypasses(plain, LoraOrder::a_bx, [](const Operator&) { return 0u; });
  EXPECT_EQ(boost::num_vertices(graph), boost::num_vertices(plain));
  EXPECT_EQ(boost::num_edges(graph), boost::num_edges(plain));
}

// A bypass costs arithmetic and no join of the units, and whoever reads an adapted product comes after it.
TEST(LoraPass, bypasses_add_no_barrier_and_stand_between_a_product_and_its_readers) {
  const ModelConfig config = small_model();
  const OperatorGraph plain = build_graph(config);
  for (const LoraOrder order : {LoraOrder::a_bx, LoraOrder::ab_x}) {
    const OperatorGraph graph = with_bypasses(plain, order, every_layer);
    for (const std::size_t units : {1u, 2u, 4u}) {
      const std::vector<Phase> phases = lower(graph, config, units);
      EXPECT_EQ(phases.size(), lower(plain, config, units).size()) << units << " units";
      std::set<OperatorId> done;
      for (const Phase& phase : phases) {
        for (const OperatorGroup& group : phase.groups) {
          for (const OperatorId id : group.operators) {
            for (const OperatorId input : inputs_of(graph, id)) EXPECT_TRUE(done.contains(input)) << graph[id].name;
            done.insert(id);
          }
        }
      }
      EXPECT_EQ(done.size(), boost::num_vertices(graph));
    }
  }
}

}  // namespace
}  // namespace vitro
