// Sums of look-ups wait between two parts of the depth where the operator says (T-MAN 4.3): the bits are the same, the traffic is not.
#include <gtest/gtest.h>

#include "engine/ops/variants.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/hexagon/worker_product.hpp"

namespace vitro::test {
namespace {

using hexagon::Spill;

// Wherever sums wait, each row of the result stores its own once less than the depth has parts. As many are what the simulated NPU
// charges for outside TCM, stored and loaded (TilePlanner::spill()); in TCM the packets of the kernel have them.
TEST(HexagonSpill, places_differ_in_traffic_alone) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  ComputeFunction cpu({"portable"});
  Rng rng(21);
  constexpr std::uint32_t kRows = 304, kBatch = 2;
  std::array<std::uint64_t, 3> expected{};
  for (const VariantId contract : {variant::kInt8, variant::kInt8Tables}) {
    for (const std::uint32_t depth : {256u, 576u, 1024u}) {
      KernelCall call = matmul_call(rng, Format::w(2, 64, 'z'), Layout::rows, contract, {kRows, depth, kBatch});
      cpu.execute(call);
      const hexagon::MatmulForm form = hexagon::matmul_form(call, CodeMatmul::look_up).value_or_throw();
      std::vector<std::byte> weights(hexagon::weights_bytes(form, kRows, depth));
      hexagon::pack_weights(form, call.in[0], {0, kRows}, weights.data());
      for (const Spill place : {Spill::tcm, Spill::l2, Spill::dram}) {
        hexagon::Operator op = operator_of(call, kRows, form);
        op.spill = place;
        const auto y = run_packed(worker, call, op, form, weights);
        EXPECT_EQ(std::memcmp(y.data(), call.out[0].data(), y.size() * 4), 0) << static_cast<int>(place) << " " << depth;
        expected[static_cast<std::size_t>(place)] += std::uint64_t{kBatch} * kRows * ((depth + 255) / 256 - 1);
        EXPECT_EQ(worker.session().spilled(), expected) << depth;
      }
    }
  }
  KernelCall call = matmul_call(rng, Format::w(2, 64), Layout::rows, variant::kInt8, {kRows, 512, 1});
  hexagon::Operator op = operator_of(call, kRows, hexagon::matmul_form(call, CodeMatmul::look_up).value_or_throw());
  op.spill = static_cast<Spill>(3);
  EXPECT_THROW(worker.run<float>(op, kRows), std::exception) << "there is no such place";
}

}  // namespace
}  // namespace vitro::test
