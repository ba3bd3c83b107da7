#include "tests/engine/kernels/call_kit.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "engine/quant/group_formats.hpp"
#include "engine/quant/k_tiles.hpp"
#include "engine/quant/tile_groups.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro::test {
namespace {

// A lease without a budget behind it.
Lease lease(Bytes size) {
  struct Owned {
    Block block;
    AlignedArray<std::byte> bytes;
  };
  auto owned = std::make_shared<Owned>();
  owned->bytes = AlignedArray<std::byte>(size);
  owned->block.size = size;
  owned->block.data = owned->bytes.data();
  return Lease(std::shared_ptr<Block>(owned, &owned->block));
}

// A block of random codes reaches more of a group format's values than quantised numbers do, and takes no search for the best scale.
void fill_codes(Format format, std::byte* row, std::size_t k, Rng& rng) {
  const std::size_t group = block_elements(format);
  const auto code = [&] { return static_cast<std::uint8_t>(rng.below(1u << format.bits)); };
  std::vector<std::uint8_t> codes(group);
  std::uint16_t scale = 0;
  std::uint8_t zero = 0;
  for (std::size_t first = 0; first < k; first += group, row += block_bytes(format)) {
    std::generate(codes.begin(), codes.end(), code);
    if (first == 0 || !format.row_scale) {
      scale = static_cast<std::uint16_t>(0x2000 | rng.below(256));  // 2^-7 and up, as trained weights have
      zero = format.zero_point ? code() : 0;
    }
    pack_codes(format, scale, zero, codes.data(), row);
  }
}

}  // namespace

View make_view(std::array<std::uint32_t, 3> shape, Format format, Bytes skew, Layout layout) {
  View view;
  view.shape = shape;
  view.format = format;
  view.layout = layout;
  view.offset = skew;
  view.memory = lease(view_bytes(view) + skew);
  return view;
}

void fill(const View& view, Rng& rng, double scale) {
  const std::size_t k = columns(view), rows = elements(view) / k;
  std::vector<float> row(k);
  for (std::size_t r = 0; r < rows; ++r) {
    std::byte* out = view.data() + r * row_bytes(view.format, k);
    if (view.format.is_group()) {
      fill_codes(view.format, out, k, rng);
      continue;
    }
    if (can_quantise(view.format) && view.format != Format::q4_k) {  // random bytes reach more of its values
      for (float& x : row) x = static_cast<float>(scale * rng.normal());
      quantise_row(view.format, row.data(), out, k);
      continue;
    }
    const std::size_t block = block_bytes(view.format);
    for (std::size_t b = 0; b < row_bytes(view.format, k); ++b) out[b] = static_cast<std::byte>(rng.next());
    // Keep the fp16 scales finite and of the size of trained weights: their top byte is set to that of 2^-7.
    for (std::size_t b = 0; b < row_bytes(view.format, k); b += block) {
      const bool at_the_end = view.format == Format::q6_k || view.format == Format::iq1_m;
      const std::vector<std::size_t> tops = at_the_end                ? std::vector<std::size_t>{block - 1}
                                            : has_minima(view.format) ? std::vector<std::size_t>{1, 3}
                                                                      : std::vector<std::size_t>{1};
      for (const std::size_t at : tops) out[b + at] = std::byte{0x20};
    }
  }
}

View laid(const View& rows, Layout layout, Bytes skew) {
  View out = make_view(rows.shape, rows.format, skew, layout);
  const Bytes from = kTileRows * row_bytes(rows.format, rows.shape[1]), to = kTileRows * row_bytes(rows.format, rows.shape[1], layout);
  for (std::uint32_t g = 0; g < rows.shape[0] / kTileRows; ++g) {
    pack_tile(rows.format, rows.shape[1], rows.data() + g * from, out.data() + g * to, layout);
  }
  return out;
}

View weights(Rng& rng, std::uint32_t rows, std::uint32_t columns, Format format, Layout layout, Bytes skew) {
  const View view = make_view({rows, columns, 0}, format, skew, layout == Layout::strips ? layout : Layout::rows);
  if (layout == Layout::strips) {  // rows of a group have one scale, so these are not made one by one
    std::vector<float> values(std::size_t{kStripRows} * columns);
    for (std::uint32_t r = 0; r < rows; r += kStripRows) {
      for (float& x : values) x = static_cast<float>(0.1 * rng.normal());
      quantise_strip(values.data(), columns, view.data() + r * row_bytes(format, columns, layout));
    }
    return view;
  }
  fill(view, rng, 0.1);
  return layout == Layout::rows ? view : laid(view, layout, skew);
}

View floats(Rng& rng, std::array<std::uint32_t, 3> shape, double scale, Bytes skew) {
  const View view = make_view(shape, Format::f32, skew);
  fill(view, rng, scale);
  return view;
}

View indices(const std::vector<std::uint32_t>& values, std::array<std::uint32_t, 3> shape) {
  const View view = make_view(shape, Format::index32);
  std::memcpy(view.data(), values.data(), values.size() * 4);
  return view;
}

KernelCall with_scales_apart(const KernelCall& call) {
  KernelCall out = call;
  const View& w = call.in[0];
  const std::uint32_t rows = w.shape[0], k = w.shape[1];
  out.in[0] = make_view(w.shape, Format::q4_nibbles, w.offset % 64);
  View scales = make_view({rows, k / 32, 0}, Format::f16, 2);
  for (std::uint32_t r = 0; r < rows; ++r) {
    split_q4_0(w.data() + r * row_bytes(Format::q4_0, k), k, out.in[0].data() + r * row_bytes(Format::q4_nibbles, k),
               scales.data() + r * scale_row_bytes(w));
  }
  out.in.insert(out.in.begin() + 2, std::move(scales));
  return out;
}

KernelCall with_own_output(const KernelCall& call) {
  KernelCall copy = call;
  for (View& out : copy.out) {
    View fresh = out;
    fresh.memory = lease(out.memory.size());
    std::memcpy(fresh.memory.data(), out.memory.data(), out.memory.size());
    for (View& in : copy.in) {
      if (in.memory.block() == out.memory.block()) in.memory = fresh.memory;  // in-place operators stay in place
    }
    out = fresh;
  }
  return copy;
}

std::vector<std::byte> bytes_of(const View& view) { return {view.memory.data(), view.memory.data() + view.memory.size()}; }

KernelCall matmul_call(Rng& rng, Format format, Layout layout, VariantId variant, MatmulShape shape, bool bias, Bytes skew) {
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant;
  // Blocks are of bytes, so their rows may stand anywhere; plain elements are aligned to their size.
  call.in = {weights(rng, shape.n, shape.k, format, layout, skew), floats(rng, {shape.batch, shape.k, 0}, 1, skew / 4 * 4)};
  if (bias) call.in.push_back(floats(rng, {shape.n, 0, 0}));
  call.out = {make_view({shape.batch, shape.n, 0}, Format::f32, skew / 4 * 4)};
  return call;
}

KernelCall norm_of_heads(Rng& rng) {
  KernelCall call;
  call.op = ops::RmsNorm{1e-5f};
  call.variant = variant::kFloat;
  call.in = {floats(rng, {3, 5, 24}), floats(rng, {24, 0, 0})};
  call.out = {make_view({3, 5, 24}, Format::f32)};
  return call;
}

KernelCall placed(Rng& rng, const KernelCall& call) {
  KernelCall out = call;
  View& w = out.in[0];
  const Bytes stride = row_bytes(w.format, w.shape[1]);
  const auto pitch = static_cast<std::uint32_t>((stride + kRowOffsetUnit - 1) / kRowOffsetUnit);
  std::vector<std::uint32_t> slots(2 * w.shape[0]), rows, places;
  std::iota(slots.begin(), slots.end(), 0u);
  const auto n = static_cast<std::uint32_t>(slots.size());
  for (std::uint32_t i = n - 1; i > 0; --i) {
    if (rng.below(2) == 0) std::swap(slots[i], slots[rng.below(i + 1)]);
  }
  w.memory = lease(w.offset + Bytes{n} * pitch * kRowOffsetUnit);
  for (Bytes i = 0; i < w.memory.size(); ++i) w.memory.data()[i] = static_cast<std::byte>(0x7f);  // NaNs, or large numbers
  for_each_row(call, [&](std::uint32_t row, Bytes at) {
    rows.push_back(row);
    places.push_back(slots[rows.size() - 1] * pitch);
    std::memcpy(w.data() + places.back() * kRowOffsetUnit, call.in[0].data() + at, stride);
  });
  out.rows = std::make_shared<const std::vector<std::uint32_t>>(std::move(rows));
  out.row_offsets = std::make_shared<const std::vector<std::uint32_t>>(std::move(places));
  return out;
}

namespace {

const ops::Arity& arity_of(const KernelCall& call) {
  return *std::visit([](const auto& op) { return &std::decay_t<decltype(op)>::kArity; }, call.op);
}

// Calls convert(view) for each activation operand; one that is both input and output stays one.
template <class F>
KernelCall converted(const KernelCall& call, F convert) {
  KernelCall out = call;
  const ops::Arity& arity = arity_of(call);
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if ((arity.f16_in >> i & 1) != 0) out.in[i] = convert(call.in[i]);
  }
  if (!arity.f16_out) return out;
  out.out[0] = convert(call.out[0]);
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (call.in[i].memory.block() == call.out[0].memory.block()) out.out[0] = out.in[i];
  }
  return out;
}

}  // namespace

View stored_as(Format format, const View& view) {
  if (view.format == format) return view;
  const View out = make_view(view.shape, format);
  const std::size_t n = elements(view);
  std::vector<float> values(n);
  dequantise_row(view.format, view.data(), values.data(), n);
  quantise_row(format, values.data(), out.data(), n);
  return out;
}

KernelCall in_halves(const KernelCall& call, Rng& rng) {
  const bool alike = call.is<ops::Gather, ops::Move>();
  return converted(call, [&](const View& view) { return alike || rng.below(4) > 0 ? stored_as(Format::f16, view) : view; });
}

KernelCall in_floats(const KernelCall& halves) {
  return converted(halves, [](const View& view) { return stored_as(Format::f32, view); });
}

std::vector<std::uint32_t> words_of(const Outcome& outcome) {
  std::vector<std::uint32_t> words{static_cast<std::uint32_t>(outcome.index())};
  if (const auto* active = std::get_if<ActiveSet>(&outcome)) {
    for (const IndexList& row : active->rows) {
      words.push_back(static_cast<std::uint32_t>(row->size()));
      words.insert(words.end(), row->begin(), row->end());
    }
  } else if (const auto* experts = std::get_if<std::vector<ExpertChoice>>(&outcome)) {
    for (const ExpertChoice& choice : *experts) {
      words.insert(words.end(), choice.ids.begin(), choice.ids.end());
      for (const float w : choice.weights) words.push_back(std::bit_cast<std::uint32_t>(w));
    }
  } else if (const auto* tokens = std::get_if<TokenChoice>(&outcome)) {
    for (const std::int32_t token : tokens->tokens) words.push_back(static_cast<std::uint32_t>(token));
  }
  return words;
}

}  // namespace vitro::test
