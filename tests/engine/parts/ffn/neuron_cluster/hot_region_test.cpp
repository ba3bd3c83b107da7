// Long because one scene after another is laid out by hand.
#include "engine/parts/ffn/neuron_cluster/hot_region.hpp"

#include <gmock/gmock.h>

#include <set>

#include "engine/machine/unit_decorator.hpp"
#include "tests/engine/parts/ffn/neuron_cluster/hot_bench.hpp"

namespace vitro {
namespace {

Scene two_layers(double in_dram) {
  Scene scene;
  scene.layers = 2;
  scene.neurons = 32;
  scene.in_dram = in_dram;
  return scene;
}

struct RegionBench {
  explicit RegionBench(Bench& b, std::vector<HotRegionOptions::Split> splits, std::optional<double> in_dram = {})
      : bench(b), graphs(b.machine()) {
    HotRegionOptions options = hot_options(b, std::move(splits));
    options.in_dram = in_dram;
    hot.emplace(b.machine(), graphs, *b.store, std::move(options));
  }
  void prepare(std::uint32_t rows) {
    for (std::int16_t layer = 0; layer < 2; ++layer) hot->prepare(layer, kOnlyFfn, rows);
    bench.run(hot->settle());
  }
  Bench& bench;
  GraphCache graphs;
  std::optional<HotRegion> hot;
};

TEST(HotRegion, grows_with_the_rows_of_a_step_and_gives_back_what_it_had) {
  Bench bench(two_layers(0.5));
  RegionBench region(bench, {{1, 0.25}, {4, 0.5}});
  const NeuronCache& cache = bench.store->cache();
  region.prepare(1);
  EXPECT_EQ(region.hot->neurons(0, -1), 8u);
  EXPECT_EQ(cache.hot_size(), 16u);
  region.prepare(3);
  EXPECT_EQ(region.hot->neurons(1, -1), 16u);
  EXPECT_EQ(cache.hot_size(), 32u);
  region.prepare(1);
  EXPECT_EQ(cache.hot_size(), 16u);
  EXPECT_EQ(cache.size(), 32u) << "what is not hot any more stays as a cold block";
}

TEST(HotRegion, ffns_have_shares_of_their_own_and_less_of_each_where_memory_ends) {
  Bench bench(two_layers(0.5));  // room for eight clusters
  RegionBench region(bench, {{1, 0, {0.25, 0.5}}, {2, 0, {0.5, 1}}});
  region.prepare(1);
  EXPECT_EQ(region.hot->neurons(0, -1), 8u);
  EXPECT_EQ(region.hot->neurons(1, -1), 16u);
  region.prepare(2);
  EXPECT_EQ(region.hot->neurons(0, -1), 8u) << "4 of 12 clusters are wanted here, and two thirds are there";
  EXPECT_EQ(region.hot->neurons(1, -1), 20u);
  region.prepare(1);
  EXPECT_EQ(bench.store->cache().hot_size(), 24u);
  std::set<std::uint32_t> sizes;
  for (const UnitChain& graph : region.hot->graphs(1, 1)) sizes.insert(graph.chain.front().rows->size());
  EXPECT_EQ(sizes, (std::set<std::uint32_t>{8, 16}));
}

TEST(HotRegion, reads_what_is_missing_in_long_runs_and_evicts_cold_blocks_for_it) {
  Bench bench(two_layers(0.25));  // 8 blocks of each layer are there
  RegionBench region(bench, {{1, 0.25}, {4, 0.5}}, 1.0);
  region.prepare(1);
  EXPECT_EQ(bench.machine().storage.totals().bytes_read, 16 * 24 * KiB) << "the first fill alone";
  NeuronCache& cache = bench.store->cache();
  for (std::uint32_t block = 0; block < 4; ++block) EXPECT_TRUE(cache.hot(block));
  // Half of the FFNs is twice what fits: each keeps its part.
  region.prepare(4);
  EXPECT_EQ(region.hot->neurons(0, -1), 8u);
  EXPECT_EQ(region.hot->neurons(1, -1), 8u);
}

TEST(HotRegion, a_share_of_the_cache_may_be_kept_for_cold_neurons) {
  Bench bench(two_layers(0.5));
  RegionBench region(bench, {{1, 1.0}}, 0.25);
  region.prepare(1);
  EXPECT_EQ(bench.store->cache().hot_size(), 16u);
}

// 16 of 32 blocks of two layers are there, 8 of them hot in two clusters of 4: 16 slots are left to the cold ones of both. `named` of them
// are used by a layer, 6 were there, and `near` stand in the cluster behind the hot ones.
std::uint32_t hot_after_steps_with(std::uint32_t named, std::uint32_t near) {
  Bench bench(two_layers(0.5));
  RegionBench region(bench, {{1, 0.25}});
  for (int step = 0; step < 6; ++step) {
    region.prepare(1);
    for (std::int16_t layer = 0; layer < 2; ++layer) region.hot->used_cold(layer, -1, 1, {named, near, 6});
  }
  EXPECT_EQ(region.hot->next_cluster(1, -1), std::pair(32 + region.hot->neurons(1, -1), 4u));
  return region.hot->neurons(0, -1);
}

TEST(HotRegion, grows_no_further_than_what_a_layer_has_pinned_lets_it) {
  Bench bench(two_layers(0.25));
  RegionBench region(bench, {{1, 0.25}}, 1.0);
  NeuronCache& cache = bench.store->cache();
  for (const std::uint32_t first : {8u, 40u}) {  // cold blocks of both layers, all that there is room for, and pinned
    for (std::uint32_t block = first; block < first + 8; ++block) cache.admit(block, cache.take_slot(), true);
  }
  EXPECT_EQ(cache.size(), cache.capacity());
  region.prepare(1);
  EXPECT_EQ(cache.hot_size(), 0u);
  cache.unpin_all();
  region.prepare(1);
  EXPECT_EQ(cache.hot_size(), 16u);
}

// One layer or two of four experts of 16 neurons, of which 16 in all fit: four clusters.
Scene mixture(std::uint32_t layers) {
  Scene scene;
  scene.layers = layers;
  scene.experts = 4;
  scene.neurons = 16;
  scene.in_dram = 0.25 / layers;
  return scene;
}

struct Experts : RegionBench {
  explicit Experts(Bench& b) : RegionBench(b, {{1, 1.0}}, 1.0) {}
  ~Experts() { settle(); }
  void begin(std::int16_t layer, std::vector<std::int16_t> experts) { hot->prepare(layer, experts, 1); }
  void settle() {
    bench.run(hot->settle());
    bench.store->cache().unpin_all();  // as the pipeline does when a layer is through
  }
  std::vector<std::uint32_t> neurons(std::int16_t layer) const {
    std::vector<std::uint32_t> out;
    for (std::int16_t expert = 0; expert < 4; ++expert) out.push_back(hot->neurons(layer, expert));
    return out;
  }
};

TEST(HotRegion, experts_of_one_step_share_what_there_is) {
  Bench bench(mixture(1));
  Experts region(bench);
  region.begin(0, {0, 2});
  EXPECT_THAT(region.neurons(0), testing::ElementsAre(8, 0, 8, 0));
  EXPECT_THAT(bench.spans.log, testing::Not(testing::HasSubstr("shrink")));
  region.settle();
  region.begin(0, {1, 2, 3});
  EXPECT_THAT(region.neurons(0), testing::ElementsAre(0, 4, 8, 4)) << "who has more keeps it; the one that is not needed gives it up";
  region.settle();
  region.begin(0, {3});
  EXPECT_THAT(region.neurons(0), testing::ElementsAre(0, 0, 0, 16));
}

TEST(HotRegion, more_experts_than_clusters_have_none) {
  Bench bench(mixture(2));  // four clusters, of which two layers' fill has the blocks
  Experts region(bench);
  region.begin(0, {0, 1, 2, 3});
  EXPECT_THAT(region.neurons(0), testing::ElementsAre(4, 4, 4, 4));
  region.begin(1, {0, 1, 2, 3});
  EXPECT_THAT(region.neurons(1), testing::ElementsAre(0, 0, 0, 0)) << "all of the region is prepared";
}

// What a step has not computed yet, or what has not come, counts as resident: were it to go, garbage would be computed.
TEST(HotRegion, what_is_prepared_or_still_read_never_goes) {
  Bench bench(mixture(2));
  Experts region(bench);
  region.begin(0, {3});  // the fill has two of its blocks
  EXPECT_EQ(region.neurons(0)[3], 16u);
  region.begin(1, {0});
  EXPECT_EQ(region.neurons(1)[0], 0u) << "held by a step";
  region.hot->release(0);
  region.begin(1, {0});
  EXPECT_EQ(region.neurons(1)[0], 0u) << "its reads are under way";
  region.settle();
  region.begin(1, {0});
  EXPECT_EQ(region.neurons(1)[0], 16u);
  EXPECT_EQ(region.neurons(0)[3], 0u);
}

// Random steps, some of which wait for nothing: no FFN shrinks between its prepare() and its release(), none takes a slot that a read under
// way writes to, and there are never more hot blocks than room.
TEST(HotRegion, random_steps_of_experts_keep_what_is_in_use) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    Scene scene = mixture(2);
    scene.in_dram = 0.01 + 0.5 * rng.uniform();
    Bench bench(scene);
    Experts region(bench);
    const NeuronCache& cache = bench.store->cache();
    std::set<std::uint32_t> held;  // FFNs
    std::map<std::uint32_t, std::uint32_t> kept;
    const auto hot_of = [&](std::uint32_t f) {
      return region.hot->neurons(static_cast<std::int16_t>(f / 4), static_cast<std::int16_t>(f % 4));
    };
    for (int step = 0; step < 40; ++step) {
      const auto layer = static_cast<std::int16_t>(rng.below(2));
      if (rng.below(3) == 0) {
        region.settle();
        held.clear();
      }
      std::set<std::int16_t> wanted;
      for (int i = 0; i < 3; ++i) wanted.insert(static_cast<std::int16_t>(rng.below(4)));
      std::erase_if(wanted, [&](std::int16_t e) { return held.contains(static_cast<std::uint32_t>(4 * layer + e)); });
      if (wanted.empty()) continue;
      kept.clear();
      for (const std::uint32_t f : held) kept[f] = hot_of(f);
      region.begin(layer, {wanted.begin(), wanted.end()});
      for (const auto& [f, neurons] : kept) ASSERT_EQ(hot_of(f), neurons) << "seed " << seed;
      for (const std::int16_t e : wanted) held.insert(static_cast<std::uint32_t>(4 * layer + e));
      std::set<std::uint32_t> slots;
      for (std::uint32_t f = 0; f < 8; ++f) {
        for (std::uint32_t n = 0; n < hot_of(f); ++n) {
          const std::uint32_t slot = cache.slot_of(16 * f + n);
          ASSERT_NE(slot, NeuronCache::kNone);
          ASSERT_TRUE(slots.insert(slot).second) << "seed " << seed;
        }
      }
      ASSERT_EQ(slots.size(), cache.hot_size());
      ASSERT_LE(cache.size(), cache.capacity());
    }
  }
}

TEST(HotRegion, shrinks_when_the_cold_blocks_of_a_step_do_not_fit_beside_it) {
  EXPECT_EQ(hot_after_steps_with(8, 1), 8u) << "they fit";
  EXPECT_EQ(hot_after_steps_with(9, 1), 4u) << "two are too many, a cluster of each layer makes room: then 24 slots for 18";
  EXPECT_EQ(hot_after_steps_with(16, 1), 0u);
  EXPECT_EQ(hot_after_steps_with(16, 4), 8u) << "every step needs the hot ones, and finds 12 in the 16 cold slots";
}

TEST(HotRegion, without_room_nothing_is_hot) {
  Bench bench(two_layers(0.0));
  RegionBench region(bench, {{1, 0.5}});
  region.prepare(1);
  EXPECT_EQ(region.hot->neurons(0, -1), 0u);
}

// Cold blocks behind the hot ones fill the cache, so that each hot block has to be read. Reads fail while `broken`.
struct Unread {
  explicit Unread(std::uint32_t depth = 4) : bench(scene()) {
    NeuronCache& cache = bench.store->cache();
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
      for (std::uint32_t i = 8; i < 16; ++i) cache.admit(layer * 32 + i, cache.take_slot(), true);
    }
    cache.unpin_all();
    HotRegionOptions options = hot_options(bench, {{1, 0.25}});
    options.in_dram = 1.0;
    options.io_depth = depth;
    graphs.emplace(bench.machine());
    hot.emplace(bench.machine(), *graphs, *bench.store, std::move(options));
  }
  Scene scene() {
    Scene scene = two_layers(0.25);
    scene.fault = [this](const ReadRequest&) {
      if (broken) ++failed;
      return broken ? Status{Code::io_error, "the flash is gone"} : Status{};
    };
    return scene;
  }
  // One row through the hot neurons of layer 0; the cause if that fails.
  std::string step() {
    hot->prepare(0, kOnlyFfn, 1, 1);
    FfnGroup group;
    group.rows = std::make_shared<const std::vector<SeqPos>>(1);
    std::string cause;
    const auto run = [](HotRegion* region, const FfnGroup* rows, std::string* why) -> Task<void> {
      try {
        co_await region->run(0, rows, 0, View{});
      } catch (const RunError& error) {
        *why = error.what();
      }
      co_await region->settle();
    };
    bench.run(run(&*hot, &group, &cause));
    return cause;
  }
  bool broken = false;
  int failed = 0;
  Bench bench;
  std::optional<GraphCache> graphs;
  std::optional<HotRegion> hot;
};

TEST(HotRegion, a_read_that_fails_twice_ends_the_step_that_needs_the_neurons) {
  Unread region;
  region.broken = true;
  EXPECT_THAT(region.step(), testing::HasSubstr("the flash is gone"));
  EXPECT_GE(region.failed, 2);
  EXPECT_TRUE(region.hot->failed());
}

TEST(HotRegion, after_a_failure_it_starts_anew_and_reads_again) {
  Unread region;
  region.broken = true;
  ASSERT_NE(region.step(), "");
  region.bench.store->cache().clear();
  region.hot->start_anew();
  EXPECT_FALSE(region.hot->failed());
  region.broken = false;
  const Bytes before = region.bench.machine().storage.totals().bytes_read;
  EXPECT_EQ(region.step(), "");
  EXPECT_EQ(region.hot->neurons(0, -1), 8u);
  EXPECT_EQ(region.bench.machine().storage.totals().bytes_read - before, 8 * 24 * KiB);
}

// Takes graphs, and can not load them.
class NoGraphs final : public UnitDecorator {
 public:
  explicit NoGraphs(ComputeUnit& inner) : UnitDecorator(inner), caps_(inner.caps()) { caps_.static_graphs = true; }
  const UnitCaps& caps() const override { return caps_; }
  Task<Result<Graph>> load(GraphSpec) override { co_return Status{Code::unsupported_shape, "no room for a graph"}; }

 private:
  UnitCaps caps_;
};

// Reads must not stop with it: the step would wait for them for ever.
TEST(HotRegion, a_graph_that_does_not_load_ends_the_step_with_its_cause) {
  Unread region;
  NoGraphs unit(*region.bench.machine().units.front());
  HotRegionOptions options = hot_options(region.bench, {{1, 0.25}});
  options.in_dram = 1.0;
  options.unit = &unit;
  region.hot.emplace(region.bench.machine(), *region.graphs, *region.bench.store, std::move(options));
  EXPECT_THAT(region.step(), testing::HasSubstr("no room for a graph"));
  EXPECT_EQ(region.bench.store->cache().hot_size(), 8u) << "its blocks have come all the same";
}

// Experts of one step are prepared one after the other; together they have the depth of one.
TEST(HotRegion, no_more_reads_are_under_way_than_its_depth) {
  Unread region(1);
  const Picoseconds before = region.bench.machine().clock.now();
  region.hot->prepare(0, kOnlyFfn, 1);
  region.hot->prepare(1, kOnlyFfn, 1);
  region.bench.run(region.hot->settle());
  EXPECT_EQ(region.bench.machine().clock.now() - before, 16 * kUnit) << "16 blocks, one after the other";
}

// Random batches: hot blocks are the first ones of each FFN, all of them resident, and never more than there is room for.
TEST(HotRegion, random_batches_keep_its_laws) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    Scene scene = two_layers(0.3 + 0.7 * rng.uniform());
    Bench bench(scene);
    const double first = rng.uniform();
    RegionBench region(bench, {{2, first}, {4, first + (1 - first) * rng.uniform()}}, rng.uniform());
    const NeuronCache& cache = bench.store->cache();
    for (int step = 0; step < 30; ++step) {
      region.prepare(static_cast<std::uint32_t>(1 + rng.below(5)));
      std::uint32_t hot = 0;
      for (std::int16_t layer = 0; layer < 2; ++layer) {
        for (std::uint32_t n = 0; n < 32; ++n) {
          const std::uint32_t block = bench.store->block_of(layer, -1, n);
          const bool expected = n < region.hot->neurons(layer, -1);
          ASSERT_EQ(cache.hot(block), expected);
          ASSERT_TRUE(!expected || cache.resident(block));
          hot += expected;
        }
      }
      ASSERT_EQ(hot, cache.hot_size());
      ASSERT_LE(cache.size(), cache.capacity());
    }
  }
}

}  // namespace
}  // namespace vitro
