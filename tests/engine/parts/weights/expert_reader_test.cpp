// Reads of experts that fail, come late or are given up.
#include "tests/engine/parts/weights/expert_kit.hpp"

namespace vitro::cached_experts {
namespace {

class ExpertReads : public CachedExperts {};

// Every read fails in turn: the run ends with the matrix and the cause, nothing is left in flight, the next run finds nothing amiss, and
// all memory is given back.
TEST_F(ExpertReads, a_read_that_fails_ends_the_run_with_its_cause_and_the_next_run_computes) {
  std::uint64_t failed = 0;
  for (std::uint64_t which = 0; which < 80; ++which) {
    Given given;
    given.budget = 3 * kExpert;
    given.timing = 5;
    auto count = std::make_shared<std::uint64_t>(0);
    given.fault = [count, which](const ReadRequest&) {
      return (*count)++ == which ? Status{Code::io_error, "the flash is worn out"} : Status{};
    };
    make(given);
    try {
      run(drawn(11, 4, true));
    } catch (const RunError& error) {
      ++failed;
      EXPECT_NE(std::string(error.what()).find("the flash is worn out"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("expert"), std::string::npos) << error.what();
    }
    function_.wrong = 0;  // what ran in a phase that failed counts for nothing
    EXPECT_NO_THROW(run(drawn(13, 4, true))) << which;
    EXPECT_EQ(function_.wrong, 0) << which;
    residency_.reset();
    EXPECT_EQ(host_->machine().memory.budget(Placement::dram).used, 0u) << which;
  }
  EXPECT_GT(failed, 40u) << "of those that were foreseen and not wanted nobody hears";
}

// A read-ahead that is forgotten while it is in flight, and one behind it for the same slot that goes before it began: what comes third
// into the slot waits for the first all the same.
TEST_F(ExpertReads, a_slot_has_one_load_in_flight) {
  make({.budget = kExpert, .delay = late(1, 0, Picoseconds(1'000'000)), .window = 100});
  residency_->chose(0, {choice({0})});
  residency_->foresee(1, {choice({0})});
  host_->run(layer(1, {1}, {0}));
  host_->executor().run();
  host_->run(layer(1, {1}, {}));
  EXPECT_EQ(function_.wrong, 0);
  EXPECT_EQ(residency_->stats().hits, kRolesOf) << "it stayed";
}

// An error of a matrix that was read ahead and not wanted is no error of a later step that wants it.
TEST_F(ExpertReads, a_read_ahead_that_failed_is_read_again) {
  auto failures = std::make_shared<int>(0);
  const auto fault = [failures](const ReadRequest& read) {
    return matrix_at(read.from.offset) == std::pair{1u, 3u} && (*failures)++ == 0 ? Status{Code::io_error, "a passing weakness"} : Status{};
  };
  make({.budget = 8 * kExpert, .fault = fault});
  residency_->chose(0, std::vector<ExpertChoice>(8, choice({0})));
  host_->executor().run();
  residency_->chose(1, std::vector<ExpertChoice>(8, choice({0})));
  ASSERT_GT(*failures, 0) << "all of the layer were read ahead";
  EXPECT_FALSE(residency_->here(1, 3));
  EXPECT_NO_THROW(host_->run(layer(1, {3}, {})));
  EXPECT_EQ(function_.wrong, 0);
}

}  // namespace
}  // namespace vitro::cached_experts
