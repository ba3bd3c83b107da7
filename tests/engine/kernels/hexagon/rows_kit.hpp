// Calls on rows of weights in drawn places, and the worker's operators for them.
#pragma once
#include <fmt/format.h>

#include "engine/host/hexagon_rows.hpp"
#include "engine/ops/variants.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/hexagon/worker_product.hpp"

namespace vitro::test {

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
  hexagon::Operator operator_on(const KernelCall& call, hexagon::Kind kind) {
    const View& w = call.in[0];
    return hexagon_op(kind, static_cast<std::uint32_t>(call.row_offsets->size()), columns(w), call.in[1].shape[0]);
  }
  // The memory that has the rows, and their places; behind these, scales that lie apart.
  static void give_rows(HexagonWorker& worker, const KernelCall& call) {
    const View &w = call.in[0], *scales = scales_of(call);
    const auto count = static_cast<std::uint32_t>(call.row_offsets->size());
    const Bytes of_row = scales != nullptr ? scale_row_bytes(w) : 0;
    std::vector<std::byte> places(scales != nullptr ? hexagon::scales_behind(count) + count * of_row : count * sizeof(std::uint32_t));
    std::memcpy(places.data(), call.row_offsets->data(), count * sizeof(std::uint32_t));
    for (std::uint32_t i = 0; i < count && scales != nullptr; ++i) {
      std::memcpy(&places[hexagon::scales_behind(count) + i * of_row], scales->data() + (*call.rows)[i] * of_row, of_row);
    }
    worker.in(0, std::span<const std::byte>(w.data(), w.memory.size() - w.offset)).in(3, places);
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
  hexagon::StagePlan run_rows(HexagonWorker& worker, const KernelCall& call, hexagon::Kind dense, const hexagon::StageOptions& options) {
    hexagon::Operator op = operator_on(call, hexagon::in_places(dense));
    op.scales = hexagon::rows_form(call).value_or_throw().planes.scales;
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

}  // namespace vitro::test
