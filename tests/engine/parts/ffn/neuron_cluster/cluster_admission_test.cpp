#include "engine/parts/ffn/neuron_cluster/cluster_admission.hpp"

#include "tests/engine/parts/ffn/neuron_cluster/bench.hpp"

namespace vitro {
namespace {

Scene scene(bool bits) {
  Scene setup;
  setup.neurons = 192;
  setup.in_dram = 0.5;
  setup.cluster_neurons = 24;
  setup.keep_silent = true;
  setup.bits = bits;
  return setup;
}

// Random steps of neurons, of which some are silent.
TEST(ClusterAdmission, predictions_that_come_as_bits_change_nothing) {
  Bench by_list(scene(false)), by_bits(scene(true));
  Rng rng(7);
  for (int step = 0; step < 30; ++step) {
    SCOPED_TRACE(step);
    std::vector<std::uint32_t> named;
    for (std::uint32_t neuron = 0; neuron < 192; ++neuron) {
      if (rng.below(3) == 0) named.push_back(neuron);
    }
    const auto odd = static_cast<std::uint32_t>(rng.below(5));
    by_list.gate.fires = by_bits.gate.fires = [odd](std::uint32_t neuron) { return neuron % 5 != odd; };
    const Report expected = by_list.layer(0, named), report = by_bits.layer(0, named);
    ASSERT_EQ(report.log, expected.log);
    ASSERT_EQ(report.active, expected.active);
    ASSERT_EQ(report.stats.hits, expected.stats.hits);
    ASSERT_EQ(report.stats.misses, expected.stats.misses);
    ASSERT_EQ(report.took, expected.took);
  }
  EXPECT_GT(by_bits.pipeline->stats().misses, 100u);
}

TEST(ClusterAdmission, an_answer_with_a_neuron_that_was_not_asked_for_ends_the_step) {
  for (const bool bits : {false, true}) {
    SCOPED_TRACE(bits);
    Bench bench(scene(bits));
    bench.gate.also = 12;
    EXPECT_NO_THROW(bench.layer(0, {3, 9, 12, 17}));
    bench.gate.also = 13;
    EXPECT_THROW(bench.layer(0, {3, 9, 12, 17}), RunError) << "between the first and the last";
  }
}

}  // namespace
}  // namespace vitro
