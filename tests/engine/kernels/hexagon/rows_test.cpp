// Rows of weights in places of their own: gathered by the worker, with the bits that a core has for the same call.
#include <gmock/gmock.h>

#include "tests/engine/kernels/hexagon/rows_kit.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;
using hexagon::MatmulForm;

TEST_F(PlacedRows, of_fp16_are_strips_of_the_matrix_unit) {
  HexagonWorker worker;
  const MatmulShape kShapes[] = {{1, 64, 1}, {31, 128, 2}, {70, 320, 3}, {200, 576, 33}, {65, 8192, 2}};
  for (const MatmulShape& shape : kShapes) {
    const KernelCall call = drawn(matmul_call(rng_, Format::f16, Layout::rows, variant::kHmx, shape));
    const MatmulForm form{Kind::matmul_hmx_f16, {}};
    for (const auto& [buffers, threads, group] : {std::tuple{0u, 1u, Bytes{1}}, {1u, 2u, Bytes{1}}, {2u, 4u, 256 * KiB}}) {
      hexagon::Operator op = operator_on(call, Kind::matmul_hmx_f16_rows);
      op.stages = hexagon::plan_stages(op, Bytes{2} * op.columns, {buffers, threads, group, hexagon::kTcmBytes});
      give_rows(worker, call);
      worker.in(1, input_of(form, call.in[1]).first);
      expect_products(call, worker.run<std::uint32_t>(op, std::size_t{op.batch} * op.rows));
    }
  }
}

// What TCM does not hold at once is cut in depth: rows pass in parts.
TEST_F(PlacedRows, of_fp16_pass_in_parts_where_they_are_deep) {
  HexagonWorker worker;
  const KernelCall call = drawn(matmul_call(rng_, Format::f16, Layout::rows, variant::kHmx, {40, 4096, 40}));
  hexagon::Operator op = operator_on(call, Kind::matmul_hmx_f16_rows);
  op.stages = hexagon::plan_stages(op, 0, {2, 2, 256 * KiB, 512 * KiB});
  EXPECT_GT(op.stages.depths, 1u);
  give_rows(worker, call);
  worker.in(1, input_of({Kind::matmul_hmx_f16, {}}, call.in[1]).first);
  expect_products(call, worker.run<std::uint32_t>(op, std::size_t{op.batch} * op.rows));
}

struct BlockRows {
  Format format;
  VariantId variant;
  Kind dense;
  bool apart = false;  // as nibbles, with scales in a matrix of their own
};
const BlockRows kBlockRows[] = {{Format::q8_0, variant::kInt8, Kind::matmul_q8_0},
                                {Format::q4_0, variant::kInt8, Kind::matmul_q4_0},
                                {Format::q4_0, variant::kInt8, Kind::matmul_q4_0, true},
                                {Format::q8_0, variant::kHmx, Kind::matmul_hmx_q8},
                                {Format::q4_0, variant::kHmx, Kind::matmul_hmx},
                                {Format::q4_0, variant::kHmx, Kind::matmul_hmx, true}};
KernelCall product_on(Rng& rng, const BlockRows& rows, const MatmulShape& shape) {
  const KernelCall call = matmul_call(rng, rows.format, Layout::rows, rows.variant, shape);
  return rows.apart ? with_scales_apart(call) : call;
}

// Depths of whole pieces and of less, of one part and of several; one row, and more than a tile of them.
TEST_F(PlacedRows, of_8_and_4_bits_become_strips_in_both_contracts) {
  HexagonWorker worker;
  const MatmulShape kShapes[] = {{1, 64, 1}, {31, 128, 2}, {70, 320, 5}, {200, 576, 34}, {65, 8192, 9}};
  for (const BlockRows& rows : kBlockRows) {
    for (const MatmulShape& shape : kShapes) {
      const KernelCall call = drawn(product_on(rng_, rows, shape));
      for (const auto& [buffers, threads, group] : {std::tuple{0u, 1u, Bytes{1}}, {1u, 2u, Bytes{1}}, {2u, 4u, 256 * KiB}}) {
        run_rows(worker, call, rows.dense, {buffers, threads, group, hexagon::kTcmBytes});
      }
    }
  }
}

// What TCM does not hold at once: fewer rows of activations at a time, and in fp16 parts of the depth.
TEST_F(PlacedRows, of_8_and_4_bits_pass_in_parts_where_they_are_deep) {
  HexagonWorker worker;
  for (const BlockRows& rows : kBlockRows) {
    const KernelCall call = drawn(product_on(rng_, rows, {40, 4096, 70}));
    const hexagon::StagePlan plan = run_rows(worker, call, rows.dense, {2, 2, 256 * KiB, 512 * KiB});
    EXPECT_GT(plan.depths, 1u);
    EXPECT_GT(plan.passes, 1u);
  }
}

// In int8 a scale is whatever float it is; tiles of fp16 are products of finite ones.
TEST_F(PlacedRows, of_scales_that_are_no_numbers_are_the_cores_in_fp16) {
  for (const BlockRows& rows : kBlockRows) {
    const KernelCall call = drawn(product_on(rng_, rows, {40, 64, 1}));
    EXPECT_EQ(hexagon::rows_form(call).value_or_throw().kind, rows.dense);
    const std::uint16_t infinite = 0x7c00;
    const Bytes last_block = row_bytes(rows.format, 64) - block_bytes(rows.format);
    std::byte* const scale = rows.apart ? call.in[2].data() + (call.rows->back() * 2 + 1) * sizeof infinite
                                        : call.in[0].data() + call.row_offsets->back() * kRowOffsetUnit + last_block;
    std::memcpy(scale, &infinite, sizeof infinite);
    const Result<MatmulForm> form = hexagon::rows_form(call);
    EXPECT_EQ(form.ok(), rows.variant == variant::kInt8);
    if (!form.ok()) {
      EXPECT_THAT(form.status().message, testing::HasSubstr("finite scales"));
    }
  }
}

// Neighbours are a 2D block of the DMA engine, of any distance; others are runs of their own.
TEST_F(PlacedRows, as_far_apart_as_others_come_with_them) {
  const auto count = [](std::vector<std::uint32_t> places) {
    std::vector<std::uint32_t> series;
    for (std::size_t i = 0; i < places.size(); i += series.back()) {
      series.push_back(hexagon::series(&places[i], static_cast<std::uint32_t>(places.size() - i)));
    }
    return series;
  };
  EXPECT_THAT(count({7}), testing::ElementsAre(1));
  EXPECT_THAT(count({0, 3, 6, 9, 12}), testing::ElementsAre(5));
  EXPECT_THAT(count({0, 3, 6, 10, 14, 2}), testing::ElementsAre(3, 2, 1));
  EXPECT_THAT(count({5, 5, 4, 6}), testing::ElementsAre(1, 1, 2));
  HexagonWorker worker;
  KernelCall call = drawn(matmul_call(rng_, Format::q4_0, Layout::rows, variant::kInt8, {90, 576, 2}));
  const std::vector<std::uint32_t> places = *call.row_offsets;
  for (const bool descending : {false, true}) {
    std::vector<std::uint32_t> sorted = places, rows = *call.rows;
    std::ranges::sort(sorted);
    if (descending) std::ranges::reverse(sorted);
    call.row_offsets = std::make_shared<const std::vector<std::uint32_t>>(sorted);  // rows of the matrix are those that lie there
    run_rows(worker, call, Kind::matmul_q4_0, {});
  }
}

TEST_F(PlacedRows, that_end_outside_are_refused) {
  HexagonWorker worker;
  const Bytes region = worker.session().transport().inbound().size();
  const KernelCall call = drawn(matmul_call(rng_, Format::f16, Layout::rows, variant::kHmx, {8, 64, 1}));
  const auto run_with = [&](std::uint32_t place, std::uint32_t columns = 64) {
    hexagon::Operator op = operator_on(call, Kind::matmul_hmx_f16_rows);
    op.columns = columns;
    op.rows = 1;
    op.stages = hexagon::plan_stages(op, 0, {});
    give_rows(worker, call);
    worker.in(1, std::vector<std::byte>(Bytes{2} * 32 * columns)).in(3, std::vector<std::uint32_t>{place});
    return worker.run<float>(op, 1);
  };
  EXPECT_NO_THROW(run_with(0));
  EXPECT_THROW(run_with(static_cast<std::uint32_t>(region / hexagon::kPlaceBytes)), RunError);
  EXPECT_THROW(run_with(~0u), RunError);
  EXPECT_THROW(run_with(0, 96), RunError) << "half a vector at its end";
  // Strips and sums, too: one place of several, and formats that there are not.
  const KernelCall strips = drawn(matmul_call(rng_, Format::q8_0, Layout::rows, variant::kInt8, {8, 64, 1}));
  const auto run_kind = [&](Kind kind, std::uint32_t bits, std::uint32_t last, std::uint32_t columns = 64) {
    hexagon::Operator op = operator_on(strips, kind);
    op.rows = 3;
    op.bits = bits;
    op.columns = columns;
    if (hexagon::is_staged(kind)) op.stages = hexagon::plan_stages(op, 0, {});
    give_rows(worker, strips);
    worker.in(1, std::vector<std::byte>(8192)).in(2, std::vector<std::byte>(4096)).in(3, std::vector<std::uint32_t>{0, 1, last});
    return worker.run<float>(op, kind == Kind::add_rows ? columns : 3);
  };
  for (const Kind kind :
       {Kind::matmul_q8_0_rows, Kind::matmul_q4_0_rows, Kind::matmul_hmx_q8_rows, Kind::matmul_hmx_rows, Kind::add_rows}) {
    EXPECT_NO_THROW(run_kind(kind, 8, 2));
    EXPECT_THROW(run_kind(kind, 8, static_cast<std::uint32_t>(region / hexagon::kPlaceBytes)), RunError);
    EXPECT_THROW(run_kind(kind, 8, ~0u), RunError);
    EXPECT_THROW(run_kind(kind, 8, 2, 96), RunError) << "no whole words";
  }
  EXPECT_THROW(run_kind(Kind::add_rows, 3, 2), RunError);
}

}  // namespace
}  // namespace vitro::test
