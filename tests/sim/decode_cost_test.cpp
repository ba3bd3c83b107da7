// What a simulated token costs, in calls and in memory; its price in seconds is for `vitro bench sim`.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>

#include "engine/app/session.hpp"
#include "sim/machines.hpp"
#include "tests/sim/simulation.hpp"
#include "tests/source_path.hpp"

namespace {
std::size_t live = 0, highest = 0;  // bytes; this binary has one thread
}

void* operator new(std::size_t size) {
  void* const p = std::malloc(size == 0 ? 1 : size);
  if (p == nullptr) throw std::bad_alloc();
  live += malloc_usable_size(p);
  highest = live > highest ? live : highest;
  return p;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return operator new(size); }  // of std::stable_sort
void operator delete(void* p) noexcept {
  live -= malloc_usable_size(p);
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept { operator delete(p); }

namespace vitro::sim {
namespace {

struct Cost {
  std::size_t highest_bytes = 0;
  double events = 0, runs = 0, posts = 0, reads = 0, repeated = 0;
};

constexpr int kUnits = 6, kLayers = 4;

Cost decode(int tokens, const std::string& calls = "each") {
  FreshContext context;
  const Experiment experiment = read_experiment(
      compose_experiment(parse_yaml("{experiment: cost, machine: sim, device: " + test::source_path("configs/devices/oneplus12.yaml") +
                                        ", model: " + test::source_path("configs/models/llama-7b-shape.yaml") +
                                        ", engine: {units: [cpu0, cpu1, cpu2, cpu3, cpu4, cpu5], numerics: false}, "
                                        "workload: {prompt_tokens: 16, stop_at_eos: false}}",
                                    "cost"),
                         "", {"model.shape.layers=" + std::to_string(kLayers), "workload.output_tokens=" + std::to_string(tokens),
                              "device.cpu.calls=" + calls}, ""));
  highest = live;
  const std::size_t before = live;
  const nlohmann::ordered_json result = run_experiment(experiment, {}, make_machine);
  const auto& counts = result["counts"];
  // What policies are seen to submit is what the units were given.
  EXPECT_DOUBLE_EQ(result["metrics"]["unit_submissions_per_token"].get<double>() * tokens, counts["runs"].get<double>());
  EXPECT_EQ(result["metrics"]["storage_submissions_per_token"], 0.0);
  EXPECT_EQ(result["metrics"]["seam_calls_per_token"], result["metrics"]["unit_submissions_per_token"]);
  return {highest - before, counts["events"], counts["runs"], counts["posts"], counts["reads"], counts["repeated_phases"]};
}

TEST(DecodeCost, every_token_costs_the_same_few_calls) {
  const Cost one = decode(101), two = decode(201), three = decode(301);
  constexpr int kPhases = 5 * kLayers + 2;  // docs/design/decode.md: five to a layer, the head, the choice
  const double runs = (two.runs - one.runs) / 100, posts = (two.posts - one.posts) / 100, events = (two.events - one.events) / 100;
  EXPECT_EQ(runs, (three.runs - two.runs) / 100);
  EXPECT_EQ(posts, (three.posts - two.posts) / 100);
  EXPECT_EQ(two.reads, one.reads);  // all weights are in DRAM
  EXPECT_LE(runs, kUnits * kPhases);
  EXPECT_LE(posts, kUnits * kPhases);  // each unit's result
  EXPECT_LE(events, 9 * runs);         // hand-over, one post, and two or three for each of its few calls
}

// A token attends to one key more than the one before, so the first layer's attention is new.
TEST(DecodeCost, a_token_simulates_one_phase_of_attention_and_repeats_the_rest) {
  const Cost one = decode(101), two = decode(201);
  EXPECT_GE((two.repeated - one.repeated) / 100, 5 * kLayers + 2 - 1);
}

TEST(DecodeCost, a_chain_that_is_one_piece_costs_the_events_of_one_call) {
  const Cost one = decode(101, "together"), two = decode(201, "together");
  const double runs = (two.runs - one.runs) / 100, events = (two.events - one.events) / 100;
  EXPECT_EQ(runs, (decode(201).runs - decode(101).runs) / 100);
  EXPECT_LE(events, 7 * runs);
}

// A token leaves behind itself, its latency and its entry in the block table; whatever else a run remembers is bounded, and that
// bound is reached here.
TEST(DecodeCost, memory_does_not_grow_with_the_number_of_tokens) {
  constexpr int kTokens = 1500;
  const Cost once = decode(kTokens), twice = decode(2 * kTokens);
  EXPECT_LT(static_cast<double>(twice.highest_bytes) - static_cast<double>(once.highest_bytes), 256.0 * kTokens);
}

}  // namespace
}  // namespace vitro::sim
