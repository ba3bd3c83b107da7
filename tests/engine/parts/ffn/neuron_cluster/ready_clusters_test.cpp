#include "engine/parts/ffn/neuron_cluster/ready_clusters.hpp"

#include <gtest/gtest.h>

namespace vitro {
namespace {

using Stage = Cluster::Stage;

TEST(ReadyClusters, are_found_in_the_order_of_neurons) {
  std::vector<Cluster> clusters(200);
  ReadyClusters ready(clusters);
  EXPECT_EQ(ready.count(), 0u);
  EXPECT_EQ(ready.first_gate(), nullptr);
  ready.enter(clusters[150], Stage::gate_ready);
  ready.enter(clusters[3], Stage::gate_ready);
  ready.enter(clusters[1], Stage::rest_ready);
  EXPECT_EQ(ready.count(), 3u);
  EXPECT_EQ(ready.first_gate(), &clusters[3]);
  EXPECT_EQ(ready.first_rest(), &clusters[1]);
  ready.enter(clusters[3], Stage::gate_runs);
  EXPECT_EQ(ready.first_gate(), &clusters[150]);
  EXPECT_EQ(ready.count(), 2u);
}

TEST(ReadyClusters, one_that_adds_to_a_partial_sum_waits_for_it) {
  std::vector<Cluster> clusters(3);
  clusters[1].continues = clusters[2].continues = true;
  ReadyClusters ready(clusters);
  ready.enter(clusters[1], Stage::rest_ready);
  ready.enter(clusters[2], Stage::rest_ready);
  EXPECT_EQ(ready.count(), 0u);
  ready.enter(clusters[0], Stage::rest_ready);
  EXPECT_EQ(ready.first_rest(), &clusters[0]);
  for (Cluster& cluster : clusters) {
    EXPECT_EQ(ready.first_rest(), &cluster);
    EXPECT_EQ(ready.count(), 1u);
    ready.enter(cluster, Stage::rest_runs);
    EXPECT_EQ(ready.count(), 0u);
    EXPECT_FALSE(ready.all_done());
    ready.enter(cluster, Stage::done);
  }
  EXPECT_TRUE(ready.all_done());
}

// Its reads may end after the sum that it waited for.
TEST(ReadyClusters, one_whose_sum_is_there_is_ready_at_once) {
  std::vector<Cluster> clusters(2);
  clusters[1].continues = true;
  ReadyClusters ready(clusters);
  ready.enter(clusters[1], Stage::rest_io);
  ready.enter(clusters[0], Stage::done);
  EXPECT_EQ(ready.count(), 0u);
  ready.enter(clusters[1], Stage::rest_ready);
  EXPECT_EQ(ready.first_rest(), &clusters[1]);
}

}  // namespace
}  // namespace vitro
