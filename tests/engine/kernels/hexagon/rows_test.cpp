// Rows of weights in places of their own: gathered by the worker, with the bits that a core has for the same call.
#include <fmt/format.h>

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
    worker.in(0, std::span<const std::byte>(w.data(), w.memory.size() - w.offset)).in(2, *call.row_offsets);
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

TEST_F(PlacedRows, of_8_and_4_bits_are_panels_of_vectors) {
  HexagonWorker worker;
  const std::pair<Format, MatmulForm> kForms[] = {{Format::q8_0, {Kind::matmul_q8_0_rows, {}}},
                                                  {Format::q4_0, {Kind::matmul_q4_0_rows, {}}}};
  const MatmulShape kShapes[] = {{1, 64, 1}, {31, 128, 2}, {70, 320, 5}, {200, 576, 4}, {65, 8192, 9}};
  for (const auto& [format, form] : kForms) {
    for (const MatmulShape& shape : kShapes) {
      const KernelCall call = drawn(matmul_call(rng_, format, Layout::rows, variant::kInt8, shape));
      const hexagon::Operator op = operator_on(call, form.kind);
      give_rows(worker, call);
      worker.in(1, input_of(form, call.in[1]).first);
      expect_products(call, worker.run<std::uint32_t>(op, std::size_t{op.batch} * op.rows));
    }
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
    worker.in(1, std::vector<std::byte>(Bytes{2} * 32 * columns)).in(2, std::vector<std::uint32_t>{place});
    return worker.run<float>(op, 1);
  };
  EXPECT_NO_THROW(run_with(0));
  EXPECT_THROW(run_with(static_cast<std::uint32_t>(region / hexagon::kPlaceBytes)), RunError);
  EXPECT_THROW(run_with(~0u), RunError);
  EXPECT_THROW(run_with(0, 96), RunError) << "half a vector at its end";
  // Panels and sums, too: one place of several, and formats that there are not.
  const KernelCall panel = drawn(matmul_call(rng_, Format::q8_0, Layout::rows, variant::kInt8, {8, 64, 1}));
  const auto run_kind = [&](Kind kind, std::uint32_t bits, std::uint32_t last, std::uint32_t columns = 64) {
    hexagon::Operator op = operator_on(panel, kind);
    op.rows = 3;
    op.bits = bits;
    op.columns = columns;
    give_rows(worker, panel);
    worker.in(1, std::vector<std::byte>(4096)).in(2, std::vector<std::uint32_t>{0, 1, last});
    return worker.run<float>(op, kind == Kind::add_rows ? columns : 3);
  };
  for (const Kind kind : {Kind::matmul_q8_0_rows, Kind::matmul_q4_0_rows, Kind::add_rows}) {
    EXPECT_NO_THROW(run_kind(kind, 8, 2));
    EXPECT_THROW(run_kind(kind, 8, static_cast<std::uint32_t>(region / hexagon::kPlaceBytes)), RunError);
    EXPECT_THROW(run_kind(kind, 8, ~0u), RunError);
  }
  EXPECT_THROW(run_kind(Kind::matmul_q8_0_rows, 8, 2, 96), RunError) << "no whole words";
  EXPECT_THROW(run_kind(Kind::add_rows, 3, 2), RunError);
}

}  // namespace
}  // namespace vitro::test
