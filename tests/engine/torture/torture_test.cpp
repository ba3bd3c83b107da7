// A short torture run, which finds nothing, and the same with defects put in place, each of which it finds.
#include "engine/torture/torture.hpp"

#include <gmock/gmock.h>

#include <set>

#include "tests/effort.hpp"
#include "tests/engine/torture/bench.hpp"
#include "tests/engine/torture/plants.hpp"

namespace vitro {
namespace {

using test::Plant;
using testing::HasSubstr;
using Kind = Verdict::Kind;

// Configurations by hand in turn, faults drawn.
TortureCase drawn(std::uint64_t seed) {
  const std::vector<test::Named> all = test::configurations();
  TortureCase test = test::case_of(all[seed % all.size()]);
  test.seed = seed;
  test.timing = seed + 1;
  return test;
}

TEST(Torture, finds_nothing_in_this_engine) {
  const ScratchFolder folder;
  std::set<Kind> seen;
  for (std::uint64_t seed = 0; seed < test::all_or_few<std::uint64_t>(300, 48); ++seed) {
    const Verdict verdict = run_case(drawn(seed), test::options_in(folder));
    EXPECT_NE(verdict.outcome, Kind::wrong) << verdict.why << "\n" << to_json(verdict.test);
    EXPECT_NE(verdict.outcome, Kind::refused) << verdict.why;
    seen.insert(verdict.outcome);
  }
  EXPECT_TRUE(seen.contains(Kind::recovered) && seen.contains(Kind::failed)) << "faults struck, and were of both sorts";
}

// Cases until one is wrong.
std::optional<Verdict> first_wrong(TortureOptions options, const ScratchFolder& folder) {
  options.limit_s = 20;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Verdict verdict = run_case(drawn(seed), options);
    if (verdict.outcome != Kind::wrong) continue;
    const TortureCase least = shrink(verdict.test, options);
    EXPECT_LE(least.faults->faults.size(), 2u) << to_json(least);
    const TortureCase replayed = torture_case(parse_json(to_json(least), "replay.json"));
    EXPECT_EQ(run_case(replayed, options).outcome, Kind::wrong) << "the file of the shrunk case is wrong, too";
    EXPECT_NE(run_case(replayed, test::options_in(folder)).outcome, Kind::wrong) << "without the defect it is not";
    return verdict;
  }
  return std::nullopt;
}

struct Defect {
  const char* name;
  Plant plant;
  const char* says;  // in the verdict; empty: whatever it says
};
void PrintTo(const Defect& defect, std::ostream* out) { *out << defect.name; }

class TortureFinds : public testing::TestWithParam<Defect> {};

TEST_P(TortureFinds, a_defect_that_is_put_in_place) {
  const ScratchFolder folder;
  TortureOptions options = test::options_in(folder);
  options.plant = [](std::unique_ptr<MachineHost> inner) {
    return std::make_unique<test::PlantedMachine>(std::move(inner), GetParam().plant);
  };
  const std::optional<Verdict> found = first_wrong(options, folder);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->why, HasSubstr(GetParam().says));
}

// Few: those that are found within some seeds. What finds the others is the same code.
const std::vector<Defect> kDefects{
    {"a_read_used_before_it_landed", Plant::read_used_before_it_landed, "a read of them has not landed"},
    {"a_lease_lost_on_an_error", Plant::lost_lease, "were not returned"},
    {"a_slot_used_twice", Plant::slot_used_twice, "tokens"},
    {"an_error_swallowed", Plant::swallowed_error, ""},
    {"a_graph_launched_for_one_that_did_not_load", Plant::stale_graph, ""},
    {"a_hit_counted_for_a_block_whose_read_failed", Plant::hit_after_failed_read, "shadow model: "},
    {"a_completion_that_never_comes", Plant::lost_completion, "never completed"}};
INSTANTIATE_TEST_SUITE_P(Defects, TortureFinds, testing::ValuesIn(kDefects.begin(), kDefects.begin() + test::all_or_few(7, 4)),
                         [](const auto& info) { return info.param.name; });

TEST(Torture, finds_a_cache_that_holds_one_block_too_many) {
  const ScratchFolder folder;
  TortureOptions options = test::options_in(folder);
  options.plant_in_cache = [](std::unique_ptr<Eviction> rule) { return std::make_unique<test::OneTooMany>(std::move(rule)); };
  const std::optional<Verdict> found = first_wrong(options, folder);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->why, HasSubstr("blocks are resident, and there is room for"));
}

// In each sort of cache: what failed to come counts as there when it is needed again.
TEST(Torture, finds_a_block_that_is_a_hit_although_its_read_failed) {
  const ScratchFolder folder;
  const auto planted = [](std::unique_ptr<MachineHost> inner) {
    return std::make_unique<test::PlantedMachine>(std::move(inner), Plant::hit_after_failed_read);
  };
  for (const test::Named& configuration : test::configurations()) {
    const std::string name = configuration.name;
    static const std::set<std::string> kCaches{"paged", "streamed", "bundles", "cached experts", "keys and values in flash"};
    if (!kCaches.contains(name)) continue;
    Subject subject = subject_of(test::case_of(configuration), test::options_in(folder));
    const std::uint64_t reads = observe(subject).tally.operations[static_cast<std::size_t>(FaultTarget::read)];
    subject.plant = planted;
    std::string found;
    for (std::uint64_t before = 1; before <= std::min<std::uint64_t>(reads, 16) && found.empty(); ++before) {  // long after loading
      subject.faults.faults = {{FaultKind::read_error, reads - before, 1, Picoseconds(0), 0, ""}};
      for (const std::string& what : observe(subject).shadow) found += what;
    }
    // By what the bytes hold then: those of the block before them, of no block, or what a read left that failed; or by sums of bytes.
    EXPECT_FALSE(found.empty()) << name;
  }
}

// Of models with a matrix each for q, k and v, for Gate and for Up; dense ones of one that has them joined, too.
TEST(Torture, shows_the_shadow_model_what_every_configuration_does) {
  const ScratchFolder folder;
  for (const std::uint64_t model : {3, 4}) {
    for (const test::Named& configuration : test::configurations()) {
      if (configuration.mixture && model == 4) continue;
      TortureCase one = test::case_of(configuration);
      one.model->seed = model;
      const Observation seen = observe(subject_of(one, test::options_in(folder)));
      EXPECT_EQ(seen.shadow, std::vector<std::string>{}) << configuration.name << " of model " << model;
      EXPECT_GT(seen.seen.reads, 0u) << configuration.name;
      EXPECT_GT(seen.seen.operands, 500u) << configuration.name;
      EXPECT_GT(seen.seen.decisions, 0u) << configuration.name;
    }
  }
  const auto is_joined = [&](std::uint64_t seed) {
    write_random_model({false, seed, 2, Format::q8_0}, folder / "m.gguf");
    return config_from_gguf(Gguf::open(folder / "m.gguf")).joined_gate_up;
  };
  EXPECT_FALSE(is_joined(3));
  EXPECT_TRUE(is_joined(4));
}

TEST(Torture, one_seed_has_one_outcome) {
  const ScratchFolder folder;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Verdict a = run_case(drawn(seed), test::options_in(folder)), b = run_case(drawn(seed), test::options_in(folder));
    EXPECT_EQ(to_json(a.test), to_json(b.test));
    EXPECT_EQ(a.why, b.why);
    EXPECT_EQ(a.tally.fired, b.tally.fired);
    EXPECT_EQ(a.tally.operations, b.tally.operations);
  }
}

TEST(Torture, a_file_that_is_no_case_is_refused_with_its_key) {
  EXPECT_EQ(message_of([] { torture_case(parse_json(R"({"seed": 1})", "c.json")); }),
            "c.json:1: experiment: is missing (expected the keys of an experiment)");
  constexpr const char* kFormat = R"({"seed": 1, "experiment": {}, "model": {"kind": "dense", "seed": 1, "format": "q9"}})";
  EXPECT_THAT(message_of([] { torture_case(parse_json(kFormat, "c.json")); }),
              HasSubstr("model.format: \"q9\" is not a weight format"));
}

TEST(RandomModel, of_one_seed_is_one_file_and_of_another_seed_another) {
  const ScratchFolder folder;
  const auto bytes = [&](bool mixture, std::uint64_t seed) {
    write_random_model({mixture, seed, 2, Format::q8_0}, folder / "m.gguf");
    return read_file(folder / "m.gguf");
  };
  EXPECT_EQ(bytes(false, 1), bytes(false, 1));
  EXPECT_NE(bytes(false, 1), bytes(false, 2));
  EXPECT_EQ(config_from_gguf(Gguf::open((bytes(true, 4), folder / "m.gguf"))).experts, 8u);
}

TEST(RandomModel, of_other_families_have_ffns_that_are_not_all_alike) {
  const ScratchFolder folder;
  const auto written = [&](bool mixture) {
    RandomModel model{mixture, 1, 2, Format::q8_0};
    model.other = true;
    write_random_model(model, folder / "m.gguf");
    return config_from_gguf(Gguf::open(folder / "m.gguf"));
  };
  EXPECT_TRUE(written(false).sub_norms);
  const ModelConfig mixture = written(true);
  EXPECT_EQ(mixture.dense_layers, 1u);
  EXPECT_NE(mixture.dense_ffn, mixture.ffn);
  EXPECT_TRUE(mixture.has_experts(1));
}

TEST(Observation, goes_through_json_unchanged) {
  Observation seen;
  seen.end = Observation::End::failed;
  seen.tokens = {{1, 2}, {}};
  seen.error = "flash is gone";
  seen.again = Tokens{{3}};
  seen.losses = {"4 KiB of kv were not returned"};
  seen.tally.operations = {1, 2, 3, 4, 5};
  seen.tally.started = seen.tally.ended = 9;
  seen.shadow = {"block 3 came, and was resident"};
  seen.seen = {1, 2, 3};
  const Observation read = observation_of(to_json(seen));
  EXPECT_EQ(to_json(read), to_json(seen));
  EXPECT_EQ(read.again, seen.again);
  EXPECT_EQ(read.shadow, seen.shadow);
  EXPECT_EQ(read.seen, seen.seen);
}

}  // namespace
}  // namespace vitro
