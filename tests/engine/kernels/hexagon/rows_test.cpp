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
}

}  // namespace
}  // namespace vitro::test
