// Weights in panels of bit planes: products have the bits of the CPU with every tile, every number of planes and every kind of zero point.
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
TEST(LutPanels, tiles_of_every_shape_have_the_bits_of_the_cpu) {
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

// A row's one scale is in memory once, and zero points take their bits, on the Hexagon as on the cores.
TEST(LutPanels, panels_are_as_small_as_the_cores_tiles) {
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
TEST(LutPanels, bit_planes_of_every_form_are_exact) {
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

}  // namespace
}  // namespace vitro::test
