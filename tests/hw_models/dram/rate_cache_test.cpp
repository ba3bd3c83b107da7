#include "hw_models/dram/rate_cache.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/base/rng.hpp"
#include "hw_models/dram/flow.hpp"
#include "tests/hw_models/context.hpp"

namespace vitro::hw {
namespace {

using Mix = std::vector<RateCache::Number>;

RateCache::FlowKind drawn_kind(Rng& rng, std::uint64_t values) {
  const auto draw = [&] { return static_cast<double>(rng.below(values)); };
  return {rng.below(5), draw(), draw(), draw(), draw(), draw()};
}

TEST(RateCache, like_kinds_and_no_others_have_one_number) {
  Rng rng(11);
  RateCache cache;
  std::map<std::array<double, 6>, RateCache::Number> known;
  std::map<RateCache::Number, std::array<double, 6>> kinds;
  for (int trial = 0; trial < 20'000; ++trial) {
    const RateCache::FlowKind kind = drawn_kind(rng, 3);
    const std::array<double, 6> all{
        static_cast<double>(kind.port), kind.demand, kind.written, kind.own, kind.read_wait, kind.write_wait};
    const RateCache::Number number = cache.number(kind);
    ASSERT_EQ(known.emplace(all, number).first->second, number);
    ASSERT_EQ(kinds.emplace(number, all).first->second, all);
  }
  EXPECT_EQ(known.size(), 5u * 243);
}

// Against a map, which forgets nothing: what is found is what was kept last for that very mix.
TEST(RateCache, what_is_found_was_kept_for_the_same_flows_in_the_same_order) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Rng rng(seed);
    RateCache cache;
    std::map<Mix, std::vector<double>> plain;
    int found = 0;
    for (int trial = 0; trial < 20'000; ++trial) {
      // Few kinds, mostly in small mixes that come back; now and then many others, until all are forgotten.
      Mix mix(1 + rng.below(rng.below(8) == 0 ? RateCache::kFlows + 2 : 3));
      for (RateCache::Number& number : mix) number = cache.number({rng.below(seed), 1, 0, 1, 0, 0});
      if (rng.below(200) == 0) {
        for (int other = 0; other < 200; ++other) cache.number(drawn_kind(rng, 50));
      }
      if (const double* const rates = cache.find(mix)) {
        ++found;
        ASSERT_TRUE(plain.contains(mix)) << seed;
        ASSERT_TRUE(std::equal(plain[mix].begin(), plain[mix].end(), rates)) << seed;
        continue;
      }
      std::vector<double> rates(mix.size());
      for (double& rate : rates) rate = rng.uniform();
      cache.keep(mix, rates);
      ASSERT_EQ(cache.find(mix) == nullptr, mix.size() > RateCache::kFlows);
      plain[mix] = rates;
    }
    EXPECT_GT(found, 1000) << seed;
  }
}

TEST(RateCache, what_was_kept_last_is_found) {
  Rng rng(3);
  RateCache cache;
  for (int trial = 0; trial < 1000; ++trial) {
    Mix mix(1 + rng.below(RateCache::kFlows));
    for (RateCache::Number& number : mix) number = cache.number(drawn_kind(rng, 2));
    if (cache.find(mix) != nullptr) continue;
    std::vector<double> rates(mix.size(), -1);
    rates[0] = trial;
    cache.keep(mix, rates);
    const double* const kept = cache.find(mix);
    ASSERT_NE(kept, nullptr);
    EXPECT_TRUE(std::ranges::equal(rates, std::span(kept, mix.size())));
    std::reverse(mix.begin(), mix.end());
    if (mix.front() != mix.back()) {
      EXPECT_NE(cache.find(mix), kept);
    }
  }
}

struct SharedDram {
  SharedDram(std::string_view bandwidth, std::string_view part) {
    const Node node = parse_yaml(fmt::format("{{capacity: 1 GB, available: 1 GB, bandwidth: {}, latency: 20 ns{}}}", bandwidth, part), "t");
    Reader reader(node, "dram");
    params = Params(reader, FlowDram::params());
    params.add_table(reader, "efficiency", false);
    model = std::make_unique<FlowDram>(Site{context, "dram", nullptr, kMemoryController}, params);
  }
  TestContext context;
  Params params;
  std::unique_ptr<FlowDram> model;
};

// A DRAM that has met all kinds of mixes gives the rates that one gives which has met none, to the picosecond.
TEST(RateCache, what_was_there_before_changes_no_rate) {
  const char* const parts[] = {"", ", part: lpddr5_6400"};
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    const auto fresh = [&] {
      auto dram = std::make_unique<SharedDram>(seed % 3 == 0 ? "200 GB/s" : "20 GB/s", parts[seed % 2]);
      const PortId cpu = dram->model->add_port({"cpu", {12e9}});
      for (int i = 0; i < 3; ++i) dram->model->add_port({"core", {8e9}, cpu, 1.0 + i});
      for (int i = 0; i < 2; ++i) dram->model->add_port({"link", {4e9 + 3e9 * i}});
      return dram;
    };
    // Few kinds of requests, so that mixes come back.
    struct Request {
      Picoseconds after;
      DramRequest request;
    };
    const auto drawn = [&] {
      std::vector<Request> burst(1 + rng.below(2 * RateCache::kFlows));  // some are too many to be kept
      for (Request& each : burst) {
        const Bytes length = 5000 * (1 + rng.below(2));
        each.after = Picoseconds(static_cast<std::int64_t>(rng.below(3) * 200'000));
        each.request = {PortId(2 + rng.below(5)), length, length * rng.below(3) / 2};  // it reads, does both, or writes
        each.request.pace = Picoseconds(static_cast<std::int64_t>(rng.below(3) * 800'000));
        each.request.chunk = 64 * rng.below(2);
      }
      return burst;
    };
    const auto run = [](SharedDram& dram, const std::vector<Request>& burst) {
      std::vector<Picoseconds> ends(burst.size());
      const Picoseconds begin = dram.context.now();
      for (std::size_t i = 0; i < burst.size(); ++i) {
        dram.context.run_until(dram.context.now() + burst[i].after);
        dram.model->submit(burst[i].request, [&dram, end = &ends[i]] { *end = dram.context.now(); });
      }
      dram.context.run();
      for (Picoseconds& end : ends) end -= begin;
      return ends;
    };
    const auto old = fresh();
    for (int round = 0; round < 60; ++round) {
      const std::vector<Request> burst = drawn();
      ASSERT_EQ(run(*old, burst), run(*fresh(), burst)) << seed << ": " << round;
    }
  }
}

}  // namespace
}  // namespace vitro::hw
