// Long because one scene after another is timed by hand.
#include "engine/parts/ffn/neuron_cluster/cluster_pipeline.hpp"

#include <map>
#include <set>

#include "tests/engine/parts/ffn/neuron_cluster/bench.hpp"

namespace vitro {
namespace {

// The example of PowerInfer-2, Figure 6: 8 clusters, 4 of them in memory, 4 computing cores and one that reads. A stage
// and a read take 2 units each.
//   none:    reads until 8, eight Gates on four cores until 12, then Up and Down until 16.
//   matrix:  Gates 0-3 until 2; 4, 5, 6, 7 as they come, at 2, 4, 6, 8, each taking 2: until 10; Up and Down until 14.
//   cluster: from 2 on the idle cores go on to Up and Down: 0-2 until 4, 3 and 4 until 6, 5 until 8, 6 until 10, 7 until 12.
TEST(ClusterPipeline, the_eight_clusters_of_figure_6_take_the_times_computed_by_hand) {
  const std::pair<PipelineKind, int> expected[] = {{PipelineKind::none, 16}, {PipelineKind::matrix, 14}, {PipelineKind::cluster, 12}};
  for (const auto& [kind, units] : expected) {
    Scene setup;
    setup.kind = kind;
    setup.compute = setup.read = 2 * kUnit;
    EXPECT_EQ(Bench(setup).layer(0, range(8)).took, units * kUnit) << static_cast<int>(kind);
  }
}

// Issuing would interrupt what it computes.
TEST(ClusterPipeline, the_core_that_reads_computes_only_while_nothing_is_read) {
  Scene setup;
  setup.neurons = 48;
  setup.reader_computes = true;
  setup.staging = 48 * 24 * KiB;  // no read waits for a slot
  setup.compute = 8 * kUnit;  // so that something is left when the last read has come
  Picoseconds last_read{0}, its_first{Picoseconds::max()}, others_first{Picoseconds::max()};
  Bench* running = nullptr;
  setup.seen = [&](const UnitCaps& unit, const KernelCall&) {
    if (running == nullptr) return;
    Picoseconds& first = unit.id == UnitId(4) ? its_first : others_first;
    first = std::min(first, running->machine().clock.now());
  };
  setup.fault = [&](const ReadRequest&) {
    if (running != nullptr) last_read = std::max(last_read, running->machine().clock.now());
    return Status{};
  };
  Bench bench(setup);
  running = &bench;
  bench.layer(0, range(48));
  EXPECT_GT(last_read, others_first) << "others compute meanwhile";
  EXPECT_GE(its_first, last_read);
  EXPECT_LT(its_first, Picoseconds::max()) << "then it helps";
}

// The first gate of each core quantises the activations; the others find them quantised.
TEST(ClusterPipeline, each_core_quantises_the_activations_of_a_layer_once) {
  for (const std::uint32_t depth : {1u, 2u}) {
    Scene setup;
    setup.neurons = 48;
    setup.unit_depth = depth;
    setup.activations = 7;
    std::map<UnitId, std::vector<bool>> before;
    setup.seen = [&](const UnitCaps& unit, const KernelCall& call) {
      if (call.is<ops::Matmul>()) before[unit.id].push_back(call.quantised_before);
    };
    Bench bench(setup);
    for (int layer = 0; layer < 2; ++layer) {
      before.clear();
      bench.layer(0, range(48));
      EXPECT_EQ(before.size(), setup.units);
      for (const auto& [unit, seen] : before) {
        EXPECT_EQ(std::ranges::count(seen, false), 1) << "unit " << static_cast<int>(unit);
        EXPECT_FALSE(seen.front());
        EXPECT_GT(seen.size(), 1u);
      }
    }
  }
}

// A graph that was made of a call is launched again with other activations: a number would promise the first ones.
TEST(ClusterPipeline, calls_of_accelerators_do_not_say_what_their_activations_are) {
  Scene setup;
  setup.activations = 7;
  setup.accelerators = true;
  std::uint32_t gates = 0;
  setup.seen = [&](const UnitCaps&, const KernelCall& call) {
    gates += call.is<ops::Matmul>();
    EXPECT_EQ(call.activations, 0u);
    EXPECT_FALSE(call.quantised_before);
  };
  Bench(setup).layer(0, range(8));
  EXPECT_EQ(gates, 8u);
}

TEST(ClusterPipeline, where_nothing_is_read_all_cores_compute) {
  Scene setup;
  setup.neurons = 48;
  setup.in_dram = 1;
  setup.reader_computes = true;
  std::map<UnitId, int> calls;
  setup.seen = [&](const UnitCaps& unit, const KernelCall&) { ++calls[unit.id]; };
  Bench(setup).layer(0, range(48));
  EXPECT_EQ(calls.size(), 5u);
}

// One unit, 24 reads of one unit of time, stages of three. When the first Gate is through, at 4, the second could be computed, and the
// first one's Up and Down as well. While reads wait, until 23, the latter comes first: it would be left when the last read has come.
TEST(ClusterPipeline, while_reads_wait_up_and_down_come_before_the_next_gate) {
  Scene setup;
  setup.neurons = 24;
  setup.staging = 24 * 24 * KiB;
  setup.units = 1;
  setup.io_depth = 1;
  setup.compute = 3 * kUnit;
  setup.in_dram = 0;
  std::string order;
  setup.seen = [&](const UnitCaps&, const KernelCall& call) {
    if (call.is<ops::Matmul>()) order += 'g';
    if (call.is<ops::Accumulate>()) order += 'r';
  };
  Bench(setup).layer(0, range(24));
  EXPECT_EQ(order.substr(0, 6), "grggrr") << order << ": two at a time, where four are ready";
  EXPECT_EQ(std::ranges::count(order, 'g'), 24);
}

TEST(ClusterPipeline, storage_and_computing_overlap_only_with_a_pipeline) {
  Scene setup;
  setup.neurons = 64;
  setup.cluster_neurons = 4;
  setup.form = BundleForm::two_phases;
  setup.in_dram = 0.25;
  setup.staging = 12 * 24 * KiB;  // several waves
  setup.kind = PipelineKind::none;
  EXPECT_EQ(Bench(setup).layer(0, range(64)).overlap, Picoseconds(0));
  for (const PipelineKind kind : {PipelineKind::matrix, PipelineKind::cluster}) {
    setup.kind = kind;
    EXPECT_GT(Bench(setup).layer(0, range(64)).overlap, 10 * kUnit);
  }
}

TEST(ClusterPipeline, up_and_down_are_read_only_where_the_gate_is_not_zero) {
  Scene setup;
  setup.neurons = 32;
  setup.in_dram = 0;
  for (const bool two_phases : {false, true}) {
    setup.form = two_phases ? BundleForm::two_phases : BundleForm::one_read;
    Bench bench(setup);
    bench.gate.fires = [](std::uint32_t neuron) { return neuron % 4 == 0; };
    const BundleLayout& layout = bench.store->layout();
    const Bytes whole = 32 * layout.block, gates = 32 * layout.first_part, rest = 8 * (layout.block - layout.first_part);
    EXPECT_EQ(bench.layer(0, range(32)).bytes_read, two_phases ? gates + rest : whole);
  }
}

TEST(ClusterPipeline, blocks_for_two_phases_can_be_read_whole) {
  for (const BundleForm form : {BundleForm::two_phases, BundleForm::apart_two_phases}) {
    Scene setup;
    setup.neurons = 32;
    setup.in_dram = 0;
    setup.form = form;
    setup.two_phases = false;
    std::size_t reads = 0;
    setup.fault = [&](const ReadRequest&) { return ++reads, Status{}; };
    Bench bench(setup);
    bench.gate.fires = [](std::uint32_t) { return false; };
    std::vector<std::uint32_t> every_other;
    for (std::uint32_t n = 0; n < 32; n += 2) every_other.push_back(n);
    EXPECT_EQ(bench.layer(0, every_other).bytes_read, 16 * bench.store->layout().block);
    EXPECT_EQ(reads, lies_apart(form) ? 48u : 16u);
  }
}

TEST(ClusterPipeline, matrices_apart_cost_three_reads_where_bundles_cost_one) {
  Scene setup;
  setup.neurons = 32;
  setup.in_dram = 0;
  std::vector<std::uint32_t> every_other;
  for (std::uint32_t n = 0; n < 32; n += 2) every_other.push_back(n);
  for (const bool apart : {false, true}) {
    setup.form = apart ? BundleForm::apart : BundleForm::one_read;
    std::map<std::uint64_t, Bytes> reads;
    setup.fault = [&](const ReadRequest& r) { return reads[r.from.offset] = r.from.length, Status{}; };
    Bench bench(setup);
    EXPECT_EQ(bench.layer(0, every_other).bytes_read, 16 * 24 * KiB);
    EXPECT_EQ(reads.size(), apart ? 48u : 16u);
    const Bytes third = apart ? (32 + 2) * 8 * KiB : 2 * 24 * KiB;  // the Up row of neuron 2, behind all Gate rows; its bundle
    EXPECT_EQ(reads[third], apart ? 8 * KiB : 24 * KiB);
    EXPECT_EQ(bench.store->cache().free_slots(), bench.store->staging_blocks());
    // Neighbours in flash and in the arena still make one read of each matrix.
    reads.clear();
    EXPECT_EQ(Bench(setup).layer(0, range(8)).bytes_read, 8 * 24 * KiB);
    EXPECT_EQ(reads.size(), apart ? 24u : 8u) << "one block makes a cluster here";
    setup.cluster_neurons = 8;
    reads.clear();
    Bench(setup).layer(0, range(8));
    EXPECT_EQ(reads.size(), apart ? 3u : 1u);
    setup.cluster_neurons = 1;
  }
}

// One in four fires. The Gate rows of the others stay: named again they cost nothing, and what fires then costs its second read.
TEST(ClusterPipeline, a_silent_neuron_keeps_its_gate_row_and_is_read_to_the_end_when_it_fires) {
  Scene setup;
  setup.neurons = 32;
  setup.form = BundleForm::two_phases;
  setup.in_dram = 0.5;  // neurons 0 to 15 are there at first and go for the others
  setup.keep_silent = true;
  Bench bench(setup);
  const BundleLayout& layout = bench.store->layout();
  const Bytes gate = layout.first_part, rest = layout.block - layout.first_part;
  std::vector<std::uint32_t> named = range(32);
  named.erase(named.begin(), named.begin() + 16);
  bench.gate.fires = [](std::uint32_t neuron) { return neuron % 4 == 0; };
  EXPECT_EQ(bench.layer(0, named).bytes_read, 16 * gate + 4 * rest);
  EXPECT_EQ(bench.layer(0, named).bytes_read, 0u);
  bench.gate.fires = [](std::uint32_t neuron) { return neuron % 2 == 0; };
  EXPECT_EQ(bench.layer(0, named).bytes_read, 4 * rest);
  EXPECT_EQ(bench.layer(0, range(32), true).bytes_read, 16 * layout.block + 8 * rest) << "a prefill computes every neuron";
  EXPECT_EQ(bench.layer(0, range(32), true).bytes_read, 16 * layout.block);
}

// Handing out takes no time here, so a queue at each unit gains nothing; it must not cost anything either, by a cluster that waits behind
// another one while a unit has nothing to do.
TEST(ClusterPipeline, calls_that_queue_leave_no_unit_without_work) {
  for (const std::uint32_t depth : {1u, 2u, 3u}) {
    Scene setup;
    setup.in_dram = 1;
    setup.unit_depth = depth;
    EXPECT_EQ(Bench(setup).layer(0, range(8)).took, 4 * kUnit) << "eight clusters of two calls on four units";
    EXPECT_EQ(Bench(setup).layer(0, range(4)).took, 2 * kUnit);
  }
}

TEST(ClusterPipeline, planning_is_charged_for_each_call_and_handing_over_for_each_chain) {
  Scene setup;
  setup.cluster_neurons = 2;
  Bench bench(setup);
  const Report report = bench.layer(0, range(8));
  EXPECT_EQ(bench.gate.calls, 4u * 3u) << "product, selection and sum of four clusters";
  EXPECT_EQ(bench.charged(PolicyWork::plan_step), bench.gate.calls);
  EXPECT_EQ(bench.charged(PolicyWork::submit), report.unit_submissions);
}

// Four of eight are there and two fire: looking up costs the same whatever comes of it, and what comes is entered.
TEST(ClusterPipeline, what_is_named_is_looked_up_whether_it_hits_misses_or_stays_silent) {
  Scene setup;
  Bench bench(setup);
  bench.gate.fires = [](std::uint32_t neuron) { return neuron == 1 || neuron == 6; };
  const Report report = bench.layer(0, range(8));
  EXPECT_EQ(report.stats.hits, 1u);
  EXPECT_EQ(report.stats.misses, 1u);
  EXPECT_EQ(bench.charged(PolicyWork::cache_lookup), 8u);
  EXPECT_EQ(bench.charged(PolicyWork::cache_update), 1u);
}

// Eight clusters on one unit. Four Gates together, half of the eight that are ready; then four Gates and four times Up and Down are, so
// that four of each follow; the last four go as two, one and one. No computing is saved or added by it.
TEST(ClusterPipeline, clusters_that_have_to_queue_are_handed_over_together) {
  Scene setup;
  setup.in_dram = 1;
  setup.units = 1;
  const Report together = Bench(setup).layer(0, range(8));
  EXPECT_EQ(together.unit_submissions, 6u);
  EXPECT_EQ(together.took, 16 * kUnit);
  setup.form = BundleForm::two_phases;
  EXPECT_EQ(Bench(setup).layer(0, range(8)).unit_submissions, 12u) << "Gates that tell what to read go alone";
  setup.form = BundleForm::one_read;
  setup.units = 8;
  EXPECT_EQ(Bench(setup).layer(0, range(8)).unit_submissions, 16u) << "a unit for each";
}

TEST(ClusterPipeline, what_fired_stays_and_what_did_not_leaves_no_trace) {
  Scene setup;
  setup.neurons = 16;
  setup.in_dram = 0.25;
  Bench bench(setup);
  bench.gate.fires = [](std::uint32_t neuron) { return neuron == 9 || neuron == 2; };
  std::vector<std::uint32_t> predicted = range(16);
  predicted.erase(predicted.begin(), predicted.begin() + 2);
  const Report report = bench.layer(0, predicted);
  EXPECT_EQ(report.stats.hits, 1u);
  EXPECT_EQ(report.stats.misses, 1u);
  EXPECT_EQ(report.log, "evict layer 0 block 1 cold\nload layer 0 block 9 cold\n");
  EXPECT_TRUE(bench.store->cache().resident(9) && bench.store->cache().resident(2));
  EXPECT_EQ(bench.store->cache().free_slots(), bench.store->staging_blocks());
}

TEST(ClusterPipeline, a_prefill_evicts_nothing) {
  Scene setup;
  setup.neurons = 16;
  setup.in_dram = 0.25;
  Bench bench(setup);
  const Report report = bench.layer(0, range(16), true);
  EXPECT_EQ(report.log.find("evict"), std::string::npos);
  for (std::uint32_t neuron = 0; neuron < 4; ++neuron) EXPECT_TRUE(bench.store->cache().resident(neuron));
}

// Eight clusters of two calls on one unit take 16; four of them are read in 4, which the calls of those in memory hide. All that
// is read of the second layer comes while the first one computes, so the second waits for nothing.
TEST(ClusterPipeline, a_prefill_reads_the_next_layer_while_it_computes_this_one) {
  Scene scene;
  scene.layers = 2;
  scene.units = 1;
  scene.read = 5 * kUnit;
  scene.staging = 4 * 2 * 24 * KiB;
  Bench alone(scene), ahead(scene);
  const Report one_by_one = alone.prefill(2, false), together = ahead.prefill(2, true);
  EXPECT_EQ(one_by_one.bytes_read, together.bytes_read);
  // Alone: the four reads of a layer (20) end behind the eight calls of what is in memory (8), then two calls remain of the last.
  EXPECT_EQ(one_by_one.took, 2 * 22 * kUnit);
  // Together: eight reads (40) without a pause, and the last cluster's two calls.
  EXPECT_EQ(together.took, 42 * kUnit);
}

TEST(ClusterPipeline, a_prefill_reads_sequentially_and_single_neurons_at_random) {
  for (const bool every_neuron : {true, false}) {
    Scene setup;
    setup.neurons = 64;
    std::set<Pattern> patterns;
    bool loaded = false;
    setup.fault = [&](const ReadRequest& read) {
      if (loaded) patterns.insert(read.pattern);
      return Status{};
    };
    Bench bench(setup);
    loaded = true;
    bench.layer(0, range(64), every_neuron);
    EXPECT_EQ(patterns, std::set<Pattern>{every_neuron ? Pattern::sequential : Pattern::random});
  }
}

TEST(ClusterPipeline, what_was_read_ahead_and_does_not_run_is_waited_for) {
  Scene scene;
  scene.layers = 2;
  scene.fault = [](const ReadRequest& r) { return r.from.offset >= 8 * 24 * KiB ? Status{Code::io_error, "gone"} : Status{}; };
  scene.in_dram = 0;
  Bench bench(scene);
  EXPECT_THROW(bench.prefill(2, true), RunError);
  bench.run(bench.pipeline->settle());  // a scope that died with tasks in flight would abort
}

// Two lanes, each with its share of the reads that wait.
TEST(ClusterPipeline, reads_that_wait_are_submitted_together) {
  for (const auto& [neurons, submissions] : {std::pair(8u, 2u), std::pair(3u, 2u), std::pair(16u, 4u)}) {
    Scene scene;
    scene.neurons = neurons;
    scene.in_dram = 0;
    scene.io_depth = 8;
    scene.io_together = 4;
    const Report report = Bench(scene).layer(0, range(neurons));
    EXPECT_EQ(report.stats.misses, neurons);
    EXPECT_EQ(report.storage_submissions, submissions) << neurons;
  }
}

class ClusterPipelineFaults : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(ReadsTogether, ClusterPipelineFaults, testing::Values(1, 3, 8));

TEST_P(ClusterPipelineFaults, a_read_that_fails_once_is_read_again_and_one_that_keeps_failing_ends_the_step) {
  const Status broken{Code::io_error, "bad sector"};
  Scene scene;
  scene.io_together = GetParam();
  scene.in_dram = 0;
  int failures = 0;
  scene.fault = [&](const ReadRequest& r) { return r.from.offset == 3 * 24 * KiB && failures++ == 0 ? broken : Status{}; };
  EXPECT_EQ(Bench(scene).layer(0, range(8)).stats.misses, 8u);
  EXPECT_EQ(failures, 2) << "read again";
  scene.fault = [&](const ReadRequest& r) { return r.from.offset == 3 * 24 * KiB ? broken : Status{}; };
  Bench bench(scene);
  try {
    bench.layer(0, range(8));
    FAIL() << "no error";
  } catch (const RunError& error) {
    EXPECT_STREQ(error.what(), "reading neurons (layer 0 block 3): bad sector");
  }
}

// Whatever ends first, the same is decided: random order of equal events, random depth, cores and pipelines.
TEST(ClusterPipeline, decisions_do_not_depend_on_timing) {
  std::string first;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng(seed);
    Scene setup;
    setup.neurons = 48;
    setup.layers = 3;
    setup.cluster_neurons = 3;
    setup.form = BundleForm::two_phases;
    setup.in_dram = 0.3;
    setup.units = 1 + rng.next() % 5;
    setup.io_depth = 1 + rng.next() % 9;
    setup.shuffle = seed;
    setup.compute = kUnit * static_cast<std::int64_t>(1 + rng.next() % 7);
    setup.read = kUnit * static_cast<std::int64_t>(1 + rng.next() % 7);
    setup.kind = static_cast<PipelineKind>(rng.next() % 3);
    setup.unit_depth = 1 + seed % 3;
    setup.keep_silent = true;
    setup.io_together = 1 + static_cast<std::uint32_t>(seed) % 4;
    Bench bench(setup);
    Report report;
    for (int step = 0; step < 12; ++step) {
      bench.gate.fires = [step](std::uint32_t neuron) { return mix(7, {neuron, static_cast<std::uint64_t>(step)}) % 5 < 2; };
      std::vector<std::uint32_t> predicted;
      for (std::uint32_t n = 0; n < 48; ++n) {
        if (mix(8, {n, static_cast<std::uint64_t>(step)}) % 3 > 0) predicted.push_back(n);
      }
      report = bench.layer(static_cast<std::int16_t>(step % 3), predicted);
    }
    const std::string now = report.log + std::to_string(report.stats.hits) + "/" + std::to_string(report.stats.misses);
    if (first.empty()) first = now;
    ASSERT_EQ(now, first) << "seed " << seed;
  }
}

}  // namespace
}  // namespace vitro
