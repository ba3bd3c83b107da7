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
  const std::vector<Cluster> clusters = plan_clusters(*bench.store, 0, {{&group, {all}}}, options);
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

struct Planned {
  std::vector<std::uint32_t> neurons, blocks, loads, at, halves;
  friend bool operator==(const Planned&, const Planned&) = default;
};

std::vector<Planned> planned(const std::vector<Cluster>& clusters) {
  std::vector<Planned> out;
  for (const Cluster& cluster : clusters) {
    Planned& one = out.emplace_back(*cluster.neurons, cluster.blocks);
    for (const BlockLoad& load : cluster.loads) one.loads.push_back(load.block), one.at.push_back(load.at);
    for (const BlockLoad& half : cluster.halves) one.halves.push_back(half.block);
  }
  return out;
}

// Random neurons of the second layer, of which some are there, some half and some not; with a list alone, and with bits beside it. The
// blocks of the layer begin with a word of bits, or within one.
TEST(ClusterPlan, where_each_neuron_is_a_block_bits_give_what_a_list_gives) {
  using enum BundleForm;
  for (const auto& [form, neurons] : {std::pair{one_read, 320u}, {two_phases, 320u}, {one_read, 200u}}) {
    Scene setup;
    setup.neurons = neurons;
    setup.layers = 2;
    setup.in_dram = 0.6;
    setup.staging = 12 * 24 * KiB;
    setup.form = form;
    Bench bench(setup);
    NeuronStore& store = *bench.store;
    ASSERT_EQ(store.layout().per_block, 1u);
    const bool halves = store.layout().first_part > 0;
    const std::uint32_t most_loads = store.staging_blocks() / 2;
    FfnGroup group;
    group.rows = std::make_shared<const std::vector<SeqPos>>(1);
    Rng rng(3);
    for (int trial = 0; trial < 60; ++trial) {
      SCOPED_TRACE(trial);
      const auto hot = static_cast<std::uint32_t>(rng.below(100));  // others compute these
      std::vector<std::uint32_t> named;
      std::vector<std::uint64_t> bits((setup.neurons + 63) / 64);
      for (std::uint32_t neuron = 0; neuron < setup.neurons; ++neuron) {
        if (rng.below(3) == 0) continue;
        bits[neuron / 64] |= std::uint64_t{1} << neuron % 64;
        if (neuron >= hot) named.push_back(neuron);
        const std::uint32_t block = store.block_of(1, -1, neuron);
        if (halves && store.cache().resident(block)) store.cache().set_half(block, rng.below(9) == 0);
      }
      ClusterPlanOptions options;
      options.cluster_neurons = 1 + static_cast<std::uint32_t>(rng.below(90));
      const NamedNeurons by_list{std::make_shared<const std::vector<std::uint32_t>>(named)};
      const NamedNeurons by_bits{by_list.list, std::make_shared<const std::vector<std::uint64_t>>(bits)};
      const std::vector<Planned> clusters = planned(plan_clusters(store, 1, {{&group, by_list}}, options));
      ASSERT_EQ(planned(plan_clusters(store, 1, {{&group, by_bits}}, options)), clusters);
      std::vector<std::uint32_t> all;
      for (const Planned& cluster : clusters) {
        ASSERT_LE(cluster.neurons.size(), options.cluster_neurons);
        ASSERT_LE(cluster.loads.size(), most_loads);
        for (std::size_t i = 0; i < cluster.neurons.size(); ++i) {
          const std::uint32_t block = cluster.blocks[i];
          ASSERT_EQ(block, store.block_of(1, -1, cluster.neurons[i]));
          const auto load = std::ranges::find(cluster.loads, block);
          ASSERT_EQ(load != cluster.loads.end(), !store.cache().resident(block));
          if (load != cluster.loads.end()) ASSERT_EQ(cluster.at[static_cast<std::size_t>(load - cluster.loads.begin())], i);
          ASSERT_EQ(std::ranges::find(cluster.halves, block) != cluster.halves.end(), store.cache().half(block));
        }
        all.insert(all.end(), cluster.neurons.begin(), cluster.neurons.end());
      }
      ASSERT_EQ(all, named);
      store.cache().unpin_all();
    }
  }
}

TEST(ClusterPlan, a_group_without_neurons_has_one_cluster_that_does_nothing) {
  Bench bench(Scene{});
  FfnGroup group;
  group.rows = std::make_shared<const std::vector<SeqPos>>(1);
  const NamedNeurons none{std::make_shared<const std::vector<std::uint32_t>>()};
  EXPECT_EQ(planned(plan_clusters(*bench.store, 0, {{&group, none}}, {})), std::vector<Planned>(1));
}

}  // namespace
}  // namespace vitro
