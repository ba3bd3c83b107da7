// Reads that bring padding land beside their places: who brings the rest there, and that nobody waits for another for ever.
#include <gtest/gtest.h>

#include <set>

#include "engine/ops/operands.hpp"
#include "tests/engine/parts/ffn/neuron_cluster/bench.hpp"

namespace vitro {
namespace {

// A Gate row of 1.5 KiB with a page of its own, Up and Down 3 KiB in another: 4.5 KiB of 8 are kept.
Scene padded() {
  Scene scene;
  scene.neurons = 64;
  scene.width = 768;
  scene.form = BundleForm::two_phases;
  scene.in_dram = 0.25;
  scene.cluster_neurons = 8;
  scene.io_depth = 8;
  return scene;
}

struct Copies {
  std::set<std::string> units;
  std::size_t calls = 0;
  Bytes bytes = 0;
  void watch(Scene& scene) {
    scene.seen = [this](const UnitCaps& unit, const KernelCall& call) {
      if (!call.is<ops::Copy>()) return;
      units.insert(unit.name);
      ++calls;
      EXPECT_EQ(view_bytes(call.in[0]), view_bytes(call.out[0]));
      bytes += view_bytes(call.out[0]);
    };
  }
};

// 48 neurons miss, and half of them fire. Each cluster is copied in one call, or two for its two stages.
TEST(LandedCopies, whoever_computes_a_cluster_copies_what_was_read_for_it) {
  Scene scene = padded();
  Copies copies;
  copies.watch(scene);
  scene.staging = MiB;
  Bench bench(scene);
  EXPECT_EQ(copies.units, std::set<std::string>{"cpu4"}) << "the first fill is copied by the core that reads it";
  EXPECT_EQ(copies.bytes, 16 * 4608u);
  copies = {};
  bench.gate.fires = [](std::uint32_t neuron) { return neuron % 2 == 0; };
  bench.layer(0, range(64));
  EXPECT_EQ(copies.bytes, 48 * 1536u + 24 * 3072u) << "what is padding stays where it is";
  EXPECT_EQ(copies.units, (std::set<std::string>{"cpu0", "cpu1", "cpu2", "cpu3"}));
  EXPECT_LE(copies.calls, 2 * 48u / 8) << "one for each stage of a cluster";
}

TEST(LandedCopies, what_has_no_padding_is_not_copied) {
  Scene scene = padded();
  scene.width = 4096;
  Copies copies;
  copies.watch(scene);
  Bench(scene).layer(0, range(64));
  EXPECT_EQ(copies.calls, 0u);
}

// Where the room is short the core that reads copies the rest, so that a stage which waits for all its reads gets them.
TEST(LandedCopies, a_room_that_is_too_small_for_what_waits_holds_nothing_up) {
  for (const PipelineKind kind : {PipelineKind::none, PipelineKind::matrix, PipelineKind::cluster}) {
    std::string log;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      Scene scene = padded();
      scene.kind = kind;
      scene.layers = 3;
      scene.staging = 16 * 8 * KiB;
      scene.two_phases = seed % 3 > 0;
      scene.unit_depth = 1 + seed % 2;
      scene.io_depth = 1 + static_cast<std::uint32_t>(seed) * 5;
      scene.shuffle = seed;
      Copies copies;
      copies.watch(scene);
      Bench bench(scene);
      copies = {};
      Bytes read = 0;
      Rng rng(5);
      for (int step = 0; step < 6; ++step) {
        for (std::int16_t layer = 0; layer < 3; ++layer) {
          std::vector<std::uint32_t> named;
          for (std::uint32_t n = 0; n < 64; ++n) {
            if (rng.below(3) > 0) named.push_back(n);
          }
          const Report report = step == 2 ? bench.layer(layer, range(64), true) : bench.layer(layer, named);
          read += report.bytes_read;
        }
      }
      const Bytes kept = copies.bytes;
      EXPECT_GT(copies.units.size(), 1u);
      EXPECT_EQ(copies.units.contains("cpu4"), kind != PipelineKind::none) << "not all can wait; but beside reads nothing is copied";
      if (kind == PipelineKind::none) {
        EXPECT_EQ(bench.spans.overlap(), Picoseconds(0));
      }
      EXPECT_LT(kept, read);
      if (scene.two_phases) continue;
      EXPECT_EQ(kept * 16, read * 9) << "4.5 of 8 KiB";
      if (log.empty()) log = bench.spans.log;
      EXPECT_EQ(bench.spans.log, log) << "decisions do not depend on who copies";
    }
  }
}

// Waits till all of the room is free.
Task<void> take_room(NeuronStore* store, Bytes bytes) {
  NeuronStore::Piece piece = store->piece_of(0, 0);
  piece.from.length = bytes;
  Landed landed;  // and it stays there
  (co_await store->read(piece, UnitId{0}, Pattern::random, &landed)).status.or_throw();
}

// Whichever call fails, of the core that reads or of those that compute: the step ends with its error, and no room stays taken.
TEST(LandedCopies, a_call_that_fails_gives_the_room_of_its_reads_back) {
  for (const PipelineKind kind : {PipelineKind::none, PipelineKind::matrix, PipelineKind::cluster}) {
    for (const Op& failing : {Op(ops::Copy{}), Op(ops::Matmul{}), Op(ops::Accumulate{})}) {
      for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        Scene scene = padded();
        scene.kind = kind;
        scene.staging = 64 * KiB;
        scene.io_depth = 32;
        scene.shuffle = seed;
        Bench bench(scene);
        std::uint64_t left = 1 + seed % 4;
        bench.gate.before = [&](const KernelCall& call) {
          if (kind_of(call.op) == kind_of(failing) && --left == 0) throw RunError("unit lost");
        };
        const auto fails = [&] { bench.layer(0, range(64)); };
        EXPECT_THROW(fails(), RunError);
        bench.run(bench.pipeline->settle());
        const Budget& budget = bench.machine().memory.budget(Placement::dram);
        bench.run(take_room(&*bench.store, budget.region_used[static_cast<std::size_t>(Region::staging)]));
      }
    }
  }
}

// Reads in groups, some of which fail for good, in a room that holds no more than a wave: the step ends, and no room stays taken.
TEST(LandedCopies, reads_of_a_group_that_fail_for_good_end_the_step_and_give_their_room_back) {
  for (const PipelineKind kind : {PipelineKind::none, PipelineKind::matrix, PipelineKind::cluster}) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
      Scene scene = padded();
      scene.kind = kind;
      scene.staging = (8 + seed % 5 * 4) * 8 * KiB;
      scene.two_phases = seed % 2 == 0;
      scene.io_depth = 1 + static_cast<std::uint32_t>(seed) % 4;
      scene.io_together = 3 + static_cast<std::uint32_t>(seed) % 6;
      scene.shuffle = seed;
      std::uint64_t fails = 0;  // of 16 pages
      scene.fault = [&](const ReadRequest& read) {
        return mix(seed, {read.from.offset / kPageSize}) % 16 < fails ? Status{Code::io_error, "bad sector"} : Status{};
      };
      Bench bench(scene);
      fails = 5;
      Rng rng(seed);
      std::vector<std::uint32_t> named;
      for (std::uint32_t n = 0; n < 64; ++n) {
        if (rng.below(4) > 0) named.push_back(n);
      }
      EXPECT_THROW(bench.layer(0, named), RunError) << seed;
      bench.run(bench.pipeline->settle());
      fails = 0;
      const Budget& budget = bench.machine().memory.budget(Placement::dram);
      bench.run(take_room(&*bench.store, budget.region_used[static_cast<std::size_t>(Region::staging)]));
    }
  }
}

}  // namespace
}  // namespace vitro
