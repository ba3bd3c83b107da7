// Which graphs are there when. Times are the test's: a launch takes one unit, a load whatever the unit of the test says.
#include "engine/parts/ffn/experts/graph_slots.hpp"

#include <gtest/gtest.h>

#include "engine/machine/unit_decorator.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

constexpr Picoseconds kLoad{10'000};

// A unit that takes a while to load a graph, and refuses some.
class Loads final : public UnitDecorator {
 public:
  Loads(ComputeUnit& inner, Machine& machine) : UnitDecorator(inner), machine_(machine) {}
  Task<Result<Graph>> load(GraphSpec spec) override {
    if (spec.name == refused) co_return Result<Graph>(Status{Code::over_budget, "there is no room for " + spec.name});
    co_await sleep_until(machine_.executor, machine_.clock.now() + kLoad);
    ++held;
    most = std::max(most, held);
    co_return Result<Graph>(Graph{static_cast<std::uint32_t>(std::stoul(spec.name)), 0});
  }
  void unload(Graph) override { --held; }
  std::string refused;
  int held = 0, most = 0;

 private:
  Machine& machine_;
};

class Nothing final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

struct Bench {
  explicit Bench(std::uint32_t count) {
    VirtualMachineSpec spec;
    spec.phantom = true;
    spec.units.emplace_back();
    spec.units.back().name = "ane0";
    host = std::make_unique<VirtualMachine>(std::move(spec), function, trace);
    unit = std::make_unique<Loads>(*machine().units[0], machine());
    slots = std::make_unique<GraphSlots>(machine(), *unit, count, [](std::size_t graph) {
      GraphSpec made;
      made.name = std::to_string(graph);
      return made;
    });
  }
  ~Bench() { host->run(slots->settle()); }
  Machine& machine() { return host->machine(); }
  // Uses graphs one after the other, and says how long each was waited for, in loads.
  std::vector<std::int64_t> use(std::vector<std::size_t> graphs, std::vector<std::size_t> ahead = {}) {
    std::vector<std::int64_t> waited;
    host->run(use_all(&graphs, &ahead, &waited));
    return waited;
  }
  Task<void> use_all(const std::vector<std::size_t>* graphs, const std::vector<std::size_t>* ahead, std::vector<std::int64_t>* waited) {
    for (const std::size_t graph : *ahead) slots->begin(graph);
    if (!ahead->empty()) co_await sleep_until(machine().executor, machine().clock.now() + 2 * kLoad);
    for (const std::size_t graph : *graphs) {
      const Picoseconds before = machine().clock.now();
      const Graph got = co_await slots->take(graph);
      EXPECT_EQ(got.id, graph);
      waited->push_back((machine().clock.now() - before) / kLoad);
      slots->used(graph);
    }
  }

  Nothing function;
  NullTrace trace;
  std::unique_ptr<VirtualMachine> host;
  std::unique_ptr<Loads> unit;
  std::unique_ptr<GraphSlots> slots;
};

TEST(GraphSlots, a_graph_that_was_begun_is_not_waited_for) {
  Bench bench(2);
  EXPECT_EQ(bench.use({1, 2, 3}, {1, 2}), (std::vector<std::int64_t>{0, 0, 1}));
  EXPECT_EQ(bench.slots->loads(), 3u);
  EXPECT_EQ(bench.slots->evictions(), 1u);
  EXPECT_EQ(bench.unit->most, 2);
}

TEST(GraphSlots, in_a_circle_the_graph_that_was_used_last_gives_way) {
  Bench bench(3);
  bench.use({1, 2, 3, 4});  // 4 in place of 3
  EXPECT_EQ(bench.use({1, 2, 3, 4}), (std::vector<std::int64_t>{0, 0, 1, 0})) << "1, 2 and 4 are there";
}

TEST(GraphSlots, what_is_named_first_stays) {
  Bench bench(2);
  bench.use({1, 2});
  EXPECT_TRUE(bench.slots->begin(2));   // it is there
  EXPECT_TRUE(bench.slots->begin(3));   // in place of 1
  EXPECT_FALSE(bench.slots->begin(4));  // both are wanted
  EXPECT_EQ(bench.use({2}), (std::vector<std::int64_t>{0}));
}

TEST(GraphSlots, a_use_that_nobody_foresaw_is_served_all_the_same) {
  Bench bench(2);
  EXPECT_EQ(bench.use({9}, {1, 2}), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(bench.unit->most, 2);
}

TEST(GraphSlots, a_refused_graph_is_an_error_of_who_takes_it) {
  Bench bench(2);
  bench.unit->refused = "7";
  EXPECT_THROW(bench.use({7}), RunError);
  EXPECT_EQ(bench.use({1}), (std::vector<std::int64_t>{1}));
}

}  // namespace
}  // namespace vitro
