// One phase: which items make a chain, what the residency is told and when, and how errors end it. The residency is the test's own.
#include "engine/parts/weights/phase_runner.hpp"

#include <numeric>
#include <set>

#include "engine/machine/counted_machine.hpp"
#include "tests/engine/transformer/model_kit.hpp"

namespace vitro {
namespace {

using Log = std::vector<std::string>;

std::string item_name(std::size_t unit, std::size_t item) { return std::to_string(unit) + "." + std::to_string(item); }

// Items in `waiting` have to be fetched, which takes as long as `delay` says.
class Scripted final : public Residency {
 public:
  explicit Scripted(Machine& machine) : machine_(machine), released_(machine.executor) {}
  Task<void> load() override { co_return; }
  View view(const Weight&, std::uint32_t) const override { return {}; }
  Bytes item_bytes() const override { return 0; }
  void plan(const UnitQueues& phase) override { log.push_back("plan " + std::to_string(phase.size())); }
  bool ready(std::size_t unit, std::size_t item) const override { return !waiting.contains({unit, item}); }
  Task<void> fetch(std::size_t unit, std::size_t item, UnitId issuer) override {
    EXPECT_EQ(static_cast<std::size_t>(issuer), unit);
    while (held.contains({unit, item}) && abandoned == 0) co_await released_.changed();
    co_await sleep_until(machine_.executor, machine_.executor.now() + delay);
    if (fails.contains({unit, item})) throw RunError("no bytes for " + item_name(unit, item));
    log.push_back("fetch " + item_name(unit, item));
    waiting.erase({unit, item});
  }
  void done(std::size_t unit, std::size_t item) override { log.push_back("done " + item_name(unit, item)); }
  void abandon() override {
    ++abandoned;
    released_.notify();
  }
  CacheStats stats() const override { return {}; }
  bool stays() const override { return staying; }

  std::set<std::pair<std::size_t, std::size_t>> waiting, fails, held;  // held: till the phase is abandoned
  Picoseconds delay{10};
  int abandoned = 0;
  bool staying = false;
  Log log;

 private:
  Machine& machine_;
  Signal released_;
};

// Logs each call, whose layer is its unit and whose expert is its item, and gives samples an outcome of that name.
class LoggedFunction final : public Function {
 public:
  Outcome execute(const KernelCall& call) override {
    const std::string name = item_name(static_cast<std::size_t>(call.layer), static_cast<std::size_t>(call.expert));
    if (name == broken) throw RunError("unit lost at " + name);
    log->push_back("run " + name);
    if (call.is<ops::Sample>()) return TokenChoice{{call.layer, call.expert}};
    return {};
  }
  Log* log = nullptr;
  std::string broken;
};

class PhaseRunnerTest : public testing::Test {
 protected:
  explicit PhaseRunnerTest(std::uint64_t timing = 1) { start(timing); }
  void start(std::uint64_t timing, std::uint32_t cores = 3, const std::vector<std::string>& accelerators = {}) {
    runner.reset(), graphs_.reset(), counted_.reset(), host_.reset();
    host_.emplace(machine_spec(units_of(cores, accelerators), timing), function, trace_);
    counted_.emplace(host_->machine());
    residency.emplace(machine());
    graphs_.emplace(machine());
    runner.emplace(machine(), *residency, *graphs_);
    function.log = &residency->log;
    function.broken.clear();
  }
  Machine& machine() { return counted_->machine(); }
  std::uint64_t submissions() const { return counted_->counts().unit_submissions; }
  const GraphLoads& loads() const { return graphs_->loads(); }

  static UnitQueues queues(std::vector<std::size_t> items, std::size_t calls = 1) {
    UnitQueues out(items.size());
    for (std::size_t u = 0; u < items.size(); ++u) {
      for (std::size_t i = 0; i < items[u]; ++i) {
        KernelCall call;
        call.op = ops::Sample{};
        call.layer = static_cast<std::int16_t>(u);
        call.expert = static_cast<std::int16_t>(i);
        out[u].push_back({Chain(calls, call), {}});
      }
    }
    return out;
  }
  std::vector<std::string> run(UnitQueues work) {
    std::vector<Outcome> outcomes;
    host_->run(keep(runner->run(std::move(work), machine().units), &outcomes));
    std::vector<std::string> names;
    for (const Outcome& outcome : outcomes) {
      const std::vector<std::int32_t>& from = std::get<TokenChoice>(outcome).tokens;
      names.push_back(item_name(static_cast<std::size_t>(from[0]), static_cast<std::size_t>(from[1])));
    }
    return names;
  }
  // Of one unit, in the order in which it happened.
  Log log_of(std::size_t unit) const {
    Log out;
    for (const std::string& entry : residency->log) {
      if (entry.find(" " + std::to_string(unit) + ".") != std::string::npos) out.push_back(entry);
    }
    return out;
  }

  LoggedFunction function;
  std::optional<Scripted> residency;
  std::optional<PhaseRunner> runner;

 private:
  static Task<void> keep(Task<std::vector<Outcome>> task, std::vector<Outcome>* out) { *out = co_await std::move(task); }

  NullTrace trace_;
  std::optional<VirtualMachine> host_;
  std::optional<CountedMachine> counted_;
  std::optional<GraphCache> graphs_;
};

TEST_F(PhaseRunnerTest, items_that_are_ready_join_one_chain) {
  run(queues({3}));
  EXPECT_EQ(residency->log, (Log{"plan 1", "run 0.0", "run 0.1", "run 0.2", "done 0.0", "done 0.1", "done 0.2"}));
  EXPECT_EQ(submissions(), 1u);
}

TEST_F(PhaseRunnerTest, an_item_that_is_not_there_is_fetched_and_begins_a_chain) {
  residency->waiting = {{0, 0}, {0, 2}, {0, 3}};
  run(queues({5}));
  EXPECT_EQ(residency->log, (Log{"plan 1", "fetch 0.0", "run 0.0", "run 0.1", "done 0.0", "done 0.1", "fetch 0.2", "run 0.2", "done 0.2",
                                 "fetch 0.3", "run 0.3", "run 0.4", "done 0.3", "done 0.4"}));
  EXPECT_EQ(submissions(), 3u);
}

TEST_F(PhaseRunnerTest, units_do_not_wait_for_each_other_within_a_phase) {
  residency->waiting = {{0, 0}};
  residency->delay = Picoseconds(1000000);  // longer than all calls of the others
  run(queues({1, 4}));
  EXPECT_EQ(residency->log.back(), "done 0.0");
  EXPECT_EQ(log_of(1).size(), 8u);
}

TEST_F(PhaseRunnerTest, outcomes_come_by_unit_and_then_in_the_order_of_the_queue) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    start(seed);
    Rng rng(seed);
    std::vector<std::size_t> items(3);
    Log expected;
    std::uint64_t chains = 0;
    for (std::size_t u = 0; u < items.size(); ++u) {
      items[u] = rng.below(6);
      if (items[u] > 0) ++chains;
      for (std::size_t i = 0; i < items[u]; ++i) {
        expected.push_back(item_name(u, i));
        expected.push_back(item_name(u, i));  // two calls
        if (rng.below(3) > 0) continue;
        residency->waiting.insert({u, i});
        if (i > 0) ++chains;
      }
    }
    EXPECT_EQ(run(queues(items, 2)), expected) << "seed " << seed;
    EXPECT_EQ(submissions(), chains) << "seed " << seed;
    EXPECT_TRUE(residency->waiting.empty());
    for (std::size_t u = 0; u < items.size(); ++u) {
      Log done;
      for (const std::string& entry : log_of(u)) {
        if (entry.starts_with("done")) done.push_back(entry);
      }
      ASSERT_EQ(done.size(), items[u]);
      for (std::size_t i = 0; i < items[u]; ++i) EXPECT_EQ(done[i], "done " + item_name(u, i)) << "once each, in order";
    }
    EXPECT_EQ(residency->abandoned, 0);
  }
}

TEST_F(PhaseRunnerTest, submissions_add_up_over_phases) {
  run(queues({2, 2}));
  run(queues({0, 1, 1}));
  EXPECT_EQ(submissions(), 4u);
  EXPECT_EQ(run(queues({0, 0})), Log{}) << "nothing to do";
  EXPECT_EQ(submissions(), 4u);
}

// The first error is the phase's; the residency hears of it, and no unit begins another chain.
TEST_F(PhaseRunnerTest, an_error_ends_the_phase_when_all_units_have_ended) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const bool unit : {true, false}) {
      start(seed);
      for (std::size_t u = 0; u < 3; ++u) {
        for (std::size_t i = 1; i < 40; ++i) residency->waiting.insert({u, i});  // a chain each
      }
      if (unit) function.broken = "1.2";
      if (!unit) residency->fails = {{1, 2}};
      const std::string message = message_of<RunError>([&] { run(queues({40, 40, 40})); });
      EXPECT_EQ(message, unit ? "unit lost at 1.2" : "no bytes for 1.2");
      EXPECT_EQ(residency->abandoned, 1);
      EXPECT_EQ(log_of(1).back(), unit ? "fetch 1.2" : "done 1.1");
      EXPECT_EQ(std::ranges::count(residency->log, "done 1.2"), 0);
      for (const std::size_t other : {0u, 2u}) {
        EXPECT_LT(log_of(other).size(), 3u * 20) << "it stopped early";
        EXPECT_TRUE(log_of(other).back().starts_with("done")) << "what it had begun came to its end";
      }
    }
  }
}

// Nothing is to be fetched or given back: each unit has one chain, and the residency hears of the plan alone.
TEST_F(PhaseRunnerTest, where_weights_stay_each_unit_has_one_chain) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    start(seed);
    residency->staying = true;
    EXPECT_EQ(run(queues({2, 0, 3})), (Log{"0.0", "0.1", "2.0", "2.1", "2.2"})) << "seed " << seed;
    EXPECT_EQ(submissions(), 2u);
    EXPECT_EQ(log_of(0), (Log{"run 0.0", "run 0.1"}));
    EXPECT_EQ(log_of(2), (Log{"run 2.0", "run 2.1", "run 2.2"}));
  }
}

TEST_F(PhaseRunnerTest, where_weights_stay_an_error_ends_the_phase_when_all_units_have_ended) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    start(seed);
    residency->staying = true;
    function.broken = "1.2";
    EXPECT_EQ(message_of<RunError>([&] { run(queues({30, 40, 30})); }), "unit lost at 1.2");
    EXPECT_EQ(log_of(0).size(), 30u);
    EXPECT_EQ(log_of(1), (Log{"run 1.0", "run 1.1"}));
    EXPECT_EQ(log_of(2).size(), 30u);
  }
}

// Else the phase would never end: what unit 0 waits for was to come from unit 1.
TEST_F(PhaseRunnerTest, an_error_releases_who_waits_for_the_residency) {
  residency->waiting = residency->held = {{0, 1}};
  function.broken = "1.0";
  EXPECT_EQ(message_of<RunError>([&] { run(queues({2, 1})); }), "unit lost at 1.0");
  EXPECT_EQ(log_of(0).at(1), "done 0.0");
}

// The first phase waits for a graph on the accelerator, as a task of its own; later ones launch it beside the cores' chains.
TEST_F(PhaseRunnerTest, weights_that_stay_are_launched_on_an_accelerator_as_soon_as_its_graph_is_there) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    start(seed, 2, {"npu"});
    residency->staying = true;
    const Log expected{"0.0", "0.1", "2.0", "2.1"};
    for (std::uint64_t phase = 1; phase <= 4; ++phase) {
      EXPECT_EQ(run(queues({2, 0, 2})), expected) << "seed " << seed;
      EXPECT_EQ(submissions(), 2 * phase);
      EXPECT_EQ(loads().loads, 1u);
      EXPECT_EQ(loads().waits, 1u);
    }
    run(queues({1, 1, 3}));  // another graph
    EXPECT_EQ(loads().loads, 2u);
    EXPECT_EQ(submissions(), 2u * 4 + 3);
  }
}

TEST_F(PhaseRunnerTest, an_accelerator_that_fails_waits_for_the_cores) {
  start(3, 2, {"npu"});
  residency->staying = true;
  run(queues({1, 0, 4}));
  function.broken = "2.1";
  residency->log.clear();
  EXPECT_EQ(message_of<RunError>([&] { run(queues({20, 20, 4})); }), "unit lost at 2.1");
  EXPECT_EQ(log_of(0).size(), 20u);
  EXPECT_EQ(log_of(1).size(), 20u);
}

}  // namespace
}  // namespace vitro
