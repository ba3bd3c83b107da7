// Matrix products by HVX code in qemu-hexagon give the bits of the int8 contract, whatever kernel computes them.
// Long because every kind of product has one test and its own way to lay weights out, on one worker.
#include <cmath>

#include "engine/host/hexagon_operands.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/tiles.hpp"
#include "tests/effort.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/hexagon/worker_product.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;
using hexagon::Zeros;

// As pack_weights() does, in another tile.
void pack_in(const hexagon::PlaneForm& form, const View& weights, Range rows, std::byte* out) {
  const std::uint32_t k = columns(weights), blocks = k / form.group;
  std::vector<std::uint8_t> q(std::size_t{rows.count} * k), zeros(std::size_t{rows.count} * blocks);
  std::vector<std::uint16_t> scales(std::size_t{rows.count} * blocks);
  for (std::uint32_t r = 0; r < rows.count; ++r) {
    const std::byte* row = weights.data() + (rows.first + r) * row_bytes(weights.format, k);
    unpack_codes(weights.format, row, k, &q[std::size_t{r} * k]);
    for (std::uint32_t b = 0; b < blocks; ++b, row += block_bytes(weights.format)) {
      std::memcpy(&scales[std::size_t{r} * blocks + b], row, 2);
      zeros[std::size_t{r} * blocks + b] = static_cast<std::uint8_t>(block_scale(weights.format, row).zero);
    }
  }
  hexagon::pack_lut_panels(form, rows.count, k, q.data(), scales.data(), zeros.data(), out);
}

// Loops, layout and sums are the tile's, results are not: every shape that loops are compiled for, whatever the search would choose,
// with tiles cut at the matrix's ends.
TEST(HexagonProduct, tiles_of_every_shape_have_the_bits_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  ComputeFunction cpu({"portable"});
  Rng rng(13);
  for (const Format format : all_formats()) {
    if (!has_look_ups(format) && format != Format::q4_0) continue;
    const auto group = static_cast<std::uint32_t>(block_elements(format));
    for (const VariantId contract : {variant::kInt8, variant::kInt8Tables}) {
      if (format == Format::q4_0 && contract == variant::kInt8Tables) continue;  // takes no rows; the planes are those of w4g32
      KernelCall call = matmul_call(rng, format, Layout::rows, contract, {304, 256 + 3 * group, 2});
      cpu.execute(call);
      // Few: every third shape, and another third with zero points and with scales of rows.
      std::uint32_t shape = (format.zero_point ? 1 : 0) + (format.row_scale ? 2 : 0) + (contract == variant::kInt8Tables ? 1 : 0);
      for (const std::uint16_t rows : {128, 256, 1280}) {
        for (const std::uint16_t columns : {32, 64, 128, 256}) {
          if (columns < group || shape++ % all_or_few(1, 3) != 0) continue;
          hexagon::MatmulForm form = hexagon::matmul_form(call, CodeMatmul::look_up).value_or_throw();
          form.planes.tile = {rows, columns};
          std::vector<std::byte> weights(hexagon::weights_bytes(form, 304, vitro::columns(call.in[0])));
          pack_in(form.planes, call.in[0], {0, 304}, weights.data());
          const auto y = run_packed(worker, call, operator_of(call, 304, form), form, weights);
          EXPECT_EQ(std::memcmp(y.data(), call.out[0].data(), y.size() * 4), 0) << to_string(format) << " " << rows << " x " << columns;
        }
      }
    }
  }
  KernelCall call = matmul_call(rng, Format::w(2, 64), Layout::rows, variant::kInt8, {304, 448, 1});
  for (const hexagon::TileShape bad : {hexagon::TileShape{0, 256}, {100, 256}, {8192, 256}, {128, 0}, {128, 32}, {128, 96}, {128, 512}}) {
    hexagon::MatmulForm form = hexagon::matmul_form(call, CodeMatmul::look_up).value_or_throw();
    hexagon::Operator op = hexagon_op(form.kind, 304, 448);
    op.bits = form.planes.bits;
    op.group = form.planes.group;
    op.tile = bad;
    EXPECT_THROW(worker.run<float>(op, 304), std::exception) << bad.rows << " x " << bad.columns;
  }
}

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

// Tables of int8: what is rounded is rounded alike, so bits are those of the cores in this contract, too.
TEST(HexagonProduct, rounded_tables_have_the_bits_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  ComputeFunction cpu({"portable"});
  Rng rng(11);
  const auto check = [&](Format format, MatmulShape shape) {
    shape.k = static_cast<std::uint32_t>(round_up(shape.k, block_elements(format)));
    KernelCall call = matmul_call(rng, format, Layout::lut, variant::kInt8Tables, shape);
    expect_bits_of_the_cpu(worker, cpu, call, Kind::matmul_lut_rounded);
  };
  for (const Format format : all_formats()) {
    if (has_look_ups(format) || format == Format::q4_0) check(format, {48, 256, 2});
  }
  check(Format::w(2, 64, 'z'), {208, 1024, 5});
  check(Format::w(4, 128), {32, 4096, 9});  // more activations than the scratch holds tables of
  check(Format::q4_0, {16, 32, 1});
}

// Activations of 14 bits, some of them all at their bound, so that entries fill 16 bits and sums 25.
TEST(HexagonProduct, tables_of_int16_have_the_bits_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  ComputeFunction cpu({"portable"});
  Rng rng(14);
  const auto check = [&](Format format, Layout layout, MatmulShape shape, bool at_bound = false) {
    shape.k = static_cast<std::uint32_t>(round_up(shape.k, block_elements(format)));
    KernelCall call = matmul_call(rng, format, layout, variant::kInt16Tables, shape);
    for (std::uint32_t i = 0; at_bound && i < shape.k * shape.batch; ++i) call.in[1].as<float>()[i] = i / shape.k % 2 == 0 ? 3.0f : -3.0f;
    expect_bits_of_the_cpu(worker, cpu, call, Kind::matmul_lut_wide);
  };
  for (const Format format : all_formats()) {
    if (has_look_ups(format) || format == Format::q4_0) check(format, Layout::rows, {48, 256, 2}, true);
    if (has_look_ups(format) || format == Format::q4_0) check(format, Layout::lut, {48, 256, 2});
  }
  check(Format::w(2, 64, 'z'), Layout::tiled, {208, 1024, 5});
  check(Format::w(4, 128, 'z'), Layout::lut, {32, 4096, 9}, true);  // more activations than the scratch holds tables of
  check(Format::w(2, 32), Layout::lut, {1200, 288, 2});
}

// The contract itself: quants within their bound, and an error per block of half a step of each activation.
TEST(HexagonProduct, int16_tables_err_by_half_a_step_of_the_activations) {
  Rng rng(15);
  const KernelCall call = matmul_call(rng, Format::w(4, 64, 'z'), Layout::rows, variant::kInt16Tables, {32, 256, 3});
  ComputeFunction({"portable"}).execute(call);
  std::vector<float> w(256);
  for (std::uint32_t n = 0; n < 32; ++n) {
    dequantise_row(call.in[0].format, call.in[0].data() + n * row_bytes(call.in[0].format, 256), w.data(), 256);
    for (std::uint32_t b = 0; b < 3; ++b) {
      const float* x = call.in[1].as<float>() + b * 256;
      double exact = 0, bound = 0;
      for (std::uint32_t k = 0; k < 256; ++k) {
        float most = 0;
        for (std::uint32_t i = k / 64 * 64; i < k / 64 * 64 + 64; ++i) most = std::max(most, std::abs(x[i]));
        exact += double{w[k]} * double{x[k]};
        bound += std::abs(double{w[k]}) * (0.5 * most / variant::kMostWide * 1.001 + most * 0x1p-21);
      }
      EXPECT_NEAR(call.out[0].as<float>()[b * 32 + n], exact, bound) << n << " " << b;
    }
  }
}

// A row's one scale is in memory once, and zero points take their bits, on the Hexagon as on the cores.
TEST(HexagonProduct, panels_are_as_small_as_the_cores_tiles) {
  Rng rng(12);
  for (const Layout layout : {Layout::tiled, Layout::lut}) {
    for (const Format format : formats_with(layout)) {
      if (!format.is_group() || !has_look_ups(format)) continue;
      const KernelCall call = matmul_call(rng, format, layout, variant::kInt8, {1536, 640, 1});
      const hexagon::MatmulForm form = hexagon::matmul_form(call, CodeMatmul::look_up).value_or_throw();
      EXPECT_EQ(hexagon::weights_bytes(form, 1536, 640), view_bytes(call.in[0])) << to_string(format);
    }
  }
}

// The most that an entry, and a sum of 16 bits, can be: all activations and all codes at their ends.
TEST(HexagonProduct, sums_of_rounded_tables_do_not_overflow) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  constexpr std::uint32_t kRows = 128, kColumns = 256;
  for (std::uint32_t bits = 1; bits <= 4; ++bits) {
    for (const std::uint32_t group : {32u, 64u, 128u}) {
      const hexagon::PlaneForm form{bits, group, 0, Zeros::of_blocks};
      const std::uint32_t blocks = kColumns / group, most = (1u << bits) - 1;
      std::vector<std::uint8_t> q(kRows * kColumns), zeros(kRows * blocks, 0);
      std::vector<std::int8_t> x(kColumns);
      for (std::uint32_t i = 0; i < kColumns; ++i) x[i] = i % 2 == 0 ? 127 : -127;
      for (std::uint32_t i = 0; i < q.size(); ++i) q[i] = static_cast<std::uint8_t>((i % 2 == 0) == (i / kColumns % 2 == 0) ? most : 0);
      const lut::RoundedTables tables = lut::precompute_rounded(x.data(), kColumns, group);
      const auto expected = lut::linear_rounded(tables, q.data(), kRows, kColumns, bits, group);
      EXPECT_EQ(static_cast<std::uint32_t>(std::abs(expected[0])), 127 * most * group / 4);
      // A unit of one and no rest leave the sums of blocks themselves, added up.
      const std::vector<hexagon::RoundedScale> scales(blocks, {1.0f, 0, (127 << 15) / 508, 1.0f});
      std::vector<std::byte> panels(hexagon::lut_panels_bytes(form, kRows, kColumns));
      const std::vector<std::uint16_t> ones(kRows * blocks, 0x3c00);
      hexagon::pack_lut_panels(form, kRows, kColumns, q.data(), ones.data(), zeros.data(), panels.data());
      hexagon::Operator op = hexagon_op(Kind::matmul_lut_rounded, kRows, kColumns);
      op.bits = bits;
      op.group = group;
      op.tile = form.tile;
      op.zeros = form.zeros;
      op.stages = hexagon::plan_stages(op, 0, {});
      const auto y = worker.in(0, panels).in(1, x).in(2, scales).run<float>(op, kRows);
      for (std::uint32_t r = 0; r < kRows; ++r) {
        std::int32_t sum = 0;
        for (std::uint32_t b = 0; b < blocks; ++b) sum += expected[r * blocks + b];
        ASSERT_EQ(y[r], static_cast<float>(sum)) << bits << " bits, group " << group << ", row " << r;
      }
    }
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

struct GroupCase {
  hexagon::PlaneForm form;
  std::vector<std::uint8_t> q, zeros;
  std::vector<std::int8_t> x;

  GroupCase(Rng& rng, hexagon::PlaneForm f, std::uint32_t rows, std::uint32_t columns)
      : form(f), q(draw_codes(rng, rows * columns, f.bits)), x(draw_quants(rng, columns)) {
    for (std::uint32_t i = 0; i < rows * columns / f.group; ++i) zeros.push_back(static_cast<std::uint8_t>(rng.below(1u << f.bits)));
  }
  std::int32_t weight(std::uint32_t row, std::uint32_t column, std::uint32_t columns) const {
    const std::int32_t code = q[row * columns + column];
    if (form.zeros == Zeros::signs) return 2 * code - 1;
    return code - (form.zeros == Zeros::same ? static_cast<std::int32_t>(form.zero) : zeros[(row * columns + column) / form.group]);
  }
};

// T-MAN's formats: any number of planes, group and zero point. Scales of powers of two make every float step exact, so the result is
// the integer dot products' weighted sum itself.
TEST(HexagonProduct, bit_planes_of_every_form_are_exact) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(9);
  constexpr std::uint32_t kRows = 160, kColumns = 256;
  std::vector<hexagon::PlaneForm> forms;
  for (std::uint32_t bits = 1; bits <= 4; ++bits) {
    for (const std::uint32_t group : {32u, 64u, 128u}) {
      forms.push_back({bits, group, 0, Zeros::of_blocks});
      for (const std::uint32_t zero : {0u, 1u, (1u << bits) - 1}) forms.push_back({bits, group, zero, Zeros::same});
      if (bits == 1) forms.push_back({bits, group, 0, Zeros::signs});
    }
  }
  for (const hexagon::PlaneForm& form : forms) {
    const GroupCase c(rng, form, kRows, kColumns);
    const std::uint32_t blocks = kColumns / form.group;
    std::vector<hexagon::ActivationScale> scales(blocks);
    for (std::uint32_t b = 0; b < blocks; ++b) {
      scales[b] = {b % 2 == 0 ? 1.0f : 0.5f, 0};
      for (std::uint32_t i = 0; i < form.group; ++i) scales[b].sum += c.x[b * form.group + i];
    }
    std::vector<std::byte> panels(hexagon::lut_panels_bytes(form, kRows, kColumns));
    const std::vector<std::uint16_t> twos(kRows * blocks, 0x4000);
    hexagon::pack_lut_panels(form, kRows, kColumns, c.q.data(), twos.data(), c.zeros.data(), panels.data());
    hexagon::Operator op = hexagon_op(Kind::matmul_lut, kRows, kColumns);
    op.bits = form.bits;
    op.group = form.group;
    op.tile = form.tile;
    op.zero = form.zero;
    op.zeros = form.zeros;
    op.stages = hexagon::plan_stages(op, 0, {});
    const auto y = worker.in(0, panels).in(1, c.x).in(2, scales).run<float>(op, kRows);
    for (std::uint32_t r = 0; r < kRows; ++r) {
      std::int32_t sum = 0;
      for (std::uint32_t i = 0; i < kColumns; ++i) sum += c.weight(r, i, kColumns) * c.x[i] * (i / form.group % 2 == 0 ? 2 : 1);
      ASSERT_EQ(y[r], static_cast<float>(sum)) << "bits " << form.bits << " group " << form.group << " zeros " << int(form.zeros) << " "
                                               << form.zero << " row " << r;
    }
  }
}

TEST(HexagonProduct, precompute_makes_the_reference_tables) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(10);
  for (const std::uint32_t columns : {16u, 96u, 4096u}) {
    std::vector<std::int8_t> x(columns);
    for (auto& v : x) v = static_cast<std::int8_t>(static_cast<int>(rng.below(255)) - 127);
    const auto expected = lut::precompute(x.data(), columns);
    const auto tables = worker.in(0, x).run<std::int16_t>(hexagon_op(Kind::lut_precompute, columns), expected.size());
    for (std::size_t g = 0; g < columns / 4; ++g) {
      for (std::uint32_t e = 0; e < 16; ++e) {
        const std::size_t place = g / 4 * 64 + hexagon::table_place(static_cast<std::uint32_t>(g % 4), e);
        ASSERT_EQ(tables[place], expected[g * 16 + e]) << g << " " << e;
      }
    }
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
