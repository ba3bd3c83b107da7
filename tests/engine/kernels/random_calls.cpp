#include <numeric>
#include <optional>
#include <vector>

#include "engine/quant/tiles.hpp"
#include "tests/engine/kernels/random_attention.hpp"

namespace vitro::test {
namespace {

void random_rows(Rng& rng, KernelCall& call, std::uint32_t n) {
  if (rng.below(2) == 0) return;
  auto rows = std::make_shared<std::vector<std::uint32_t>>();
  const Range slice = sliced(call, n);
  for (std::uint32_t row = slice.first; row < slice.end(); ++row) {
    if (rng.below(2) == 0) rows->push_back(row);
  }
  call.rows = rows;
}

Format random_weight_format(Rng& rng) {
  constexpr Format formats[] = {Format::f32,  Format::f16,  Format::bf16, Format::q4_0,
                                Format::q8_0, Format::q4_k, Format::q5_k, Format::q6_k};
  return formats[rng.below(std::size(formats))];
}

Format random_code_format(Rng& rng) {
  const std::set<Format> formats = formats_with(Layout::tiled);
  return *std::next(formats.begin(), static_cast<std::ptrdiff_t>(rng.below(formats.size())));
}

Layout random_layout(Rng& rng, Format format) {
  std::vector<Layout> layouts;
  for (const Layout layout : {Layout::rows, Layout::tiled, Layout::lut}) {
    if (can_lay(layout, format, kTileRows)) layouts.push_back(layout);
  }
  return layouts[rng.below(layouts.size())];
}

}  // namespace

KernelCall append_of_copies(Rng& rng, Format format) {
  constexpr std::uint32_t kRows = 3, kHeads = 2, kCopies = 3, kDim = 24;
  KernelCall call;
  call.variant = variant::kFloat;
  call.batch = random_batch(rng, kRows, 64);
  View pool, table;
  call.op = ops::KvAppend{add_pool(rng, call, kHeads * kCopies, kDim, pool, table, format)};
  call.in = {floats(rng, {kRows, kHeads, kDim}), floats(rng, {kRows, kHeads, kDim}), table};
  call.out = {pool};
  return call;
}

KernelCall random_code_call(Rng& rng) {
  const Format format = random_code_format(rng);
  const Layout layout = random_layout(rng, format);
  const std::uint32_t grain = layout == Layout::rows ? 1 : kTileRows, n = grain * between(rng, 1, layout == Layout::rows ? 70 : 9);
  const std::uint32_t k = static_cast<std::uint32_t>(block_elements(format)) * between(rng, 1, 5), batch = between(rng, 1, 11);
  const bool bias = rng.below(2) == 0;
  KernelCall call = matmul_call(rng, format, layout, variant::kInt8, {n, k, batch}, bias, 4 * rng.below(9));
  random_slice(rng, call, n, grain);
  random_rows(rng, call, n);
  return call;
}

namespace {

// Draws operands and parameters of a call.
struct RandomOperands : RandomAttention {
  VariantId matmul_variant;
  std::uint32_t width;

  View plain(std::uint32_t r, std::uint32_t n) const { return floats(rng, {r, n, 0}, 1, 4 * rng.below(4)); }
  using RandomAttention::operator();
  View result() const { return make_view({rows, width, 0}, Format::f32); }

  void operator()(ops::Embed&) const {
    const Format format = random_weight_format(rng);
    const std::uint32_t d = block_elements(format) > 1 ? static_cast<std::uint32_t>(block_elements(format)) * between(rng, 1, 2) : width;
    call.in = {weights(rng, 11, d, format, Layout::rows), indices(random_ids(rng, rows, 11), {rows, 0, 0})};
    call.out = {make_view({rows, d, 0}, Format::f32)};
  }
  void operator()(ops::RmsNorm& norm) const {
    call.in = {plain(rows, width), floats(rng, {width, 0, 0})};
    call.out = {result()};
    norm.eps = 1e-5f;
  }
  void operator()(ops::Matmul&) const {
    const bool int8 = matmul_variant == variant::kInt8;
    const Format format = int8 ? (rng.below(2) == 0 ? Format::q4_0 : Format::q8_0) : random_weight_format(rng);
    const Layout layout = int8 && rng.below(2) == 0 ? Layout::tiled : Layout::rows;
    const std::uint32_t k =
        block_elements(format) > 1 ? static_cast<std::uint32_t>(block_elements(format)) * between(rng, 1, 5) : 3 * width;
    const std::uint32_t n = layout == Layout::tiled ? kTileRows * between(rng, 1, 4) : between(rng, 1, 70);
    const std::uint32_t batch = between(rng, 1, 11);
    const bool bias = rng.below(2) == 0;
    const Bytes skew = 4 * rng.below(9);
    call = matmul_call(rng, format, layout, matmul_variant, {n, k, batch}, bias, skew);
    random_slice(rng, call, n, layout == Layout::tiled ? kTileRows : 1);
    random_rows(rng, call, n);
  }
  void operator()(ops::Rope& rope) const {
    const std::uint32_t heads = between(rng, 1, 5), dim = 2 * between(rng, 1, 40), dims = 2 * between(rng, 1, dim / 2);
    call.batch = random_batch(rng, rows, 5000);
    call.in = {floats(rng, {rows, heads, dim})};
    call.out = {call.in[0]};
    if (rng.below(2) == 0) {
      call.in.push_back(floats(rng, {dims / 2, 0, 0}));
      for (std::uint32_t i = 0; i < dims / 2; ++i) call.in[1].as<float>()[i] = 1.0f + 7.0f * static_cast<float>(rng.uniform());
    }
    rope = {rng.below(2) == 0 ? 10000.0f : 500000.0f, dims, static_cast<RopeStyle>(rng.below(2)), rng.below(2) == 0 ? 1.0f : 0.25f};
    random_slice(rng, call, heads);
  }
  void operator()(ops::Glu& glu) const {
    call.in = {plain(rows, width), plain(rows, width)};
    call.out = {result()};
    glu.activation = static_cast<Activation>(rng.below(4));
    glu.report_active = rng.below(2) == 0;
    random_slice(rng, call, width);
    random_rows(rng, call, width);
  }
  void operator()(ops::Add&) const {
    call.in = {plain(rows, width), plain(rows, width)};
    call.out = {rng.below(2) == 0 ? call.in[0] : result()};
    random_slice(rng, call, width);
  }
  void operator()(ops::Gather& gather) const {
    gather.columns = rng.below(2) == 0;
    const std::uint32_t inputs = width + static_cast<std::uint32_t>(rng.below(9));
    if (gather.columns) {
      call.in = {plain(rows, inputs), indices(random_ids(rng, width, inputs), {width, 0, 0})};
    } else {
      call.in = {plain(9, width), indices(random_ids(rng, rows, 9), {rows, 0, 0})};
    }
    call.out = {result()};
  }
  void operator()(ops::Route& route) const {
    call.in = {plain(rows, width)};
    route = {between(rng, 1, std::min(width, 8u)), rng.below(2) == 1};
  }
  void operator()(ops::ExpertSum&) const {
    const std::uint32_t k = between(rng, 1, 4);
    call.in = {plain(7, width), indices(random_ids(rng, rows * k, 7), {rows, k, 0}), plain(rows, k)};
    call.out = {result()};
    random_slice(rng, call, width);
  }
  void operator()(ops::Reduce&) const {
    call.in = {floats(rng, {between(rng, 1, 5), rows, width})};
    call.out = {result()};
    random_slice(rng, call, width);
  }
  void operator()(ops::Sample& sample) const {
    call.in = {plain(rows, width), floats(rng, {rows, 0, 0})};
    for (std::uint32_t r = 0; r < rows; ++r) call.in[1].as<float>()[r] = static_cast<float>(rng.below(1 << 24)) * 0x1p-24f;
    const std::uint32_t top_k = between(rng, 0, 40);
    sample = {rng.below(4) == 0 ? 0.0f : 0.8f, top_k > 20 ? 0 : top_k, rng.below(2) == 0 ? 1.0f : 0.9f};
  }
  void operator()(ops::Copy&) const {
    constexpr Format formats[] = {Format::f32, Format::f16, Format::bf16, Format::q8_0, Format::q4_0};
    const Format from = formats[rng.below(5)], to = formats[rng.below(5)];
    call.in = {weights(rng, rows, 32 * between(rng, 1, 3), from, Layout::rows)};
    call.out = {make_view(call.in[0].shape, to)};
  }
  void operator()(ops::Select& select) const {
    call.in = {plain(rows, width)};
    select.threshold = 0.25f * static_cast<float>(rng.below(3));
    if (const std::uint64_t act = rng.below(5); act > 0) select.activation = static_cast<Activation>(act - 1);
    select.of = static_cast<SelectOf>(rng.below(2));
    random_slice(rng, call, width);
    random_rows(rng, call, width);
  }
  void operator()(ops::Accumulate&) const {
    const Format format = random_weight_format(rng);
    const std::uint32_t d =
        block_elements(format) > 1 ? static_cast<std::uint32_t>(block_elements(format)) * between(rng, 1, 20) : 3 * width;
    const std::uint32_t n = between(rng, 1, 150);
    call.in = {weights(rng, n, d, format, Layout::rows, 4 * rng.below(9)), plain(rows, n)};
    for (std::uint32_t i = 0; i < rows * n; ++i) {
      if (rng.below(2) == 0) call.in[1].as<float>()[i] = 0;
    }
    call.out = {make_view({rows, d, 0}, Format::f32)};
    random_slice(rng, call, n);
    random_rows(rng, call, n);
  }
  void operator()(ops::AddProduct& product) const {
    const Format format = random_weight_format(rng);
    const std::uint32_t k =
        block_elements(format) > 1 ? static_cast<std::uint32_t>(block_elements(format)) * between(rng, 1, 3) : between(rng, 1, 90);
    const std::uint32_t n = between(rng, 1, 150);
    call.in = {weights(rng, n, k, format, Layout::rows, 4 * rng.below(9)), plain(rows, k)};
    call.out = {floats(rng, {rows, n, 0})};
    product.scale = rng.below(2) == 0 ? 2.0f : 0.3f;
    product.continues = rng.below(3) > 0;
    random_slice(rng, call, n);
    random_rows(rng, call, n);
  }
  void operator()(ops::Precompute& tables) const {
    call.in = {plain(rows, width)};
    tables.weights = random_code_format(rng);
  }
  void operator()(ops::Softmax& softmax) const {
    call.in = {plain(rows, width)};
    call.out = {result()};
    softmax = {static_cast<Exponential>(rng.below(3)), between(rng, 1, 4)};
  }
  // A transposition whose rows lie apart on either side, in two parts; elements or whole rows may be innermost.
  void operator()(ops::Move&) const {
    const std::uint32_t heads = between(rng, 2, 5), gap = between(rng, 0, 3), inner = rng.below(2) == 0 ? 1 : width;
    const std::uint32_t row = inner + gap, n = heads * rows * row;
    call.in = {plain(n, 1)};
    call.out = {make_view({1, n, 0}, Format::f32)};
    const std::uint32_t first = between(rng, 1, heads - 1);
    CopyRegions regions{{{first, rows, inner}, {0, {row, heads * row, 1}}, {0, {rows * row, row, 1}}}};
    regions.push_back({{heads - first, rows, inner}, {first * row, {row, heads * row, 1}}, {first * rows * row, {rows * row, row, 1}}});
    if (inner == 1) {  // the innermost loop goes over rows
      for (CopyRegion& region : regions) {
        std::swap(region.size[1], region.size[2]);
        std::swap(region.src.stride[1], region.src.stride[2]);
        std::swap(region.dst.stride[1], region.dst.stride[2]);
      }
    }
    call.regions = std::make_shared<const CopyRegions>(std::move(regions));
  }
  void operator()(ops::InverseRms& rms) const {
    call.in = {plain(rows, width)};
    call.out = {make_view({rows, 1, 0}, Format::f32)};
    rms.eps = rng.below(2) == 0 ? 1e-5f : 1e-6f;
  }
  void operator()(ops::ScaleRows&) const {
    call.in = {plain(rows, width), plain(rows, 1), floats(rng, {width, 0, 0})};
    call.out = {result()};
  }
  void operator()(ops::LayerNorm& norm) const {
    call.in = {plain(rows, width), floats(rng, {width, 0, 0}), floats(rng, {1, width, 0})};
    call.out = {rng.below(2) == 0 ? call.in[0] : result()};
    norm.eps = 1e-5f;
  }
  void operator()(ops::AddGated&) const {
    const std::uint32_t inputs = between(rng, 1, 90);
    call.in = {plain(rows, width), plain(rows, width), plain(rows, inputs), floats(rng, {inputs, 0, 0})};
    call.out = {rng.below(2) == 0 ? call.in[0] : result()};
    random_slice(rng, call, width);
  }
};

}  // namespace

KernelCall random_call(Rng& rng, const Op& op, VariantId matmul_variant) {
  KernelCall call;
  call.op = op;
  call.variant = variant::kFloat;
  const std::uint32_t rows = between(rng, 1, 6), width = between(rng, 1, 90);
  std::visit(RandomOperands{{rng, call, rows}, matmul_variant, width}, call.op);
  return call;
}

}  // namespace vitro::test
