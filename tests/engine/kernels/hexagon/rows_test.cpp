// Rows of weights in places of their own: gathered by the worker, with the bits that a core has for the same call.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "engine/host/hexagon_rows.hpp"
#include "engine/ops/variants.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/hexagon/worker_product.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;
using hexagon::MatmulForm;

class PlacedRows : public testing::Test {
 protected:
  void SetUp() override { VITRO_NEEDS_HEXAGON(); }

  // About half of the rows of a matrix, in drawn places among others.
  KernelCall drawn(KernelCall call) {
    std::vector<std::uint32_t> rows;
    for (std::uint32_t row = 0; row < call.in[0].shape[0]; ++row) {
      if (rng_.below(2) == 0 || row + 1 == call.in[0].shape[0]) rows.push_back(row);
    }
    call.rows = std::make_shared<const std::vector<std::uint32_t>>(std::move(rows));
    return placed(rng_, call);
  }
  hexagon::Operator operator_on(const KernelCall& call, Kind kind) {
    const View& w = call.in[0];
    return hexagon_op(kind, static_cast<std::uint32_t>(call.row_offsets->size()), columns(w), call.in[1].shape[0]);
  }
  // The memory that has the rows, and their places.
  static void give_rows(HexagonWorker& worker, const KernelCall& call) {
    const View& w = call.in[0];
    worker.in(0, std::span<const std::byte>(w.data(), w.memory.size() - w.offset)).in(3, *call.row_offsets);
  }
  // y [batch][rows that are named], and the core's for them.
  void expect_products(const KernelCall& call, const std::vector<std::uint32_t>& y) {
    cpu_.execute(call);
    const std::size_t count = call.rows->size(), n = call.in[0].shape[0];
    for (std::size_t b = 0; b < call.in[1].shape[0]; ++b) {
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(y[b * count + i], call.out[0].as<std::uint32_t>()[b * n + (*call.rows)[i]])
            << to_string(call.in[0].format) << ", row " << b << ", neuron " << (*call.rows)[i] << " of " << n;
      }
    }
  }

  // A product in the order of a plan, with the core's bits.
  hexagon::StagePlan run_rows(HexagonWorker& worker, const KernelCall& call, Kind dense, const hexagon::StageOptions& options) {
    hexagon::Operator op = operator_on(call, hexagon::in_places(dense));
    op.stages = hexagon::plan_stages(op, row_bytes(call.in[0].format, op.columns), options);
    give_rows(worker, call);
    const Input x = input_of({dense, {}}, call.in[1]);
    worker.in(1, x.first).in(2, x.second);
    expect_products(call, worker.run<std::uint32_t>(op, std::size_t{op.batch} * op.rows));
    return op.stages;
  }

  Rng rng_{17};
  ComputeFunction cpu_{{"portable"}};
};

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
};
const BlockRows kBlockRows[] = {{Format::q8_0, variant::kInt8, Kind::matmul_q8_0},
                                {Format::q4_0, variant::kInt8, Kind::matmul_q4_0},
                                {Format::q8_0, variant::kHmx, Kind::matmul_hmx_q8},
                                {Format::q4_0, variant::kHmx, Kind::matmul_hmx}};

// Depths of whole pieces and of less, of one part and of several; one row, and more than a tile of them.
TEST_F(PlacedRows, of_8_and_4_bits_become_strips_in_both_contracts) {
  HexagonWorker worker;
  const MatmulShape kShapes[] = {{1, 64, 1}, {31, 128, 2}, {70, 320, 5}, {200, 576, 34}, {65, 8192, 9}};
  for (const auto& [format, variant, dense] : kBlockRows) {
    for (const MatmulShape& shape : kShapes) {
      const KernelCall call = drawn(matmul_call(rng_, format, Layout::rows, variant, shape));
      for (const auto& [buffers, threads, group] : {std::tuple{0u, 1u, Bytes{1}}, {1u, 2u, Bytes{1}}, {2u, 4u, 256 * KiB}}) {
        run_rows(worker, call, dense, {buffers, threads, group, hexagon::kTcmBytes});
      }
    }
  }
}

// What TCM does not hold at once: fewer rows of activations at a time, and in fp16 parts of the depth.
TEST_F(PlacedRows, of_8_and_4_bits_pass_in_parts_where_they_are_deep) {
  HexagonWorker worker;
  for (const auto& [format, variant, dense] : kBlockRows) {
    const KernelCall call = drawn(matmul_call(rng_, format, Layout::rows, variant, {40, 4096, 70}));
    const hexagon::StagePlan plan = run_rows(worker, call, dense, {2, 2, 256 * KiB, 512 * KiB});
    EXPECT_GT(plan.depths, 1u);
    EXPECT_GT(plan.passes, 1u);
  }
}

// In int8 a scale is whatever float it is; tiles of fp16 are products of finite ones.
TEST_F(PlacedRows, of_scales_that_are_no_numbers_are_the_cores_in_fp16) {
  for (const auto& [format, variant, dense] : kBlockRows) {
    const KernelCall call = drawn(matmul_call(rng_, format, Layout::rows, variant, {40, 64, 1}));
    EXPECT_EQ(hexagon::rows_form(call).value_or_throw().kind, dense);
    const std::uint16_t infinite = 0x7c00;
    const Bytes last_block = row_bytes(format, 64) - block_bytes(format);
    std::memcpy(call.in[0].data() + call.row_offsets->back() * kRowOffsetUnit + last_block, &infinite, sizeof infinite);
    const Result<MatmulForm> form = hexagon::rows_form(call);
    EXPECT_EQ(form.ok(), variant == variant::kInt8);
    if (!form.ok()) EXPECT_THAT(form.status().message, testing::HasSubstr("finite scales"));
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

// Rows that rest (h is 0) add nothing, not even where they hold what is no number.
TEST_F(PlacedRows, are_added_in_order_with_one_rounding_each) {
  HexagonWorker worker;
  for (const auto& [format, bits] : {std::pair{Format::f16, 16u}, {Format::q8_0, 8u}, {Format::q4_0, 4u}}) {
    for (const MatmulShape& shape : {MatmulShape{1, 32, 1}, {40, 64, 3}, {300, 288, 1}, {90, 1024, 17}}) {
      KernelCall call;
      call.op = ops::Accumulate{};
      call.variant = variant::kFloat;
      call.in = {weights(rng_, shape.n, shape.k, format, Layout::rows), floats(rng_, {shape.batch, shape.n, 0})};
      call.out = {floats(rng_, {shape.batch, shape.k, 0})};
      for (std::uint64_t i = 0; i < elements(call.in[1]); ++i) {
        if (rng_.below(3) == 0) call.in[1].as<float>()[i] = 0;
      }
      call = drawn(call);
      std::vector<float> h;
      for (std::uint32_t b = 0; b < shape.batch; ++b) {
        for (const std::uint32_t row : *call.rows) h.push_back(call.in[1].as<float>()[b * shape.n + row]);
      }
      hexagon::Operator op = operator_on(call, Kind::add_rows);
      op.bits = bits;
      give_rows(worker, call);
      worker.in(1, h);
      const auto y = worker.run<std::uint32_t>(op, std::size_t{shape.batch} * shape.k);
      cpu_.execute(call);
      EXPECT_EQ(std::memcmp(y.data(), call.out[0].data(), y.size() * 4), 0) << to_string(format) << " " << shape.n << " x " << shape.k;
    }
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
    if (kind != Kind::add_rows) EXPECT_THROW(run_kind(kind, 8, 2, 96), RunError) << "no whole words";
  }
  EXPECT_THROW(run_kind(Kind::add_rows, 3, 2), RunError);
}

}  // namespace
}  // namespace vitro::test
