#include "sim/call_form.hpp"

#include <gtest/gtest.h>

#include "engine/base/rng.hpp"
#include "engine/ops/variants.hpp"
#include "sim/work.hpp"
#include "tests/sim/work_kit.hpp"

namespace vitro::sim {
namespace {

// What is remembered of a form is what a builder finds that has seen no call before.
TEST(CallForm, a_call_of_a_known_form_has_the_work_of_one_that_is_new) {
  Simulation simulation(round_options());
  FixedModel model;
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder known(model, "big", counts);
  Machine& machine = simulation.machine();
  const View weights = view_of(machine, {512, 64, 0}, Format::f32, Region::cold);
  const View halves = view_of(machine, {512, 64, 0}, Format::f16, Region::cold);
  const View bytes = view_of(machine, {512, 64, 0}, Format::q8_0, Region::cold);
  Rng rng(7);
  for (int i = 0; i < 400; ++i) {
    const auto rows = static_cast<std::uint32_t>(1 + rng.below(2)), chosen = static_cast<std::uint32_t>(rng.below(6));
    const Region region = rng.below(2) == 0 ? Region::activation : Region::kv;
    const View wide = view_of(machine, {rows, 512, 0}, Format::f32, region), narrow = view_of(machine, {rows, 64, 0}, Format::f32, region);
    KernelCall call;
    call.variant = variant::kFloat;
    if (rng.below(4) > 0) {
      auto neurons = std::make_shared<std::vector<std::uint32_t>>();
      for (std::uint32_t n = 0, last = 0; n < chosen; ++n) neurons->push_back(last += static_cast<std::uint32_t>(1 + rng.below(2)));
      call.rows = neurons;
      if (rng.below(2) == 0) call.row_offsets = neurons;
    }
    const View& matrix = rng.below(2) == 0 ? weights : halves;
    switch (rng.below(4)) {
      case 0:
        call.op = ops::Matmul{};
        call.in = {matrix, narrow};
        call.out = {wide};
        if (rng.below(2) == 0) {
          call.in[0] = bytes;
          call.variant = variant::kInt8;
          call.quantised_before = rng.below(2) == 0;
        }
        break;
      case 1:
        call.op = ops::Accumulate{rng.below(2) == 0};
        call.in = {matrix, wide};
        call.out = {narrow};
        break;
      case 2:
        call.op = ops::Glu{rng.below(2) == 0 ? Activation::relu : Activation::silu};
        call.in = {wide, wide};
        call.out = {wide};
        call.row_offsets = nullptr;
        break;
      default:
        call.op = ops::Select{0, rng.below(2) == 0 ? std::optional(Activation::silu) : std::nullopt, SelectOf::gate};
        call.in = {wide};
        call.row_offsets = nullptr;
    }
    const hw::Work expected = WorkBuilder(model, "big", counts).build(call), found = known.build(call);
    const auto numbers = [](const hw::Work& w) {
      return std::vector<std::uint64_t>{w.kernel,     w.rows,          w.columns,           w.depth,
                                        w.read_bytes, w.weight_bytes,  w.written_bytes,     w.recent_read_bytes,
                                        w.macs,       w.elementwise,   w.conversions,       w.row_runs,
                                        w.lookups,    w.reused_bytes, w.recent_written_bytes};
    };
    ASSERT_EQ(numbers(found), numbers(expected)) << "call " << i;
  }
}

}  // namespace
}  // namespace vitro::sim
