// Each operation of a run fails in turn: the run says so, and its engine goes on.
#include "tests/effort.hpp"
#include "tests/engine/torture/bench.hpp"

namespace vitro {
namespace {

// Of all operations every so many. There are most launches: every third or fourth in turn fails, and every fifth or sixth answers garbage.
// Those of a layer come again with each layer and token, so launches of every kind do.
const std::uint64_t kStride = test::all_or_few<std::uint64_t>(1, 101), kLaunchStride = test::all_or_few<std::uint64_t>(3, 307),
                    kGarbageStride = test::all_or_few<std::uint64_t>(5, 101);

void fail_each(FaultTarget target, const std::vector<FaultKind>& kinds, std::uint64_t stride = kStride) {
  const ScratchFolder folder;
  const TortureOptions options = test::options_in(folder);
  std::uint64_t struck = 0;
  for (const test::Named& configuration : test::configurations()) {
    Subject subject = subject_of(test::case_of(configuration), options);
    const Observation expected = observe(subject);
    ASSERT_EQ(to_string(expected.end), to_string(Observation::End::tokens)) << configuration.name << ": " << expected.error;
    ASSERT_EQ(violation(expected, expected), "") << configuration.name;
    const std::uint64_t operations = expected.tally.operations[static_cast<std::size_t>(target)];
    std::uint64_t which = 0;
    for (std::uint64_t at = 0; at < operations; at += stride == 1 ? 1 : stride + which % 2) {
      const FaultKind kind = kinds[which++ % kinds.size()];
      subject.faults.faults = {{kind, at, 1, Picoseconds(0), 1, ""}};
      const Observation seen = isolated(subject, 60);
      const std::uint64_t fired = seen.tally.fired[static_cast<std::size_t>(kind)];
      if (kind != FaultKind::garbage) {  // not all launches answer
        EXPECT_GE(fired, 1u) << configuration.name << ": nothing struck " << at;
      }
      struck += fired;
      EXPECT_EQ(violation(expected, seen), "")
          << configuration.name << ": " << to_string(kind) << " at " << to_string(target) << " " << at << " of " << operations;
    }
  }
  EXPECT_GT(struck, 0u) << "no " << to_string(target) << " of any configuration";
}

TEST(EveryOperation, each_read_fails_in_turn) { fail_each(FaultTarget::read, {FaultKind::read_error, FaultKind::short_read}); }
TEST(EveryOperation, each_write_fails_in_turn) { fail_each(FaultTarget::write, {FaultKind::no_space, FaultKind::write_error}); }
TEST(EveryOperation, launches_fail_in_turn) { fail_each(FaultTarget::launch, {FaultKind::launch_error}, kLaunchStride); }
TEST(EveryOperation, answers_are_garbage_in_turn) { fail_each(FaultTarget::launch, {FaultKind::garbage}, kGarbageStride); }
TEST(EveryOperation, each_graph_fails_to_load_in_turn) { fail_each(FaultTarget::load, {FaultKind::graph_error}); }
TEST(EveryOperation, each_lease_is_refused_in_turn) { fail_each(FaultTarget::lease, {FaultKind::lease_error}); }

}  // namespace
}  // namespace vitro
