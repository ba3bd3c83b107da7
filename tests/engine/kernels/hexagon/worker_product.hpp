// Matrix products of the worker, from a call as the unit would make them an operator.
#pragma once
#include "engine/host/hexagon_operands.hpp"
#include "engine/host/hexagon_stages.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/kernels/hexagon/stage_layout.hpp"
#include "engine/quant/tile_groups.hpp"
#include "tests/engine/kernels/hexagon/worker.hpp"

namespace vitro::test {

// Activations of a call as the unit would write them.
struct Input {
  std::vector<std::byte> first, second;
};
inline Input input_of(const hexagon::MatmulForm& form, const View& x) {
  const hexagon::ActivationBytes size = hexagon::activations_bytes(form, x.shape[0], columns(x));
  Input input{std::vector<std::byte>(size.first), std::vector<std::byte>(size.second)};
  hexagon::write_activations(form, x, input.first.data(), input.second.data());
  return input;
}

// The operator of a call on `rows` rows, packed in the form.
inline hexagon::Operator operator_of(const KernelCall& call, std::uint32_t rows, const hexagon::MatmulForm& form,
                                     const hexagon::StageOptions& stages = {}) {
  hexagon::Operator op = hexagon_op(form.kind, rows, columns(call.in[0]), call.in[1].shape[0]);
  op.bits = form.planes.bits;
  op.group = form.planes.group;
  op.tile = form.planes.tile;
  op.zero = form.planes.zero;
  op.zeros = form.planes.zeros;
  op.scales = form.planes.scales;
  const Bytes stored = row_bytes(call.in[0].format, op.columns, stored_layout(call.in[0].format));
  if (hexagon::is_staged(op.kind)) op.stages = hexagon::plan_stages(op, stored, stages);
  return op;
}

// Bits of the results, [batch][rows]. weights: of the operator, packed.
inline std::vector<std::uint32_t> run_packed(HexagonWorker& worker, const KernelCall& call, const hexagon::Operator& op,
                                             const hexagon::MatmulForm& form, const std::vector<std::byte>& weights) {
  const Input x = input_of(form, call.in[1]);
  worker.in(0, weights).in(1, x.first);
  if (!x.second.empty()) worker.in(2, x.second);
  return worker.run<std::uint32_t>(op, std::size_t{op.batch} * op.rows);
}

inline std::vector<std::uint32_t> run_product(HexagonWorker& worker, const KernelCall& call, Range rows,
                                              CodeMatmul products = CodeMatmul::automatic) {
  const hexagon::MatmulForm form = hexagon::matmul_form(call, products).value_or_throw();
  std::vector<std::byte> weights(hexagon::weights_bytes(form, rows.count, columns(call.in[0])));
  hexagon::pack_weights(form, call.in[0], rows, weights.data());
  return run_packed(worker, call, operator_of(call, rows.count, form), form, weights);
}

// The worker, by an operator of this kind, gives what the CPU computes of the same call.
inline void expect_bits_of_the_cpu(HexagonWorker& worker, ComputeFunction& cpu, const KernelCall& call, hexagon::Kind kind,
                                   CodeMatmul products = CodeMatmul::automatic) {
  const View &w = call.in[0], &x = call.in[1];
  cpu.execute(call);
  ASSERT_EQ(hexagon::matmul_form(call, products).value_or_throw().kind, kind);
  const auto y = run_product(worker, call, {0, w.shape[0]}, products);
  EXPECT_EQ(std::memcmp(y.data(), call.out[0].data(), y.size() * 4), 0)
      << to_string(w.format) << " " << w.shape[0] << " x " << columns(w) << " x " << x.shape[0];
}

}  // namespace vitro::test
