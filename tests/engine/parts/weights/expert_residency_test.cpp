// Long because one model in flash, its machine and its steps serve all tests of a cache that has many rules.
#include "engine/parts/weights/expert_residency.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/base/rng.hpp"
#include "engine/machine/storage_decorator.hpp"
#include "engine/parts/weights/phase_runner.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

// Matrices begin within pages, and one is several requests: kTransfer is the device's largest.
constexpr Bytes kMatrix = 3 * kPageSize - 1536, kBegin = 1024, kTransfer = kPageSize;
constexpr std::uint32_t kExperts = 4, kLayers = 3, kRolesOf = 3, kMatrices = kExperts * kLayers * kRolesOf;

constexpr Bytes first_page(std::uint32_t matrix) { return (kBegin + matrix * kMatrix) / kPageSize * kPageSize; }
constexpr Bytes read_of(std::uint32_t matrix) { return round_up(kBegin + (matrix + 1) * kMatrix, kPageSize) - first_page(matrix); }
constexpr Bytes slot_of(std::uint32_t role) {
  Bytes most = 0;
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    for (std::uint32_t e = 0; e < kExperts; ++e) most = std::max(most, read_of((layer * kRolesOf + role) * kExperts + e));
  }
  return most;
}
constexpr Bytes kExpert = slot_of(0) + slot_of(1) + slot_of(2);

std::byte pattern(Bytes offset) { return static_cast<std::byte>((offset * 131 + offset / kPageSize) & 0xff); }

// Compares what each call reads with the file. A call's slice says where each operand begins, in matrices.
class Compares final : public Function {
 public:
  Outcome execute(const KernelCall& call) override {
    ++calls;
    for (const View& view : call.in) {
      for (Bytes b = 0; b < kMatrix; b += 97) wrong += view.data()[b] != pattern(kBegin + Bytes{call.slice.first} * kMatrix + b);
    }
    return {};
  }
  int calls = 0, wrong = 0;
};

// Each read is asked for when it is issued and begins later: a flash that works on many at once, in no order.
class Late final : public StorageDecorator {
 public:
  Late(Storage& inner, VirtualExecutor& executor, std::function<Picoseconds(const ReadRequest&)> delay)
      : StorageDecorator(inner), caps_(inner.caps()), executor_(executor), delay_(std::move(delay)) {
    caps_.max_transfer = kTransfer;
  }
  const StorageCaps& caps() const override { return caps_; }

 protected:
  void submit(const ReadRequest& request, Completion<IoResult>& done) override {
    executor_.call_at(executor_.now() + delay_(request), [this, &request, &done] { StorageDecorator::submit(request, done); });
  }

 private:
  StorageCaps caps_;
  VirtualExecutor& executor_;
  std::function<Picoseconds(const ReadRequest&)> delay_;
};

// A trace that keeps decisions alone.
class Decisions final : public TraceSink {
 public:
  bool enabled() const override { return true; }
  TrackId track(std::string_view, std::string_view) override { return TrackId{}; }
  void span(TrackId, Picoseconds, Picoseconds, std::string_view, std::string_view) override {}
  void counter(TrackId, Picoseconds, double) override {}
  void decision(std::string_view kind, std::string_view what, std::string_view) override {
    if (kind != "graph") made.push_back(std::string(kind) + " " + std::string(what));
  }
  std::vector<std::string> made;
};

class ExpertResidencyTest : public testing::Test {
 protected:
  ExpertResidencyTest() : path_(std::filesystem::temp_directory_path() / ("vitro_experts_" + std::to_string(::getpid()))) {
    std::ofstream file(path_, std::ios::binary);
    for (Bytes i = 0; i < round_up(kBegin + kMatrices * kMatrix, kPageSize); ++i) file.put(static_cast<char>(pattern(i)));
  }
  ~ExpertResidencyTest() override { std::filesystem::remove(path_); }

  struct Given {
    Bytes budget = 0;  // of the cache
    std::string eviction = "lru";
    bool look_ahead = true;
    std::uint64_t timing = 0;  // 0: every call and read takes as long as all others
    Bytes memory = MiB;
    std::function<Status(const ReadRequest&)> fault;
    std::function<Picoseconds(const ReadRequest&)> delay = [](const ReadRequest&) { return Picoseconds(0); };
    std::uint32_t window = 3;
  };

  void make(const Given& given) {
    VirtualMachineSpec spec;
    for (const char* name : {"cpu0", "cpu1"}) {
      UnitCaps caps;
      caps.id = UnitId(spec.units.size());
      caps.kind = UnitKind::core;
      caps.name = name;
      spec.units.push_back(caps);
    }
    if (given.timing > 0) {
      auto rng = std::make_shared<Rng>(given.timing);
      spec.shuffle = given.timing;
      spec.price = [rng](const UnitCaps&, const KernelCall&) { return Picoseconds(1 + static_cast<int>(rng->below(1000))); };
      spec.read_price = [rng](const ReadRequest&) { return Picoseconds(1 + static_cast<int>(rng->below(1000))); };
    }
    std::function<Picoseconds(const ReadRequest&)> delay = given.delay;
    if (given.timing > 0) {
      auto rng = std::make_shared<Rng>(mix(given.timing, {1}));
      delay = [rng](const ReadRequest&) { return Picoseconds(static_cast<int>(rng->below(9000))); };
    }
    if (given.fault) spec.read_fault = given.fault;
    spec.memory_limits = {given.memory, 0, 0, 0};
    residency_.reset();
    trace_.made.clear();
    function_ = {};
    host_.emplace(spec, function_, trace_);
    const Machine& m = host_->machine();
    late_.emplace(m.storage, host_->executor(), delay);
    machine_.emplace(Machine{m.executor, m.clock, m.units, *late_, m.memory, m.trace, m.seed});
    const FileId file = host_->machine().storage.open(path_.string()).value_or_throw();
    std::vector<Weight> all;
    for (std::uint32_t i = 0; i < kLayers * kRolesOf; ++i) {
      Weight w;
      w.name = "w" + std::to_string(i);
      w.role = std::array{Role::ffn_gate, Role::ffn_up, Role::ffn_down}[i % kRolesOf];
      w.layer = static_cast<std::int16_t>(i / kRolesOf);
      w.experts = kExperts;
      w.rows = 16, w.columns = kMatrix / 16 / 4;
      w.extent = {file, kBegin + i * kExperts * kMatrix, kExperts * kMatrix};
      all.push_back(w);
    }
    weights_.emplace(std::move(all));
    ExpertCacheOptions options{.eviction = given.eviction, .budget = given.budget};
    options.look_ahead = given.look_ahead;
    options.reads_in_flight = given.window;
    residency_.emplace(*machine_, *weights_, options);
    host_->run(residency_->load());
    loaded_ = host_->machine().storage.totals().bytes_read;
  }

  WorkItem item(std::size_t weight, std::uint32_t expert) const {
    const Weight& w = weights_->all()[weight];
    KernelCall call;
    call.layer = w.layer;
    call.slice.first = static_cast<std::uint32_t>((w.extent.offset - kBegin) / kMatrix + expert);
    call.in = {residency_->view(w, expert)};
    return {{call}, {{&w, expert * kMatrix, kMatrix}}};
  }

  static ExpertChoice choice(std::vector<std::uint16_t> ids) { return {ids, std::vector<float>(ids.size(), 0.5f)}; }

  // One layer as a transformer does it: the choice, what is foreseen of the next layer, gate and up, then down.
  Task<void> layer(std::int16_t l, std::vector<std::uint16_t> experts, std::vector<std::uint16_t> next) {
    residency_->chose(l, {choice(experts)});
    if (!next.empty()) residency_->foresee(static_cast<std::int16_t>(l + 1), {choice(next)});
    Machine& machine = *machine_;
    GraphCache graphs(machine);
    PhaseRunner runner(machine, *residency_, graphs);
    const std::size_t first = static_cast<std::size_t>(l) * kRolesOf;
    UnitQueues gated(2), down(2);
    for (std::size_t unit = 0; unit < 2; ++unit) {
      for (const std::uint16_t expert : experts) {
        gated[unit].push_back(item(first, expert));
        gated[unit].push_back(item(first + 1, expert));
        down[unit].push_back(item(first + 2, expert));
      }
    }
    std::vector<ComputeUnit*> units{machine.units[0], machine.units[1]};
    co_await runner.run(std::move(gated), units);
    co_await runner.run(std::move(down), units);
  }

  Task<void> keep_and_look() {
    co_await residency_->keep(1, 2);
    for (std::uint32_t role = 0; role < kRolesOf; ++role) EXPECT_TRUE(is_in_place(kRolesOf + role, 2)) << role;
    co_await residency_->keep(0, 0);
    for (std::uint32_t role = 0; role < kRolesOf; ++role) EXPECT_TRUE(is_in_place(role, 0)) << role;
  }

  struct Step {
    std::vector<std::vector<std::uint16_t>> chosen, foreseen;  // by layer
  };
  Task<void> steps(const std::vector<Step>* all) {
    std::exception_ptr error;
    try {
      for (const Step& step : *all) {
        for (std::int16_t l = 0; l < static_cast<std::int16_t>(kLayers); ++l) {
          co_await layer(l, step.chosen[static_cast<std::size_t>(l)], step.foreseen[static_cast<std::size_t>(l)]);
        }
      }
    } catch (...) {
      error = std::current_exception();
    }
    co_await residency_->settle();
    if (error) std::rethrow_exception(error);
  }
  void run(const std::vector<Step>& all) { host_->run(steps(&all)); }

  static std::vector<Step> drawn(std::uint64_t seed, std::size_t count, bool ahead) {
    Rng rng(seed);
    const auto some = [&] {
      std::vector<std::uint16_t> ids;
      for (std::uint16_t e = 0; e < kExperts; ++e) {
        if (rng.below(2) == 0) ids.push_back(e);
      }
      if (ids.empty()) ids.push_back(static_cast<std::uint16_t>(rng.below(kExperts)));
      return ids;
    };
    std::vector<Step> all(count);
    for (Step& step : all) {
      for (std::uint32_t l = 0; l < kLayers; ++l) {
        step.chosen.push_back(some());
        step.foreseen.push_back(ahead && l + 1 < kLayers ? some() : std::vector<std::uint16_t>{});
      }
    }
    return all;
  }
  // What all that was decided takes to read.
  Bytes decided() const {
    Bytes bytes = 0;
    for (const std::string& made : trace_.made) {
      const std::size_t name = made.find(" w"), expert = made.find(" expert ");
      if (!made.starts_with("load") && !made.starts_with("foresee")) continue;
      const int weight = std::atoi(made.c_str() + name + 2), of = std::atoi(made.c_str() + expert + 8);
      bytes += read_of(static_cast<std::uint32_t>(weight) * kExperts + static_cast<std::uint32_t>(of));
    }
    return bytes;
  }
  bool is_in_place(std::uint32_t weight, std::uint32_t expert) const {
    const View view = residency_->view(weights_->all()[weight], expert);
    for (Bytes b = 0; b < kMatrix; ++b) {
      if (view.data()[b] != pattern(kBegin + (weight * kExperts + expert) * kMatrix + b)) return false;
    }
    return true;
  }
  // Reads of one expert of a layer come so much later than all others.
  static std::function<Picoseconds(const ReadRequest&)> late(std::uint32_t layer, std::uint32_t expert, Picoseconds by) {
    return [layer, expert, by](const ReadRequest& read) {
      return matrix_at(read.from.offset) == std::pair{layer, expert} ? by : Picoseconds(0);
    };
  }
  // The layer and expert whose matrix has the end of this page.
  static std::pair<std::uint32_t, std::uint32_t> matrix_at(Bytes offset) {
    const auto matrix = static_cast<std::uint32_t>((offset + kPageSize - 1 - kBegin) / kMatrix);
    return {matrix / kExperts / kRolesOf, matrix % kExperts};
  }
  Bytes read_since_load() const { return host_->machine().storage.totals().bytes_read - loaded_; }

  std::filesystem::path path_;
  Compares function_;
  Decisions trace_;
  mutable std::optional<VirtualMachine> host_;
  std::optional<Late> late_;
  mutable std::optional<Machine> machine_;  // the host's, whose reads come late
  std::optional<WeightStore> weights_;
  std::optional<ExpertResidency> residency_;
  Bytes loaded_ = 0;
};

// Any budget from one expert on, any rule, any timing: kernels see the file, and what is read is what was loaded.
TEST_F(ExpertResidencyTest, kernels_see_the_file_and_reads_are_loads_for_any_budget_rule_and_timing) {
  const std::vector<std::string> rules = evictions().names();
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Rng rng(seed);
    Given given;
    given.budget = kExpert * (1 + rng.below(kLayers * kExperts - 1)) + rng.below(kExpert);
    given.eviction = rules[rng.below(rules.size())];
    given.look_ahead = rng.below(2) == 0;
    given.timing = seed;
    make(given);
    const std::vector<Step> all = drawn(seed, 6, given.look_ahead);
    run(all);
    int calls = 0;
    for (const Step& step : all) {
      for (const auto& experts : step.chosen) calls += 2 * static_cast<int>(kRolesOf * experts.size());
    }
    EXPECT_EQ(function_.wrong, 0) << seed;
    EXPECT_EQ(function_.calls, calls) << seed;
    const ExpertCacheStats& stats = *residency_->expert_stats();
    EXPECT_EQ(stats.bytes, read_since_load()) << seed;
    if (!given.look_ahead) {
      EXPECT_EQ(decided(), read_since_load()) << seed;
    } else {
      EXPECT_LE(read_since_load(), decided()) << seed << ": what is given up is not read";
    }
    EXPECT_LE(host_->machine().memory.budget(Placement::dram).region_peak[static_cast<std::size_t>(Region::cold)], given.budget);
  }
}

TEST_F(ExpertResidencyTest, decisions_do_not_depend_on_timing) {
  std::vector<std::string> first;
  for (std::uint64_t timing = 1; timing <= 12; ++timing) {
    Given given;
    given.budget = 5 * kExpert;
    given.timing = timing;
    make(given);
    run(drawn(7, 8, true));
    if (first.empty()) first = trace_.made;
    EXPECT_EQ(trace_.made, first) << timing;
  }
  EXPECT_GT(first.size(), 20u);
}

TEST_F(ExpertResidencyTest, an_expert_is_read_once_as_long_as_it_stays) {
  make({.budget = 4 * kExpert});
  const std::vector<Step> all(3, Step{{{1}, {2}, {0}}, {{}, {}, {}}});
  run(all);
  EXPECT_EQ(residency_->stats().misses, kLayers * kRolesOf);
  EXPECT_EQ(residency_->stats().hits, 2 * kLayers * kRolesOf);
  EXPECT_EQ(read_since_load(), decided());
}

TEST_F(ExpertResidencyTest, what_was_foreseen_is_on_its_way_when_it_is_wanted) {
  make({.budget = 4 * kExpert});
  run({Step{{{1}, {2}, {0}}, {{2}, {3}, {}}}});
  const ExpertCacheStats& stats = *residency_->expert_stats();
  EXPECT_EQ(stats.foreseen, 2 * kRolesOf);
  EXPECT_EQ(stats.foreseen_used, kRolesOf) << "expert 2 of layer 1; expert 3 of layer 2 was not wanted";
  EXPECT_EQ(stats.named_right, 1u);
  EXPECT_EQ(stats.wanted, 2u);
  EXPECT_EQ(residency_->stats().misses, 2 * kRolesOf);
}

TEST_F(ExpertResidencyTest, what_stays_for_good_is_read_once_and_is_where_the_view_says) {
  make({.budget = 7 * kExpert});
  ASSERT_GT(residency_->keepable(), 0u);
  host_->run(residency_->keep(1, 2));
  ASSERT_TRUE(is_in_place(kRolesOf, 2));
  trace_.made.clear();
  loaded_ = host_->machine().storage.totals().bytes_read;
  run(std::vector<Step>(2, Step{{{0, 1, 2, 3}, {2}, {0, 1, 2, 3}}, {{}, {}, {}}}));
  EXPECT_EQ(function_.wrong, 0);
  EXPECT_EQ(read_since_load(), decided());
  for (const std::string& made : trace_.made) EXPECT_EQ(made.find("evict w3 expert 2"), made.npos);
}

TEST_F(ExpertResidencyTest, as_many_stay_as_it_says_and_a_layer_still_passes_through) {
  make({.budget = 7 * kExpert});
  std::uint32_t kept = 0;
  for (; residency_->keepable() > 0; ++kept) host_->run(residency_->keep(1, static_cast<std::uint16_t>(kept)));
  EXPECT_EQ(kept, 3u) << "of 7 slots, 4 of which a layer's experts may want at once";
  run(std::vector<Step>(2, Step{{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}}, {{}, {}, {}}}));
  EXPECT_EQ(function_.wrong, 0);
}

TEST_F(ExpertResidencyTest, where_all_fit_they_are_read_at_load) {
  make({});
  Bytes all = 0;
  for (std::uint32_t matrix = 0; matrix < kMatrices; ++matrix) all += read_of(matrix);
  EXPECT_EQ(loaded_, all);
  run(drawn(3, 3, true));
  EXPECT_EQ(read_since_load(), 0u);
  EXPECT_EQ(residency_->stats().misses, 0u);
}

TEST_F(ExpertResidencyTest, below_one_expert_it_refuses_and_says_what_is_needed) {
  for (const Given& given : {Given{.budget = kExpert - 1}, Given{.memory = kExpert - 1}}) {
    try {
      make(given);
      FAIL();
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("memory.budget: "), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("smallest working set"), std::string::npos) << error.what();
    }
  }
}

TEST_F(ExpertResidencyTest, more_experts_at_once_than_there_are_slots_are_refused) {
  make({.budget = 2 * kExpert});
  WorkItem three = item(0, 0);
  for (const std::uint32_t expert : {1u, 2u}) three.uses.push_back(item(0, expert).uses.front());
  UnitQueues queues(1);
  queues[0].push_back(three);
  EXPECT_THROW(residency_->check_room(queues), ConfigError);
  queues[0].front().uses.pop_back();
  EXPECT_NO_THROW(residency_->check_room(queues));
}

// Every read fails in turn: the run ends with the matrix and the cause, nothing is left in flight, the next run finds nothing amiss, and
// all memory is given back.
TEST_F(ExpertResidencyTest, a_read_that_fails_ends_the_run_with_its_cause_and_the_next_run_computes) {
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
TEST_F(ExpertResidencyTest, a_slot_has_one_load_in_flight) {
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
TEST_F(ExpertResidencyTest, a_read_ahead_that_failed_is_read_again) {
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

// What is kept may be on its way, or take the slot of something that is.
TEST_F(ExpertResidencyTest, what_is_kept_is_there_whatever_was_on_its_way) {
  make({.budget = 7 * kExpert, .delay = late(1, 2, Picoseconds(1'000'000)), .window = 2});
  residency_->foresee(1, {choice({0, 1, 2, 3})});
  residency_->foresee(2, {choice({0, 1, 2})});
  host_->run(keep_and_look());
  host_->executor().run();
  for (std::uint32_t role = 0; role < kRolesOf; ++role) EXPECT_TRUE(is_in_place(kRolesOf + role, 2) && is_in_place(role, 0)) << role;
}

}  // namespace
}  // namespace vitro
