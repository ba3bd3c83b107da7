// Graphs that GraphCache makes, on the emulated Hexagon.
#include <gmock/gmock.h>

#include "engine/parts/placement/graph_cache.hpp"
#include "engine/parts/weights/residency.hpp"
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

// Whoever keeps weights asks the units where: what is computed as stored, or in places, is to lie where the worker reads it.
TEST_F(HexagonGraphTest, weights_are_leased_where_the_worker_reads_them) {
  VITRO_NEEDS_HEXAGON();
  Machine& machine = host_->machine();
  const auto placement = [&](Format format, bool in_places, Bytes size = MiB) {
    return lease_weights(machine, size, format, Region::fixed, in_places).value_or_throw().placement();
  };
  for (const Format format : {Format::q4_0_tile, Format::f16}) EXPECT_EQ(placement(format, false), Placement::npu_mapped);
  for (const Format format : {Format::q4_0, Format::q8_0, Format::w(2, 64)}) EXPECT_EQ(placement(format, false), Placement::dram);
  for (const Format format : {Format::q4_0, Format::q4_nibbles, Format::q8_0, Format::f16}) {
    EXPECT_EQ(placement(format, true), Placement::npu_mapped);
  }
  for (const Format format : {Format::w(4, 32), Format::q4_0_tile}) EXPECT_EQ(placement(format, true), Placement::dram);
  EXPECT_EQ(placement(Format::f16, false, 8 * MiB), Placement::dram) << "more than a session holds";
  EXPECT_EQ(lease_weights(machine, 8 * GiB, Format::f16, Region::fixed).status().code, Code::over_budget);
}

// Neurons in an arena that the worker maps: rows are read where they lie now, whatever was there before. In memory that it does not map, or
// in a format that it has no kernel for, they are the core's.
TEST_F(HexagonGraphTest, rows_in_places_are_read_where_they_lie_at_each_launch) {
  VITRO_NEEDS_HEXAGON();
  constexpr std::uint32_t kNeurons = 96, kWidth = 128, kSlots = 160;
  const std::tuple<Format, VariantId, Placement, std::uint64_t> kCases[] = {
      {Format::f16, variant::kHmx, Placement::npu_mapped, 3},   {Format::q8_0, variant::kInt8, Placement::npu_mapped, 3},
      {Format::q4_0, variant::kInt8, Placement::npu_mapped, 3}, {Format::q8_0, variant::kFloat, Placement::npu_mapped, 1},
      {Format::q8_0, variant::kInt8, Placement::dram, 0},       {Format::w(4, 32), variant::kInt8, Placement::npu_mapped, 0},
      {Format::q4_nibbles, variant::kInt8, Placement::npu_mapped, 3}};
  GraphCache graphs(host_->machine());
  Rng rng(5);
  for (const auto& [format, contract, where, of_the_worker] : kCases) {
    const Bytes row = row_bytes(format, kWidth), pitch = round_up(row, kRowOffsetUnit);
    const Lease arena = host_->machine().memory.lease(kSlots * pitch, where, Region::cold).value_or_throw();
    for (int launch = 0; launch < 2; ++launch) {
      auto rows = std::make_shared<std::vector<std::uint32_t>>(), places = std::make_shared<std::vector<std::uint32_t>>();
      View drawn = view({kSlots, kWidth, 0}, format == Format::q4_nibbles ? Format::q4_0 : format);
      drawn.format = format;  // any bytes are nibbles
      for (std::uint32_t slot = 0; slot < kSlots; ++slot) std::memcpy(arena.data() + slot * pitch, drawn.data() + slot * row, row);
      for (std::uint32_t n = 0; n < kNeurons; ++n) {
        rows->push_back(n);
        places->push_back(static_cast<std::uint32_t>(rng.below(kSlots) * pitch / kRowOffsetUnit));
      }
      View neurons = drawn;
      neurons.memory = arena;
      neurons.shape = {kNeurons, kWidth, 0};
      const View x = view({2, kWidth, 0}, Format::f32);
      KernelCall gate = product(neurons, x, contract), up = gate, glu, down;
      up.out = {view({2, kNeurons, 0}, Format::f32)};
      glu.op = ops::Glu{Activation::relu};
      glu.variant = down.variant = variant::kFloat;
      glu.layer = down.layer = 0;
      glu.in = {gate.out[0], up.out[0]};
      glu.out = {view({2, kNeurons, 0}, Format::f32)};
      down.op = ops::Accumulate{};
      down.in = {neurons, glu.out[0]};
      down.out = {view({2, kWidth, 0}, Format::f32)};
      for (KernelCall* call : {&gate, &up, &down}) call->rows = rows, call->row_offsets = places;
      const View scales = view({kNeurons, kWidth / 32, 0}, Format::f16);
      for (KernelCall* call : {&gate, &up, &down}) {
        if (format == Format::q4_nibbles) call->in.push_back(scales);
      }
      std::vector<std::vector<float>> expected;
      for (const KernelCall* call : {&gate, &up, &glu, &down}) {
        function_.execute(*call);
        expected.push_back(floats(call->out[0]));
      }
      for (const KernelCall* call : {&gate, &up, &glu, &down}) std::memset(call->out[0].data(), 0, view_bytes(call->out[0]));
      const std::uint64_t before = counted("hexagon_operators");
      RunResult result;
      host_->run(run_cached(&graphs, &unit(), {gate, up, glu, down}, &result));
      EXPECT_TRUE(result.status.ok());
      std::size_t i = 0;
      for (const KernelCall* call : {&gate, &up, &glu, &down}) {
        EXPECT_EQ(floats(call->out[0]), expected[i++]) << to_string(format) << " " << to_string(call->op);
      }
      EXPECT_EQ(counted("hexagon_operators") - before, of_the_worker) << to_string(format);
    }
  }
  EXPECT_EQ(counted("hexagon_copied_bytes"), 0u);
  EXPECT_THAT(host_->report({}, {}).notes, testing::Contains(HasSubstr("matmuls with row offsets ran on the CPU, the first one because")));
}

}  // namespace
}  // namespace vitro::test
