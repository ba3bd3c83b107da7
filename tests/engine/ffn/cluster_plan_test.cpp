#include "engine/ffn/cluster_plan.hpp"

#include "tests/engine/ffn/bench.hpp"

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

TEST(ClusterPlan, clusters_of_what_is_in_dram_come_before_clusters_of_what_is_not) {
  Bench bench(Scene{});  // of 8 neurons, 0 to 3 are there; then 6 is read
  bench.layer(0, {6});   // and goes for 3
  FfnGroup group;
  group.rows = std::make_shared<const std::vector<SeqPos>>(1);
  const IndexList all = std::make_shared<const std::vector<std::uint32_t>>(range(8));
  ClusterPlanOptions options;
  options.cluster_neurons = 3;
  const auto planned = [&] {
    std::vector<std::vector<std::uint32_t>> neurons;
    for (const Cluster& cluster : plan_clusters(*bench.store, 0, {{&group, all}}, options)) {
      neurons.push_back(*cluster.neurons);
      std::size_t missing = 0;
      for (const std::uint32_t neuron : *cluster.neurons) missing += bench.store->cache().resident(neuron) ? 0 : 1;
      EXPECT_EQ(cluster.loads.size(), missing);
      EXPECT_EQ(cluster.partial, neurons.size() - 1);
    }
    return neurons;
  };
  EXPECT_EQ(planned(), (std::vector<std::vector<std::uint32_t>>{{0, 1, 2}, {6}, {3, 4, 5}, {7}}));
  options.resident_first = false;
  EXPECT_EQ(planned(), (std::vector<std::vector<std::uint32_t>>{{0, 1, 2}, {3, 4, 5}, {6, 7}}));
}

}  // namespace
}  // namespace vitro
