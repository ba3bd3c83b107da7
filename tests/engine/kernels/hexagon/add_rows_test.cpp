// Sums of rows of weights in places of their own (Down of hot neurons): the worker's, with the bits of the cores.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/engine/kernels/hexagon/rows_kit.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;
using hexagon::MatmulForm;

class AddedRows : public PlacedRows {
 protected:
  KernelCall sum_on(Format format, const MatmulShape& shape) {
    KernelCall call;
    call.op = ops::Accumulate{};
    call.variant = variant::kFloat;
    const bool apart = format == Format::q4_nibbles;
    call.in = {weights(rng_, shape.n, shape.k, apart ? Format::q4_0 : format, Layout::rows), floats(rng_, {shape.batch, shape.n, 0})};
    call.out = {floats(rng_, {shape.batch, shape.k, 0})};
    return apart ? with_scales_apart(call) : call;
  }
  // A sum over rows with weights h, about a third of which are 0: the operator's, with the core's bits. Says what its plan was.
  hexagon::StagePlan run_sum(HexagonWorker& worker, KernelCall call, const hexagon::StageOptions& options) {
    for (std::uint64_t i = 0; i < elements(call.in[1]); ++i) {
      if (rng_.below(3) == 0) call.in[1].as<float>()[i] = 0;
    }
    call = drawn(call);
    const std::uint32_t batch = call.in[1].shape[0], neurons = call.in[1].shape[1];
    std::vector<float> h;
    for (std::uint32_t b = 0; b < batch; ++b) {
      for (const std::uint32_t row : *call.rows) h.push_back(call.in[1].as<float>()[b * neurons + row]);
    }
    hexagon::Operator op = operator_on(call, Kind::add_rows);
    const MatmulForm form = hexagon::rows_form(call).value_or_throw();
    EXPECT_EQ(form.kind, Kind::add_rows);
    op.bits = form.planes.bits;
    op.scales = form.planes.scales;
    op.stages = hexagon::plan_stages(op, row_bytes(call.in[0].format, op.columns), options);
    give_rows(worker, call);
    worker.in(1, h);
    const auto y = worker.run<std::uint32_t>(op, std::size_t{batch} * op.columns);
    cpu_.execute(call);
    EXPECT_EQ(std::memcmp(y.data(), call.out[0].data(), y.size() * 4), 0)
        << fmt::format("{} {} x {} x {}, {} buffers, {} threads", to_string(call.in[0].format), op.rows, op.columns, batch,
                       options.buffers, options.threads);
    return op.stages;
  }
};

const Format kAddedFormats[] = {Format::f16, Format::q8_0, Format::q4_0, Format::q4_nibbles};

// Rows that rest (h is 0) add nothing, not even where they hold what is no number.
TEST_F(AddedRows, are_added_in_order_with_one_rounding_each) {
  HexagonWorker worker;
  for (const Format format : kAddedFormats) {
    for (const MatmulShape& shape : {MatmulShape{1, 64, 1}, {40, 64, 3}, {300, 320, 1}, {90, 1024, 17}}) {
      for (const auto& [buffers, threads, group] : {std::tuple{0u, 1u, Bytes{1}}, {1u, 2u, Bytes{1}}, {2u, 4u, 256 * KiB}}) {
        const hexagon::StagePlan plan = run_sum(worker, sum_on(format, shape), {buffers, threads, group, hexagon::kTcmBytes});
        EXPECT_EQ(plan.threads, threads);
        EXPECT_EQ(plan.groups > 1, group == 1 && shape.n > 8) << "groups are rows of weights";
      }
    }
  }
}

// What TCM does not hold at once: fewer rows of results at a time, for which the weights come again.
TEST_F(AddedRows, are_added_in_passes_where_there_are_many_sums) {
  HexagonWorker worker;
  for (const Format format : kAddedFormats) {
    const hexagon::StagePlan plan = run_sum(worker, sum_on(format, {60, 2048, 40}), {2, 4, 16 * KiB, 256 * KiB});
    EXPECT_GT(plan.passes, 1u);
    EXPECT_GT(plan.groups, 1u);
  }
}

// Weights of every size that a format has: subnormal halves and scales, zeros of both signs, sums that vanish.
TEST_F(AddedRows, are_added_whatever_floats_they_are) {
  HexagonWorker worker;
  for (const Format format : kAddedFormats) {
    const KernelCall call = sum_on(format, {64, 256, 2});
    const View& w = call.in[0];
    const bool halves = format == Format::f16, apart = format == Format::q4_nibbles;
    auto* const first = (apart ? call.in[2] : w).as<std::byte>();
    const Bytes step = halves || apart ? 2 : block_bytes(format), count = (apart ? view_bytes(call.in[2]) : view_bytes(w)) / step;
    for (Bytes i = 0; i < count; ++i) {
      const std::uint32_t drawn = static_cast<std::uint32_t>(rng_.below(1u << 16)), small = drawn & 0x83ff;
      const auto half = static_cast<std::uint16_t>(rng_.below(4) == 0 ? small : (drawn & 0x7c00) == 0x7c00 ? drawn & 0xfbff : drawn);
      std::memcpy(first + i * step, &half, sizeof half);
    }
    for (std::uint64_t i = 0; i < elements(call.in[1]); ++i) {
      call.in[1].as<float>()[i] = std::ldexp(call.in[1].as<float>()[i], static_cast<int>(rng_.below(250)) - 150);
    }
    run_sum(worker, call, {});
  }
}

// With two buffers rows are on their way while others are added; each thread has columns of its own.
TEST_F(AddedRows, are_added_by_all_threads_while_others_come) {
  HexagonWorker worker;
  for (const std::uint32_t buffers : {1u, 2u}) {
    const hexagon::StagePlan plan = run_sum(worker, sum_on(Format::q4_0, {200, 1024, 1}), {buffers, 4, 4 * KiB, hexagon::kTcmBytes});
    hexagon::Operator op = hexagon_op(Kind::add_rows, 0, 1024, 1);
    op.stages = plan;
    const hexagon::StageOverlap overlap = hexagon::overlap_of(op, 0, worker.session().log());
    EXPECT_EQ(overlap.steps, plan.groups);
    EXPECT_EQ(overlap.transfers_ahead, buffers == 2 ? plan.groups - 1 : 0);
    EXPECT_EQ(overlap.vectors_with_matrix, 0u);
  }
}

}  // namespace
}  // namespace vitro::test
