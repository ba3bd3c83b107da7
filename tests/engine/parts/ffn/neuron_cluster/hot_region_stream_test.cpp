// Hot clusters that are read for every step: one buffer, which the FFNs take in turns.
#include <gmock/gmock.h>

#include <array>

#include "tests/engine/parts/ffn/neuron_cluster/hot_bench.hpp"

namespace vitro {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

constexpr Bytes kBlock = 24 * KiB;

// Two or more layers of 32 neurons in clusters of 4: of the first 12 of each, which are hot, the last 4 are streamed.
class Streams {
 public:
  explicit Streams(double in_dram = 0.5, std::vector<HotRegionOptions::Split> splits = {{1, 0.375, {}, 0.125}}, std::uint32_t layers = 2,
                   std::uint32_t experts = 1)
      : bench(scene(in_dram, layers, experts)), graphs_(bench.machine()) {
    hot.emplace(bench.machine(), graphs_, *bench.store, hot_options(bench, std::move(splits)));
  }
  void prepare(std::int16_t layer, std::uint32_t sequences = 1) { hot->prepare(layer, kOnlyFfn, sequences); }
  // One row through the hot neurons; the cause if that fails.
  std::string run(std::int16_t layer) { return run_all(layer, kOnlyFfn).front(); }
  // One row through the hot neurons of each expert, all at once; the cause of each that fails.
  std::vector<std::string> run_all(std::int16_t layer, std::span<const std::int16_t> experts) {
    std::vector<FfnGroup> groups(experts.size());
    std::vector<std::string> causes(experts.size());
    const auto run = [](HotRegion* region, std::int16_t which, const FfnGroup* rows, std::string* why) -> Task<void> {
      try {
        co_await region->run(which, rows, 0, View{});
      } catch (const RunError& error) {
        *why = error.what();
      }
    };
    const auto all = [&](Streams* streams) -> Task<void> {
      TaskScope scope(streams->bench.machine().executor);
      for (std::size_t i = 0; i < groups.size(); ++i) {
        groups[i].expert = experts[i];
        groups[i].rows = std::make_shared<const std::vector<SeqPos>>(1);
        scope.spawn(run(&*streams->hot, layer, &groups[i], &causes[i]));
      }
      co_await scope.join();
    };
    bench.run(all(this));
    return causes;
  }
  void settle() { bench.run(hot->settle()); }
  Bytes read() { return bench.machine().storage.totals().bytes_read - filled; }

  Bytes broken_from = 64 * GiB;  // reads from here on fail
  Bench bench;
  std::optional<HotRegion> hot;
  Bytes filled = bench.machine().storage.totals().bytes_read;

 private:
  Scene scene(double in_dram, std::uint32_t layers, std::uint32_t experts) {
    Scene scene;
    scene.layers = layers;
    scene.experts = experts;
    scene.neurons = 32;
    scene.in_dram = in_dram;
    scene.streamed = 0.125;
    scene.fault = [this](const ReadRequest& r) {
      return r.from.offset >= broken_from ? Status{Code::io_error, "the flash is gone"} : Status{};
    };
    return scene;
  }
  GraphCache graphs_;
};

TEST(HotRegionStream, what_is_streamed_is_hot_and_takes_the_room_of_one_ffn) {
  Streams streams;
  EXPECT_EQ(streams.bench.store->cache().capacity(), 28u) << "of 64 blocks half may stay, 4 of these in the buffer";
  streams.prepare(0);
  EXPECT_EQ(streams.hot->neurons(0, -1), 12u);
  EXPECT_EQ(streams.bench.store->cache().hot_size(), 8u);
  EXPECT_EQ(streams.hot->next_cluster(0, -1), std::pair(12u, 4u)) << "cold neurons begin behind it";
  streams.settle();
  EXPECT_EQ(streams.read(), 4 * kBlock);
  for (std::uint32_t block = 8; block < 12; ++block) EXPECT_FALSE(streams.bench.store->cache().resident(block)) << "the fill had them";
}

TEST(HotRegionStream, the_next_ffn_is_read_when_the_one_before_it_is_through) {
  Streams streams;
  streams.prepare(0);
  EXPECT_EQ(streams.run(0), "");
  streams.prepare(1);
  EXPECT_EQ(streams.run(0), "") << "its neurons are still there";
  EXPECT_EQ(streams.read(), 4 * kBlock) << "the buffer is in use";
  streams.hot->release(0);
  EXPECT_EQ(streams.run(1), "");
  EXPECT_EQ(streams.read(), 8 * kBlock);
  streams.hot->release(1);
  streams.settle();
}

TEST(HotRegionStream, every_step_reads_all_of_it_and_nothing_else) {
  Streams streams(0.5, {{1, 0.375, {}, 0.125}}, 3);
  for (int step = 1; step <= 4; ++step) {
    streams.prepare(0);
    for (std::int16_t layer = 0; layer < 3; ++layer) {
      if (layer < 2) streams.prepare(static_cast<std::int16_t>(layer + 1));
      EXPECT_EQ(streams.run(layer), "");
      streams.hot->release(layer);
    }
    streams.settle();
    EXPECT_EQ(streams.read(), step * 3 * 4 * kBlock);
  }
  EXPECT_EQ(streams.bench.store->cache().hot_size(), 3 * 8u);
}

TEST(HotRegionStream, chunks_of_a_prompt_that_goes_layer_by_layer_read_once) {
  Streams streams;
  for (int chunk = 0; chunk < 3; ++chunk) {
    streams.prepare(0);
    EXPECT_EQ(streams.run(0), "");
    streams.hot->release(0);
  }
  streams.settle();
  EXPECT_EQ(streams.read(), 4 * kBlock);
}

TEST(HotRegionStream, another_batch_has_another_share) {
  Streams streams(0.5, {{1, 0.375, {}, 0.125}, {2, 0.25, {}, 0}});
  streams.prepare(0, 2);
  EXPECT_EQ(streams.hot->neurons(0, -1), 8u);
  streams.settle();
  EXPECT_EQ(streams.read(), 0u);
  streams.prepare(0, 1);
  EXPECT_EQ(streams.hot->neurons(0, -1), 12u);
  streams.settle();
  streams.prepare(0, 2);
  EXPECT_EQ(streams.hot->neurons(0, -1), 8u);
  streams.settle();
  EXPECT_EQ(streams.read(), 4 * kBlock);
  std::set<std::size_t> sizes;
  for (const UnitChain& graph : streams.hot->graphs(1, 1)) sizes.insert(graph.chain.front().rows->size());
  EXPECT_EQ(sizes, (std::set<std::size_t>{12})) << "one graph for both parts";
}

TEST(HotRegionStream, where_everything_stays_nothing_is_streamed) {
  Streams streams(1.0);
  streams.prepare(0);
  EXPECT_EQ(streams.hot->neurons(0, -1), 12u);
  streams.settle();
  EXPECT_EQ(streams.bench.store->cache().hot_size(), 12u);
  EXPECT_EQ(streams.read(), 0u);
}

TEST(HotRegionStream, memory_without_room_for_the_buffer_is_refused) {
  try {
    const Streams streams(0.05);  // three blocks
    FAIL() << "was taken";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("engine.placement.splits.streamed: "));
    EXPECT_THAT(error.what(), HasSubstr("96.00 KiB and 76.80 KiB are left"));
  }
}

TEST(HotRegionStream, a_read_that_fails_ends_the_step_and_the_next_one_reads_again) {
  Streams streams;
  streams.broken_from = 0;
  streams.prepare(0);
  EXPECT_THAT(streams.run(0), HasSubstr("the flash is gone"));
  streams.settle();
  EXPECT_TRUE(streams.hot->failed());
  streams.bench.store->cache().clear();
  streams.hot->start_anew();
  streams.broken_from = 64 * GiB;
  const Bytes before = streams.read();
  streams.prepare(0);
  EXPECT_EQ(streams.run(0), "");
  streams.settle();
  EXPECT_EQ(streams.read() - before, 12 * kBlock) << "what stays, and what does not";
}

// Experts are known when the router has chosen: theirs come in the order of their turns, each when the one before it has been computed.
TEST(HotRegionStream, experts_of_a_step_take_turns_and_a_failure_ends_all_of_them) {
  constexpr std::array<std::int16_t, 3> kChosen{0, 2, 3};
  for (const bool broken : {false, true}) {
    Streams streams(0.5, {{1, 0.375, {}, 0.125}}, 2, 4);
    if (broken) streams.broken_from = 0;
    for (int step = 0; step < 3; ++step) {
      streams.hot->prepare(1, kChosen, 1);
      for (const std::int16_t expert : kChosen) EXPECT_EQ(streams.hot->neurons(1, expert), 12u);
      const std::vector<std::string> causes = streams.run_all(1, kChosen);
      for (const std::string& cause : causes) EXPECT_THAT(cause, MatchesRegex(broken ? ".*the flash is gone.*" : ""));
      streams.hot->release(1);
      streams.settle();
      if (broken) break;
      EXPECT_EQ(streams.read(), Bytes(3 * (step + 1)) * 4 * kBlock) << "the first step found what stays, no step what is streamed";
    }
    EXPECT_EQ(streams.hot->failed(), broken);
  }
}

// The last one of a step has the buffer. Where another batch streams nothing of it, it never takes a turn that would pass the buffer on.
TEST(HotRegionStream, an_expert_that_streams_no_more_keeps_no_other_waiting) {
  constexpr std::array<std::int16_t, 3> kChosen{0, 2, 3};
  std::vector<double> by_ffn(2 * 4, 0.375);
  by_ffn[4 + 3] = 0;  // of the second layer's last expert
  Streams streams(0.5, {{1, 0.375, {}, 0.125}, {2, 0, by_ffn, 0.125}}, 2, 4);
  for (const std::uint32_t sequences : {1u, 2u}) {
    streams.hot->prepare(1, kChosen, sequences);
    EXPECT_EQ(streams.hot->neurons(1, 3), sequences == 1 ? 12u : 0u);
    const std::span<const std::int16_t> hot(kChosen.data(), sequences == 1 ? 3 : 2);
    for (const std::string& cause : streams.run_all(1, hot)) EXPECT_EQ(cause, "");
    streams.hot->release(1);
    streams.settle();
  }
  EXPECT_EQ(streams.read(), (3 + 2) * 4 * kBlock);
}

// Random shares and steps, some of which end early: what a graph takes its neurons from is never written to before it has run.
TEST(HotRegionStream, random_steps_never_overwrite_what_is_prepared) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Rng rng(seed);
    const auto layers = static_cast<std::uint32_t>(2 + rng.below(3));
    Streams streams(0.15 + 0.7 * rng.uniform(), {{1, 0.125 + 0.8 * rng.uniform(), {}, 0.125}}, layers);
    for (int step = 0; step < 6; ++step) {
      streams.prepare(0);
      const auto last = static_cast<std::int16_t>(rng.below(layers));  // the step fails behind it
      for (std::int16_t layer = 0; layer <= last; ++layer) {
        if (layer + 1u < layers) streams.prepare(static_cast<std::int16_t>(layer + 1));
        ASSERT_GE(streams.hot->neurons(layer, -1), 4u);
        const Bytes before = streams.read();
        ASSERT_EQ(streams.run(layer), "") << "seed " << seed;
        ASSERT_LE(streams.read() - before, 32 * kBlock);
        streams.hot->release(layer);
      }
      streams.settle();
    }
    ASSERT_LE(streams.bench.store->cache().size(), streams.bench.store->cache().capacity());
  }
}

}  // namespace
}  // namespace vitro
