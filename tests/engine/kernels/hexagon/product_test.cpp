// Matrix products by HVX code in qemu-hexagon give the bits of the int8 contract, whatever kernel computes them.
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/hexagon/worker_product.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;

class Product : public testing::TestWithParam<std::tuple<Format, Layout, CodeMatmul>> {};

TEST_P(Product, has_the_bits_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  const auto [format, layout, products] = GetParam();
  HexagonWorker worker;
  ComputeFunction cpu({"portable"});
  Rng rng(7);
  for (MatmulShape shape : {MatmulShape{16, 32, 1}, {48, 256, 1}, {208, 96, 5}, {32, 1024, 4}, {1024, 288, 2}}) {
    shape.k = static_cast<std::uint32_t>(round_up(shape.k, block_elements(format)));
    KernelCall call = matmul_call(rng, format, layout, variant::kInt8, shape);
    cpu.execute(call);
    const auto y = run_product(worker, call, {0, shape.n}, products);
    EXPECT_EQ(std::memcmp(y.data(), call.out[0].data(), y.size() * 4), 0) << shape.n << " x " << shape.k << " x " << shape.batch;
  }
}

constexpr auto kAutomatic = CodeMatmul::automatic, kLookUp = CodeMatmul::look_up;
INSTANTIATE_TEST_SUITE_P(
    all, Product,
    testing::Values(std::tuple{Format::q8_0, Layout::rows, kAutomatic}, std::tuple{Format::q8_0, Layout::tiled, kLookUp},
                    std::tuple{Format::q4_0, Layout::rows, kAutomatic}, std::tuple{Format::q4_0, Layout::tiled, kAutomatic},
                    std::tuple{Format::q4_0, Layout::lut, kAutomatic}, std::tuple{Format::q4_0, Layout::rows, kLookUp},
                    std::tuple{Format::q4_0, Layout::tiled, kLookUp}, std::tuple{Format::q4_0, Layout::lut, kLookUp},
                    std::tuple{Format::w(1, 32), Layout::lut, kLookUp}, std::tuple{Format::w(2, 64, 'z'), Layout::rows, kAutomatic},
                    std::tuple{Format::w(2, 64, 'z'), Layout::tiled, kAutomatic}, std::tuple{Format::w(2, 64, 'z'), Layout::lut, kLookUp},
                    std::tuple{Format::w(3, 128), Layout::lut, kLookUp}, std::tuple{Format::w(3, 128), Layout::tiled, kLookUp},
                    std::tuple{Format::w(4, 128, 'z'), Layout::lut, kAutomatic}));

TEST(HexagonProduct, group_formats_have_look_ups_alone) {
  Rng rng(6);
  const KernelCall call = matmul_call(rng, Format::w(2, 64), Layout::lut, variant::kInt8, {32, 64, 1});
  EXPECT_FALSE(hexagon::matmul_form(call, CodeMatmul::dot).ok());
  EXPECT_EQ(hexagon::matmul_form(call, CodeMatmul::automatic).value().kind, Kind::matmul_lut);
}

TEST(HexagonProduct, a_slice_of_rows_packs_alone) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(8);
  const KernelCall call = matmul_call(rng, Format::q4_0, Layout::tiled, variant::kInt8, {96, 64, 1});
  ComputeFunction({"portable"}).execute(call);
  for (const CodeMatmul products : {CodeMatmul::dot, CodeMatmul::look_up}) {
    const auto y = run_product(worker, call, {40, 32}, products);
    EXPECT_EQ(std::memcmp(y.data(), call.out[0].as<float>() + 40, 32 * sizeof(float)), 0);
  }
}

std::uint64_t packets_of(HexagonWorker& worker, const std::string& function) {
  for (const PacketCount& count : worker.session().transport().packets()) {
    if (count.function == function) return count.packets;
  }
  return 0;
}

// Q, K and V, or Gate and Up: what one request asks of the same activations makes their tables once (T-MAN 5); the next request makes them
// again, since other activations may stand in the same place.
TEST(HexagonProduct, products_of_one_input_share_their_tables) {
  VITRO_NEEDS_HEXAGON();
  Rng rng(12);
  for (const VariantId contract : {variant::kInt8, variant::kInt8Tables}) {
    HexagonWorker worker;
    const std::string precompute = contract == variant::kInt8 ? "hvx_lut_precompute" : "hvx_lut_precompute_rounded";
    KernelCall calls[3] = {matmul_call(rng, Format::w(2, 64, 'z'), Layout::lut, contract, {96, 256, 2}),
                           matmul_call(rng, Format::w(2, 64, 'z'), Layout::lut, contract, {32, 256, 2}),
                           matmul_call(rng, Format::w(4, 64), Layout::lut, contract, {32, 256, 2})};
    calls[1].in[1] = calls[2].in[1] = calls[0].in[1];  // formats differ, blocks of activations do not
    KernelCall other = matmul_call(rng, Format::w(2, 64, 'z'), Layout::lut, contract, {96, 256, 2});
    HexagonSession& session = worker.session();
    const auto put = [&](const std::vector<std::byte>& bytes) {
      const std::uint32_t at = session.scratch(bytes.size()).value_or_throw();
      std::memcpy(session.at(at), bytes.data(), bytes.size());
      return at;
    };
    const auto run = [&](std::span<KernelCall> of) {
      session.clear_scratch();
      std::vector<hexagon::Operator> operators;
      std::uint32_t first = 0, second = 0;
      for (KernelCall& call : of) {
        ComputeFunction({"portable"}).execute(call);
        const hexagon::MatmulForm form = hexagon::matmul_form(call, CodeMatmul::look_up).value_or_throw();
        const Input x = input_of(form, call.in[1]);
        if (operators.empty()) first = put(x.first), second = put(x.second);
        hexagon::Operator op = hexagon_op(form.kind, call.in[0].shape[0], columns(call.in[0]), call.in[1].shape[0]);
        std::vector<std::byte> weights(hexagon::weights_bytes(form, op.rows, op.columns));
        hexagon::pack_weights(form, call.in[0], {0, op.rows}, weights.data());
        op.bits = form.planes.bits;
        op.group = form.planes.group;
        op.tile = form.planes.tile;
        op.zero = form.planes.zero;
        op.zeros = form.planes.zeros;
        op.scales = form.planes.scales;
        op.in[0] = put(weights);
        op.in[1] = first;
        op.in[2] = second;
        op.out_bytes = op.batch * op.rows * 4;
        op.stages = hexagon::plan_stages(op, 0, {});
        operators.push_back(op);
      }
      const std::uint64_t before = packets_of(worker, precompute);
      const auto results = session.run(operators).value_or_throw();
      for (std::size_t i = 0; i < of.size(); ++i) {
        EXPECT_EQ(std::memcmp(results[i].data(), of[i].out[0].data(), operators[i].out_bytes), 0) << precompute << " " << i;
      }
      return packets_of(worker, precompute) - before;
    };
    const std::uint64_t one = run({calls, 1}), three = run(calls);
    EXPECT_GT(one, 0u);
    EXPECT_EQ(three, one) << precompute;
    EXPECT_EQ(run({&other, 1}), one) << precompute;
  }
}

TEST(HexagonProduct, a_worker_refuses_operators_that_reach_outside) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  hexagon::Operator op = hexagon_op(Kind::matmul_q8_0, 32, 64);
  op.stages = hexagon::plan_stages(op, 0, {});
  op.in[0] = op.in[1] = op.in[2] = hexagon::kArenaStart;
  op.out_bytes = 128;
  for (int change = 0; change < 5; ++change) {
    hexagon::Operator bad = op;
    if (change == 0) bad.in[1] = 64 * MiB - 1024;  // of 2 KiB
    if (change == 1) bad.in[0] = hexagon::kArenaStart + 4;  // not aligned
    if (change == 2) bad.out_bytes = 124;
    if (change == 3) bad.columns = 48;
    if (change == 4) bad.kind = static_cast<Kind>(99);
    const auto result = worker.session().run({bad});
    ASSERT_FALSE(result.ok()) << change;
    EXPECT_EQ(result.status().code, Code::unsupported_shape) << change;
  }
  EXPECT_TRUE(worker.session().usable());  // a refusal is no failure
}

}  // namespace
}  // namespace vitro::test
