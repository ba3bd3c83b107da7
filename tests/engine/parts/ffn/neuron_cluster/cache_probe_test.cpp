#include "engine/parts/ffn/neuron_cluster/cache_probe.hpp"

#include <gtest/gtest.h>

#include "engine/base/config.hpp"

namespace vitro {
namespace {

// A microsecond passes whenever somebody looks.
class TickingClock final : public Clock {
 public:
  Picoseconds now() const override { return now_ += Picoseconds(1'000'000); }
  void charge(PolicyWork, std::uint32_t) override {}

 private:
  mutable Picoseconds now_{0};
};

CacheProbe probe(std::uint32_t capacity) {
  CacheProbe probe;
  probe.blocks = 100;
  probe.layers = 3;
  probe.capacity = capacity;
  probe.named = 40;
  probe.steps = 20;
  return probe;
}

TEST(CacheProbe, what_fits_is_hit_and_what_does_not_is_missed) {
  const TickingClock clock;
  const CacheTimes all = probe_cache(clock, probe(300)), few = probe_cache(clock, probe(30));
  EXPECT_GT(all.hits, 0u);
  EXPECT_GT(few.misses, few.hits);
  EXPECT_LT(all.misses, few.misses);
  EXPECT_EQ(all.hits + all.misses, few.hits + few.misses) << "the same blocks are named";
}

// Ten steps of three layers count, and each phase of each is one tick.
TEST(CacheProbe, times_are_for_each_block) {
  const TickingClock clock;
  const CacheTimes times = probe_cache(clock, probe(150));
  EXPECT_NEAR(times.hit * static_cast<double>(times.hits), 30e-6, 1e-9);
  EXPECT_NEAR(times.miss * static_cast<double>(times.misses), 30e-6, 1e-9);
}

TEST(CacheProbe, probes_of_nothing_are_refused) {
  const TickingClock clock;
  CacheProbe nothing = probe(10);
  nothing.named = 0;
  EXPECT_THROW(probe_cache(clock, nothing), ConfigError);
  nothing = probe(10);
  nothing.eviction = "magic";
  EXPECT_THROW(probe_cache(clock, nothing), ConfigError);
}

}  // namespace
}  // namespace vitro
