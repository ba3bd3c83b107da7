// Graphs that GraphCache makes, on the emulated Hexagon.
#include <gmock/gmock.h>

#include "engine/parts/placement/graph_cache.hpp"
#include "tests/engine/host/hexagon_unit_kit.hpp"

namespace vitro::test {
namespace {

using testing::HasSubstr;

class HexagonGraphTest : public HexagonUnitTest {
 protected:
  static Task<void> run_cached(GraphCache* graphs, ComputeUnit* unit, Chain calls, RunResult* result) {
    *result = co_await graphs->run(unit, std::move(calls));
  }
};

// All operands are bound at launch; operators are of every kind.
TEST_F(HexagonGraphTest, a_graph_bound_at_launch_is_taken_whole) {
  VITRO_NEEDS_HEXAGON();
  const View x = view({2, 64, 0}, Format::f32);
  KernelCall first = product(view({96, 64, 0}, Format::q8_0), x),
             add = product(view({32, 32, 0}, Format::q8_0), view({2, 32, 0}, Format::f32));
  add.op = ops::Add{};
  add.variant = {};
  add.in = {first.out[0], first.out[0]};
  add.out = {view({2, 96, 0}, Format::f32)};
  KernelCall last = product(view({32, 96, 0}, Format::q4_0), add.out[0]);
  GraphCache graphs(host_->machine());
  const auto run = [&] {
    RunResult result;
    host_->run(run_cached(&graphs, &unit(), {first, add, last}, &result));
    EXPECT_TRUE(result.status.ok());
  };
  const auto a = on_the_core(first);
  run();
  EXPECT_EQ(floats(first.out[0]), a);
  EXPECT_EQ(floats(add.out[0]), on_the_core(add));
  EXPECT_EQ(floats(last.out[0]), on_the_core(last));
  const auto operators = [&] {
    for (const auto& [name, value] : host_->report({}, {}).counts) {
      if (name == "hexagon_operators") return value;
    }
    return std::uint64_t{0};
  };
  EXPECT_EQ(operators(), 2u);
  EXPECT_THAT(host_->report({}, {}).notes, testing::Contains(HasSubstr("1 operators that it lacks ran on the CPU")));

  // The same graph with other weights, and with weights in memory that is written more than once: never those of before.
  first.in[0] = view({96, 64, 0}, Format::q8_0);
  const Lease buffer = host_->machine().memory.lease(view_bytes(last.in[0]), Placement::dram, Region::staging).value_or_throw();
  for (int seed = 0; seed < 2; ++seed) {
    const View other = view({32, 96, 0}, Format::q4_0);
    std::memcpy(buffer.data(), other.data(), view_bytes(other));
    last.in[0].memory = buffer;
    run();
    EXPECT_EQ(floats(first.out[0]), on_the_core(first));
    EXPECT_EQ(floats(last.out[0]), on_the_core(last));
  }
  EXPECT_EQ(operators(), 4u);
}

}  // namespace
}  // namespace vitro::test
