#include "engine/model/bundle_writer.hpp"

#include <array>
#include <cmath>
#include <cstring>

#include "engine/model/pack_plan.hpp"
#include "engine/model/packed_file.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

// One row of a bundle of a packed model, as it lies in the file. matrix: 0 is Gate, 1 Up, 2 Down.
std::vector<std::byte> row_at(const PackedModel& packed, const Weight& bundles, std::uint32_t expert, std::uint32_t place,
                              std::size_t matrix) {
  const BundleLayout layout = bundles.bundles();
  std::vector<std::byte> out(row_bytes(layout.format, layout.width));
  const Bytes row = std::array{layout.gate, layout.up, layout.down}[matrix];
  const Bytes stripe = layout.stripes == 1 ? 0 : matrix * layout.blocks() * layout.piece();
  InputFile(packed.path)
      .read_at(bundles.extent.offset + expert * bundles.matrix_bytes() + stripe + layout.block_of(place) * layout.piece() +
                   layout.within_block(place) + row,
               out);
  return out;
}

std::vector<std::byte> tensor_bytes(const Gguf& gguf, const Weight& w, Role role) {
  const TensorInfo& tensor = *gguf.find_tensor(tensor_name(role, w.layer, w.experts > 1));
  std::vector<std::byte> raw(tensor.size);
  gguf.read(tensor, 0, raw);
  return raw;
}

std::vector<float> tensor_values(const Gguf& gguf, const Weight& w, Role role) {
  const TensorInfo& tensor = *gguf.find_tensor(tensor_name(role, w.layer, w.experts > 1));
  std::vector<float> out(tensor.rows() * tensor.columns());
  dequantise_row(tensor.format, tensor_bytes(gguf, w, role).data(), out.data(), out.size());
  return out;
}

std::vector<float> values_of(Format format, const std::vector<std::byte>& row) {
  std::vector<float> out(row.size() / block_bytes(format) * block_elements(format));
  dequantise_row(format, row.data(), out.data(), out.size());
  return out;
}

struct Fixture {
  ScratchFolder folder;
  SmallModel model;

  PackedModel packed(const PackOptions& options) {
    model.write(folder / "m.gguf");
    return pack(Gguf::open(folder / "m.gguf"), options, folder / "cache");
  }
  Gguf gguf() { return Gguf::open(folder / "m.gguf"); }
};

// Every element of all three matrices is where the layout says, with its bits, whichever neuron `order` puts there.
void expect_bit_equal(Fixture& f, const PackOptions& options) {
  const PackedModel packed = f.packed(options);
  const Gguf gguf = f.gguf();
  const WeightStore store = packed.store(FileId{});
  const std::uint32_t neurons = f.model.config.ffn, width = f.model.config.width;
  for (std::uint32_t layer = 0; layer < f.model.config.layers; ++layer) {
    const Weight& w = store.get(Role::ffn_bundle, static_cast<int>(layer));
    EXPECT_EQ(store.find(Role::ffn_down, static_cast<int>(layer)), nullptr);
    ASSERT_EQ(w.format, f.model.matrices);
    const std::size_t element = block_bytes(w.format);
    const auto gate = tensor_bytes(gguf, w, Role::ffn_gate), up = tensor_bytes(gguf, w, Role::ffn_up),
               down = tensor_bytes(gguf, w, Role::ffn_down);
    for (std::uint32_t e = 0; e < w.experts; ++e) {
      for (std::uint32_t place = 0; place < neurons; ++place) {
        const std::uint32_t id = packed.order.empty() ? place : packed.order.of(layer, e)[place];
        const auto row_of = [&](const std::vector<std::byte>& matrix) {
          const auto first = matrix.begin() + static_cast<std::ptrdiff_t>((std::size_t{e} * neurons + id) * width * element);
          return std::vector<std::byte>(first, first + static_cast<std::ptrdiff_t>(width * element));
        };
        ASSERT_EQ(row_at(packed, w, e, place, 0), row_of(gate)) << w.name << " " << e << " " << place;
        ASSERT_EQ(row_at(packed, w, e, place, 1), row_of(up));
        const auto column = row_at(packed, w, e, place, 2);
        for (std::uint32_t r = 0; r < width; ++r) {
          const std::size_t source = ((std::size_t{e} * width + r) * neurons + id) * element;
          ASSERT_EQ(std::memcmp(column.data() + r * element, down.data() + source, element), 0) << "element " << r << " of " << place;
        }
      }
    }
  }
}

TEST(Bundles, plain_formats_keep_every_bit) {
  for (const Format format : {Format::f16, Format::f32, Format::bf16}) {
    for (const BundleForm form : {BundleForm::one_read, BundleForm::two_phases, BundleForm::apart, BundleForm::apart_two_phases}) {
      Fixture f;
      f.model.matrices = format;
      expect_bit_equal(f, {.bundles = form});
    }
  }
}

TEST(Bundles, wide_rows_have_blocks_of_their_own_in_both_phases) {
  for (const BundleForm form : {BundleForm::one_read, BundleForm::two_phases}) {
    Fixture f;
    f.model.config.width = 1024, f.model.config.head_dim = f.model.config.rope.dims = 256, f.model.config.ffn = 64;
    expect_bit_equal(f, {.bundles = form});
    const PackedModel packed = f.packed({.bundles = form});
    EXPECT_EQ(packed.store(FileId{}).get(Role::ffn_bundle, 0).bundles().first_part, form == BundleForm::two_phases ? 4 * KiB : 0);
  }
}

TEST(Bundles, experts_and_orders_move_whole_neurons) {
  Fixture f;
  f.model.config.experts = 3, f.model.config.experts_used = 2;
  expect_bit_equal(f, {.bundles = BundleForm::one_read});
  std::vector<std::vector<std::uint32_t>> places;
  for (std::uint32_t i = 0; i < f.model.config.layers * 3; ++i) {
    auto& ids = places.emplace_back(f.model.config.ffn);
    for (std::uint32_t p = 0; p < ids.size(); ++p) ids[p] = (p * 5 + i) % f.model.config.ffn;  // 5 and 96 have no common factor
  }
  expect_bit_equal(f, {.bundles = BundleForm::one_read, .order = NeuronOrder(places, f.model.config, "test")});
  expect_bit_equal(f, {.bundles = BundleForm::apart, .order = NeuronOrder(places, f.model.config, "test")});
}

// Blocks that run along the other axis: each element may move by what one more quantisation costs, and no more.
void expect_near(const Fixture& f, const PackedModel& packed, const Gguf& gguf, float steps) {
  const WeightStore store = packed.store(FileId{});
  const std::uint32_t neurons = f.model.config.ffn, width = f.model.config.width;
  const Weight& w = store.get(Role::ffn_bundle, 1);
  const std::vector<float> down = tensor_values(gguf, w, Role::ffn_down);
  const float levels = w.format == Format::q8_0 ? 127 : 8;
  bool differs = false;
  for (std::uint32_t i = 0; i < neurons; ++i) {
    const std::vector<float> got = values_of(w.format, row_at(packed, w, 0, i, 2));
    for (std::uint32_t block = 0; block < width; block += kBlock) {
      float largest = 0;
      for (std::uint32_t r = block; r < block + kBlock; ++r) largest = std::max(largest, std::abs(down[r * neurons + i]));
      for (std::uint32_t r = block; r < block + kBlock; ++r) {
        const float error = std::abs(got[r] - down[r * neurons + i]);
        EXPECT_LE(error, steps * largest / levels) << r << ", " << i;
        differs |= error > 0;
      }
    }
  }
  EXPECT_TRUE(differs);  // or the rows were not quantised along the other axis at all
}

TEST(Bundles, a_down_in_blocks_is_quantised_anew_within_a_step) {
  // Half a step and the rounding of the scale; q4_0 has no level for the far end of the lesser sign: one step.
  for (const auto& [format, steps] : {std::pair{Format::q8_0, 0.57f}, {Format::q4_0, 1.01f}}) {
    Fixture f;
    f.model.matrices = format;
    const PackedModel packed = f.packed({.tiled = {}, .bundles = BundleForm::one_read});
    const Gguf gguf = f.gguf();
    const Weight w = packed.store(FileId{}).get(Role::ffn_bundle, 1);
    EXPECT_EQ(w.format, format);
    expect_near(f, packed, gguf, steps);
    const auto gate = tensor_bytes(gguf, w, Role::ffn_gate);
    const Bytes row = row_bytes(format, f.model.config.width);
    EXPECT_EQ(std::memcmp(row_at(packed, w, 0, 5, 0).data(), gate.data() + 5 * row, row), 0);
  }
}

TEST(Bundles, small_groups_of_columns_give_the_same_bytes) {
  Fixture f;
  f.model.matrices = Format::q8_0;
  const PackedModel packed = f.packed({.bundles = BundleForm::one_read});
  const Gguf gguf = f.gguf();
  const Weight w = packed.store(FileId{}).get(Role::ffn_bundle, 0);
  const auto source = [&](Role role) { return gguf.find_tensor(tensor_name(role, 0, false)); };
  const auto written = [&](Bytes memory) {
    OutputFile file(f.folder / "bundles");
    SectionWriter out(file);
    write_bundles(gguf, {source(Role::ffn_gate), source(Role::ffn_up), source(Role::ffn_down), nullptr}, w, {}, out, memory);
    out.end_section();
    file.commit();
    return read_file(f.folder / "bundles");
  };
  const std::string whole = written(kTransposeBytes);
  EXPECT_EQ(whole.size(), w.extent.length);
  EXPECT_EQ(written(1), whole);
  EXPECT_EQ(written(40 * 64 * sizeof(float)), whole);
}

// A norm before Down: who adds up rows of Down has its weights in them.
TEST(Bundles, weights_of_a_norm_before_down_are_in_its_rows) {
  Fixture f;
  f.model.architecture = "bitnet";
  f.model.config.sub_norms = true;
  f.model.matrices = Format::f32;
  const PackedModel packed = f.packed({.tiled = {}, .bundles = BundleForm::one_read});
  const Gguf gguf = f.gguf();
  const Weight w = packed.store(FileId{}).get(Role::ffn_bundle, 1);
  const std::vector<float> gains = tensor_values(gguf, w, Role::ffn_sub_norm), down = tensor_values(gguf, w, Role::ffn_down);
  const std::vector<float> up = tensor_values(gguf, w, Role::ffn_up);
  bool differs = false;
  for (std::uint32_t neuron = 0; neuron < w.rows; ++neuron) {
    const std::vector<float> row = values_of(w.format, row_at(packed, w, 0, neuron, 2));
    for (std::uint32_t k = 0; k < w.columns; ++k) EXPECT_EQ(row[k], gains[neuron] * down[std::size_t{k} * w.rows + neuron]);
    EXPECT_EQ(values_of(w.format, row_at(packed, w, 0, neuron, 1))[0], up[std::size_t{neuron} * w.columns]);
    differs |= gains[neuron] != 1;
  }
  EXPECT_TRUE(differs);
}

TEST(Bundles, k_quants_become_q8_0_and_mixed_formats_the_widest) {
  EXPECT_EQ(bundle_format(Format::q4_k, Format::q4_k, Format::q6_k), Format::q8_0);
  EXPECT_EQ(bundle_format(Format::q4_0, Format::q4_0, Format::q8_0), Format::q8_0);
  EXPECT_EQ(bundle_format(Format::q4_0, Format::f16, Format::q4_k), Format::f16);
  EXPECT_EQ(bundle_format(Format::w(2, 64), Format::w(2, 64), Format::w(2, 64)), Format::q8_0);
  EXPECT_EQ(bundle_format(Format::bf16, Format::f16, Format::q4_k), Format::f32);
  EXPECT_EQ(bundle_format(Format::f32, Format::f16, Format::bf16), Format::f32);
  EXPECT_EQ(bundle_format(Format::q4_0, Format::q4_0, Format::q4_0), Format::q4_0);
  const ScratchFolder folder;
  const Gguf gguf = Gguf::open(embedded("stories-reglu-3m.q4_k_s.gguf"));
  const PackedModel packed = pack(gguf, {.bundles = BundleForm::one_read}, folder.str());
  const Weight w = packed.store(FileId{}).get(Role::ffn_bundle, 0);
  EXPECT_EQ(w.format, Format::q8_0);
  const std::vector<float> gate = tensor_values(gguf, w, Role::ffn_gate);
  const std::vector<float> row = values_of(w.format, row_at(packed, w, 0, 3, 0));
  for (std::uint32_t k = 0; k < w.columns; ++k) EXPECT_NEAR(row[k], gate[3 * w.columns + k], 0.02);
}

TEST(Bundles, values_that_the_format_can_not_hold_are_named) {
  Fixture f;
  f.model.matrices = Format::q8_0;
  f.model.write(f.folder / "m.gguf");
  std::string bytes = read_file(f.folder / "m.gguf");
  const Bytes at = Gguf::open(f.folder / "m.gguf").find_tensor("blk.1.ffn_down.weight")->offset;
  bytes[at] = '\x00', bytes[at + 1] = '\x7c';  // the scale of its first block: infinity
  write_file(f.folder / "m.gguf", bytes);
  const std::string message = message_of([&] { pack(f.gguf(), {.bundles = BundleForm::one_read}, f.folder / "cache"); });
  EXPECT_NE(message.find("blk.1.ffn_down.weight: neuron 0, element 0 is"), std::string::npos) << message;
}

// Nibbles and scales put together again are the rows that the other layout holds, in any order of neurons.
TEST(Bundles, resident_scales_and_nibbles_make_the_rows_of_q4_0) {
  Fixture f;
  f.model.matrices = Format::q4_0;
  f.model.config.experts = 3, f.model.config.experts_used = 2;
  std::vector<std::vector<std::uint32_t>> places(std::size_t{f.model.config.layers} * 3);
  for (auto& ids : places) {
    for (std::uint32_t id = f.model.config.ffn; id-- > 0;) ids.push_back(id);
  }
  const NeuronOrder order(places, f.model.config, "test");
  const PackedModel inside = f.packed({.bundles = BundleForm::scales_inline, .order = order});
  const PackedModel apart = f.packed({.bundles = BundleForm::automatic, .order = order});
  const WeightStore all = apart.store(FileId{});
  const std::uint32_t neurons = f.model.config.ffn, width = f.model.config.width;
  for (const int layer : {0, 1}) {
    const Weight &w = all.get(Role::ffn_bundle, layer), &scales = all.get(Role::ffn_scales, layer);
    const WeightStore others = inside.store(FileId{});
    const Weight& whole = others.get(Role::ffn_bundle, layer);
    EXPECT_EQ(w.format, Format::q4_nibbles);
    EXPECT_EQ(scales.extent.length, Bytes{3} * 3 * neurons * width / 32 * 2);
    for (std::uint32_t e = 0; e < 3; ++e) {
      for (std::uint32_t place = 0; place < neurons; ++place) {
        for (std::uint32_t m = 0; m < 3; ++m) {
          std::vector<std::byte> of_row(width / 32 * 2), split_scales(of_row.size()), nibbles(width / 2);
          const Bytes row = (Bytes{m} * neurons + place) * of_row.size();
          InputFile(apart.path).read_at(scales.extent.offset + e * scales.matrix_bytes() + row, of_row);
          split_q4_0(row_at(inside, whole, e, place, m).data(), width, nibbles.data(), split_scales.data());
          ASSERT_EQ(of_row, split_scales) << layer << " " << e << " " << place << " " << m;
          ASSERT_EQ(row_at(apart, w, e, place, m), nibbles) << layer << " " << e << " " << place << " " << m;
        }
      }
    }
  }
}

// A file of PowerInfer: Down by neurons, predictors, and its own magic. The same numbers in either direction.
struct PowerInferFixture : Fixture {
  PowerInferFixture() {
    model.config.predictor_rank = 32;
    model.extra = {{"powerinfer.sparse_threshold", 0.25f}};
    model.change = [](std::vector<Weight>& weights) {
      for (Weight& w : weights) {
        if (w.role != Role::ffn_down) continue;
        w.name = down_by_neuron_name(w.layer);
        std::swap(w.rows, w.columns);
      }
    };
  }
  Gguf sparse() {
    model.write(folder / "m.gguf");
    std::string bytes = read_file(folder / "m.gguf");
    write_file(folder / "m.gguf", bytes.replace(0, 4, "PWRI"));
    return gguf();
  }
};

TEST(Bundles, a_down_by_neurons_is_taken_row_by_row) {
  PowerInferFixture f;
  const Gguf gguf = f.sparse();
  EXPECT_EQ(config_from_gguf(gguf).activation, Activation::relu);
  EXPECT_EQ(config_from_gguf(gguf).predictor_thresholds, std::vector<float>{0.25f});
  const PackedModel packed = pack(gguf, {.bundles = BundleForm::automatic}, f.folder / "cache");
  const WeightStore store = packed.store(FileId{});
  const Weight& w = store.get(Role::ffn_bundle, 1);
  const TensorInfo& down = *gguf.find_tensor("blk.1.ffn_down_t.weight");
  std::vector<std::byte> raw(row_bytes(down.format, down.columns()));
  for (const std::uint32_t neuron : {0u, 41u, 95u}) {
    gguf.read(down, neuron * raw.size(), raw);
    EXPECT_EQ(row_at(packed, w, 0, neuron, 2), raw);
  }
}

TEST(Bundles, a_down_by_neurons_is_turned_for_whole_matrices) {
  for (const Bytes memory : {kTransposeBytes, Bytes{1}}) {
    PowerInferFixture f;
    const Gguf gguf = f.sparse();
    const PackPlan plan = make_plan(gguf, {});
    const WeightStore store(plan.weights);
    const Weight& w = store.get(Role::ffn_down, 1);
    EXPECT_EQ(w.rows, f.model.config.width);
    OutputFile file(f.folder / "down");
    SectionWriter out(file);
    write_transposed(gguf, *gguf.find_tensor("blk.1.ffn_down_t.weight"), w, out, memory);
    out.end_section();
    file.commit();
    std::vector<std::byte> raw(w.payload_bytes());
    gguf.read(*gguf.find_tensor("blk.1.ffn_down_t.weight"), 0, raw);
    const std::string turned = read_file(f.folder / "down");
    for (const auto& [r, c] : {std::pair{0u, 0u}, {5u, 17u}, {63u, 95u}}) {
      EXPECT_EQ(std::memcmp(turned.data() + 2 * (r * w.columns + c), raw.data() + 2 * (c * w.rows + r), 2), 0) << r << " " << c;
    }
  }
}

}  // namespace
}  // namespace vitro
