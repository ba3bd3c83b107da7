#include "engine/parts/ffn/neuron_cluster/window_steps.hpp"

#include "tests/engine/parts/ffn/neuron_cluster/bench.hpp"

namespace vitro {
namespace {

class Counts final : public FfnBlock {
 public:
  explicit Counts(std::uint64_t& runs) : runs_(runs) {}
  Task<void> run(std::int16_t, std::vector<FfnGroup>) override {
    ++runs_;
    co_return;
  }

 private:
  std::uint64_t& runs_;
};

std::vector<FfnGroup> group_of(std::size_t rows) {
  FfnGroup group;
  group.rows = std::make_shared<const std::vector<SeqPos>>(rows);
  return {group};
}

TEST(WindowSteps, a_token_ends_when_the_layers_begin_again_and_a_prefill_ends_none) {
  Scene scene;
  scene.layers = 2;
  scene.eviction = "window";
  scene.window = 1;
  Bench bench(scene);
  NeuronCache& cache = bench.store->cache();
  const std::uint32_t filled = cache.size();
  ASSERT_GT(filled, 0u);
  std::uint64_t runs = 0;
  WindowSteps steps(std::make_unique<Counts>(runs), bench.machine(), *bench.store, 8);
  const auto step = [&](std::size_t rows) {
    for (const std::int16_t layer : {0, 1}) bench.run(steps.run(layer, group_of(rows)));
  };
  step(8);
  step(8);
  step(1);  // the first token
  step(8);
  step(1);
  EXPECT_EQ(cache.size(), filled) << "the window reaches back over one token";
  cache.touch(0);
  step(1);
  EXPECT_EQ(cache.resident_blocks(), std::vector<std::uint32_t>{0});
  EXPECT_EQ(bench.spans.log.substr(0, 33), "evict layer 0 block 3 cold\nevict ");
  EXPECT_EQ(runs, 12u);
}

}  // namespace
}  // namespace vitro
