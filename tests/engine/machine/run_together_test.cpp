// Chains that are submitted together: one wake-up, when the last has ended, whatever the order in which they end.
#include "engine/machine/run_together.hpp"

#include <gtest/gtest.h>

#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

// Every sample says which layer it is of; the one of `broken` throws.
class Samples final : public Function {
 public:
  Outcome execute(const KernelCall& call) override {
    ended.push_back(call.layer);
    if (call.layer == broken) throw RunError("unit lost at " + std::to_string(call.layer));
    return TokenChoice{{call.layer}};
  }
  std::vector<int> ended;
  int broken = -1;
};

// What is charged, and how much had been charged when the waiter went on.
class CountingClock final : public Clock {
 public:
  explicit CountingClock(Clock& inner) : inner_(inner) {}
  Picoseconds now() const override { return inner_.now(); }
  void charge(PolicyWork work, std::uint32_t n) override {
    EXPECT_EQ(work, PolicyWork::submit);
    charged += n;
  }
  std::uint32_t charged = 0;

 private:
  Clock& inner_;
};

struct Seen {
  std::vector<std::int32_t> outcomes;
  std::vector<std::string> errors;
  std::size_t resumed = 0, chains = 0;
  Picoseconds end{0};
};

class RunTogetherTest : public testing::Test {
 protected:
  // Unit i takes prices[i] for its call; units without a price have none.
  void start(const std::vector<std::int64_t>& prices, std::optional<std::uint64_t> shuffle = std::nullopt) {
    host_.reset();
    samples = {};
    VirtualMachineSpec spec;
    for (std::size_t i = 0; i < prices.size(); ++i) {
      UnitCaps caps;
      caps.id = UnitId(static_cast<std::uint16_t>(i));
      caps.name = "cpu" + std::to_string(i);
      spec.units.push_back(caps);
    }
    spec.shuffle = shuffle;
    spec.price = [prices](const UnitCaps& caps, const KernelCall&) { return Picoseconds(prices[static_cast<std::size_t>(caps.id)]); };
    host_.emplace(std::move(spec), samples, trace_);
    prices_ = prices;
  }
  Seen run() {
    Seen seen;
    CountingClock clock(host_->machine().clock);
    Machine& inner = host_->machine();
    Machine machine{inner.executor, clock, inner.units, inner.storage, inner.memory, inner.trace};
    host_->run(together(&machine, &prices_, &seen));
    EXPECT_EQ(clock.charged, seen.chains) << "a submission each";
    return seen;
  }

  Samples samples;

 private:
  static Task<void> together(Machine* machine, const std::vector<std::int64_t>* prices, Seen* seen) {
    RunTogether runs(*machine);
    for (std::size_t i = 0; i < prices->size(); ++i) {
      if ((*prices)[i] == 0) continue;
      KernelCall call;
      call.op = ops::Sample{};
      call.layer = static_cast<std::int16_t>(i);
      runs.add(*machine->units[i], Chain{call});
    }
    seen->chains = co_await runs.end();
    ++seen->resumed;
    seen->end = machine->clock.now();
    for (std::size_t i = 0; i < seen->chains; ++i) {
      try {
        const RunResult result = runs.take(i);
        for (const Outcome& outcome : result.outcomes) seen->outcomes.push_back(std::get<TokenChoice>(outcome).tokens.front());
      } catch (const RunError& error) {
        seen->errors.push_back(error.what());
      }
    }
  }

  NullTrace trace_;
  std::optional<VirtualMachine> host_;
  std::vector<std::int64_t> prices_;
};

TEST_F(RunTogetherTest, it_goes_on_once_when_the_slowest_has_ended) {
  start({300, 100, 200});
  const Seen seen = run();
  EXPECT_EQ(seen.resumed, 1u);
  EXPECT_EQ(seen.end, Picoseconds(300));
  EXPECT_EQ(seen.outcomes, (std::vector<std::int32_t>{0, 1, 2})) << "by unit";
  EXPECT_EQ(samples.ended, (std::vector<int>{1, 2, 0})) << "in time";
}

TEST_F(RunTogetherTest, no_chain_is_no_wait) {
  start({0, 0});
  const Seen seen = run();
  EXPECT_EQ(seen.resumed, 1u);
  EXPECT_EQ(seen.chains, 0u);
  EXPECT_EQ(seen.end, Picoseconds(0));
}

TEST_F(RunTogetherTest, one_chain_alone) {
  start({0, 70});
  EXPECT_EQ(run().outcomes, std::vector<std::int32_t>{1});
}

// What a failed unit's neighbours compute is theirs until they end: buffers must outlive them.
TEST_F(RunTogetherTest, an_error_waits_for_the_others) {
  start({10, 20, 500});
  samples.broken = 1;
  const Seen seen = run();
  EXPECT_EQ(seen.end, Picoseconds(500));
  EXPECT_EQ(seen.errors, std::vector<std::string>{"unit lost at 1"});
  EXPECT_EQ(seen.outcomes, (std::vector<std::int32_t>{0, 2}));
}

TEST_F(RunTogetherTest, equal_times_end_in_any_order_with_the_same_answer) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Rng rng(seed);
    std::vector<std::int64_t> prices(1 + rng.below(7));
    std::vector<std::int32_t> expected;
    std::int64_t longest = 0;
    for (std::size_t i = 0; i < prices.size(); ++i) {
      prices[i] = static_cast<std::int64_t>(rng.below(4)) * 100;
      longest = std::max(longest, prices[i]);
      if (prices[i] > 0) expected.push_back(static_cast<std::int32_t>(i));
    }
    start(prices, seed);
    const Seen seen = run();
    EXPECT_EQ(seen.outcomes, expected) << "seed " << seed;
    EXPECT_EQ(seen.end, Picoseconds(longest)) << "seed " << seed;
    EXPECT_EQ(seen.resumed, 1u);
  }
}

}  // namespace
}  // namespace vitro
