#include "engine/graph/norm_pass.hpp"
#include "engine/graph/operator_graph.hpp"
#include "tests/engine/graph/small_model.hpp"

#include <gtest/gtest.h>

namespace vitro {
namespace {

using test::small_model;

ModelConfig with_epsilon() {
  ModelConfig c = small_model();
  c.norm_eps = 3e-6f;
  return c;
}

template <class T>
std::vector<OperatorId> of(const OperatorGraph& graph) {
  std::vector<OperatorId> ids;
  for (const OperatorId id : execution_order(graph)) {
    if (graph[id].is<T>()) ids.push_back(id);
  }
  return ids;
}

TEST(NormPass, the_two_parts_of_each_norm_become_one_operator_with_their_names_and_inputs) {
  const OperatorGraph parts = build_graph(with_epsilon(), {.fuse = Fuse::geometry}), fused = fuse_norms(parts);
  EXPECT_EQ(of<ops::InverseRms>(parts).size(), 2u * 2 + 1);
  EXPECT_TRUE(of<ops::InverseRms>(fused).empty());
  EXPECT_TRUE(of<ops::ScaleRows>(fused).empty());
  const std::vector<OperatorId> scales = of<ops::ScaleRows>(parts), norms = of<ops::RmsNorm>(fused);
  ASSERT_EQ(norms.size(), scales.size());
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const Operator &norm = fused[norms[i]], &scale = parts[scales[i]];
    EXPECT_EQ(std::get<ops::RmsNorm>(norm.op).eps, 3e-6f);
    EXPECT_EQ(norm.name, scale.name);
    EXPECT_EQ(norm.output, scale.output);
    EXPECT_EQ(norm.weight, scale.weight);
    ASSERT_EQ(boost::in_degree(norms[i], fused), 1u);
    EXPECT_EQ(fused[inputs_of(fused, norms[i]).front()].name, parts[inputs_of(parts, scales[i]).front()].name);
    EXPECT_EQ(boost::out_degree(norms[i], fused), boost::out_degree(scales[i], parts));
  }
  EXPECT_EQ(boost::num_vertices(fused), boost::num_vertices(parts) - norms.size());
}

TEST(NormPass, a_scale_that_somebody_else_reads_or_that_is_of_other_rows_stays) {
  for (const bool read_twice : {true, false}) {
    OperatorGraph graph = build_graph(with_epsilon(), {.fuse = Fuse::geometry});
    const OperatorId earlier = of<ops::InverseRms>(graph).at(0), rms = of<ops::InverseRms>(graph).at(1);
    if (read_twice) {
      boost::add_edge(rms, boost::num_vertices(graph) - 1, Operand{1}, graph);
    } else {
      const OperatorId scale = of<ops::ScaleRows>(graph).at(1);
      boost::remove_edge(inputs_of(graph, scale).front(), scale, graph);
      boost::add_edge(inputs_of(graph, earlier).front(), scale, Operand{0}, graph);
    }
    const OperatorGraph fused = fuse_norms(graph);
    EXPECT_EQ(of<ops::ScaleRows>(fused).size(), 1u);
    EXPECT_EQ(of<ops::RmsNorm>(fused).size(), 4u);
  }
}

}  // namespace
}  // namespace vitro
