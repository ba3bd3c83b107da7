#include "engine/parts/ffn/neuron_cluster/cluster_plan.hpp"

#include "tests/engine/parts/ffn/neuron_cluster/bench.hpp"

namespace vitro {
namespace {

TEST(ClusterPlan, loads_of_a_cluster_fit_half_the_staging_slots_and_a_block_belongs_to_one_cluster) {
  Scene setup;
  setup.neurons = 64;
  setup.width = 256;  // 1536-byte bundles: two to a block
  setup.in_dram = 0.2;
  setup.staging = 8 * kPageSize;
  Bench bench(setup);
  ASSERT_EQ(bench.store->layout().per_block, 2u);
  FfnGroup group;
  group.rows = std::make_shared<const std::vector<SeqPos>>(1);
  ClusterPlanOptions options;
  options.cluster_neurons = 13;
  options.partials = 3;
  const IndexList all = std::make_shared<const std::vector<std::uint32_t>>(range(64));
  const std::vector<Cluster> clusters = plan_clusters(*bench.store, 0, {{&group, all}}, options);
  std::vector<std::uint32_t> neurons, blocks;
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    const Cluster& cluster = clusters[i];
    EXPECT_LE(cluster.loads.size(), 4u);
    EXPECT_LT(cluster.partial, 3u);
    EXPECT_EQ(cluster.continues, i > 0 && clusters[i - 1].partial == cluster.partial);
    neurons.insert(neurons.end(), cluster.neurons->begin(), cluster.neurons->end());
    blocks.insert(blocks.end(), cluster.blocks.begin(), cluster.blocks.end());
  }
  EXPECT_EQ(neurons, *all);
  EXPECT_EQ(blocks, range(32));
  EXPECT_EQ(clusters.back().partial, 2u);
}

}  // namespace
}  // namespace vitro
