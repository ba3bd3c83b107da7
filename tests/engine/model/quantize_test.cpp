#include "engine/model/quantize.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "engine/model/tokenizer.hpp"
#include "engine/quant/group_formats.hpp"
#include "tests/effort.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

std::vector<std::byte> bytes_of(const Gguf& gguf, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.rows() * row_bytes(tensor.format, tensor.columns()));
  gguf.read(tensor, 0, bytes);
  return bytes;
}

// The embedded q8_0 file was written by an independent tool from the same f16 file.
TEST(Quantize, q8_0_is_byte_for_byte_what_another_tool_makes) {
  const ScratchFolder folder;
  quantize(embedded("stories-reglu-3m.f16.gguf"), folder / "q8.gguf", "q8_0");
  const Gguf ours = Gguf::open(folder / "q8.gguf"), theirs = Gguf::open(embedded("stories-reglu-3m.q8_0.gguf"));
  ASSERT_EQ(ours.tensors().size(), theirs.tensors().size());
  for (const TensorInfo& tensor : theirs.tensors()) {
    const TensorInfo* same = ours.find_tensor(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    EXPECT_EQ(same->format, tensor.format) << tensor.name;
    EXPECT_EQ(bytes_of(ours, *same), bytes_of(theirs, tensor)) << tensor.name;
  }
  EXPECT_EQ(ours.integer("general.file_type", 0, 100), 7u);
  EXPECT_EQ(ours.strings("tokenizer.ggml.tokens"), theirs.strings("tokenizer.ggml.tokens"));
}

TEST(Quantize, q4_0_keeps_vectors_routers_and_embeddings_finer) {
  const ScratchFolder folder;
  quantize(embedded("stories-moe-6m.f16.gguf"), folder / "q4.gguf", "q4_0");
  const Gguf gguf = Gguf::open(folder / "q4.gguf");
  const ModelConfig config = config_from_gguf(gguf);
  EXPECT_EQ(config.experts, 8u);
  for (const Weight& w : weights_of(config)) {
    const Format expected = is_vector(w.role) || w.role == Role::router ? Format::f32
                            : w.role == Role::token_embedding           ? Format::q8_0
                                                                        : Format::q4_0;
    EXPECT_EQ(gguf.find_tensor(w.name)->format, expected) << w.name;
  }
  const Gguf f16 = Gguf::open(embedded("stories-moe-6m.f16.gguf"));
  EXPECT_EQ(Tokenizer::from_gguf(gguf)->encode("Once upon a time"), Tokenizer::from_gguf(f16)->encode("Once upon a time"));
}

TEST(Quantize, channels_of_int4_hold_few_values_and_outliers_their_own) {
  const ScratchFolder folder;
  for (const auto& [scheme, finest, coarsest] : {std::tuple{"npu_int4_channel", 0u, 15u}, {"npu_int4_outliers", 16u, 18u}}) {
    quantize(embedded("stories-reglu-3m.f16.gguf"), folder / "q.gguf", scheme);
    const Gguf gguf = Gguf::open(folder / "q.gguf");
    EXPECT_EQ(gguf.find_tensor("token_embd.weight")->format, Format::q8_0);
    const TensorInfo& gate = *gguf.find_tensor("blk.1.ffn_gate.weight");
    ASSERT_EQ(gate.format, Format::f32);
    std::vector<float> row(gate.columns());
    std::size_t most = 0;
    for (std::uint64_t r = 0; r < gate.rows(); ++r) {
      gguf.read(gate, r * row.size() * 4, std::as_writable_bytes(std::span(row)));
      most = std::max(most, std::set<float>(row.begin(), row.end()).size());
    }
    EXPECT_GE(most, finest) << scheme;
    EXPECT_LE(most, coarsest) << scheme;  // 15 levels, and the 3 of 256 that are outliers
  }
}

TEST(Quantize, a_quantised_file_can_be_quantised_again) {
  const ScratchFolder folder;
  quantize(embedded("stories-reglu-3m.q6_k.gguf"), folder / "q8.gguf", "q8_0");
  EXPECT_EQ(Gguf::open(folder / "q8.gguf").find_tensor("blk.0.ffn_up.weight")->format, Format::q8_0);
  quantize(folder / "q8.gguf", folder / "again.gguf", "q8_0");
  EXPECT_EQ(read_file(folder / "q8.gguf"), read_file(folder / "again.gguf"));
}

TEST(Quantize, rows_that_are_no_whole_blocks_keep_their_format) {
  const ScratchFolder folder;
  SmallModel model;
  model.config.ffn = 40;
  model.write(folder / "m.gguf");
  quantize(folder / "m.gguf", folder / "q.gguf", "q4_0");
  const Gguf gguf = Gguf::open(folder / "q.gguf");
  EXPECT_EQ(gguf.find_tensor("blk.0.ffn_down.weight")->format, Format::f16);
  EXPECT_EQ(gguf.find_tensor("blk.0.ffn_up.weight")->format, Format::q4_0);
}

// NumPy's writer keeps a vector as one row of a matrix.
TEST(Quantize, a_vector_with_a_second_dimension_of_one_stays_as_it_is) {
  const ScratchFolder folder;
  SmallModel model;
  model.change = [](std::vector<Weight>& weights) {
    for (Weight& weight : weights) weight.role = weight.role == Role::attn_norm ? Role::router : weight.role;  // written with both
  };
  model.write(folder / "m.gguf");
  ASSERT_EQ(Gguf::open(folder / "m.gguf").find_tensor("blk.0.attn_norm.weight")->dims.size(), 2u);
  quantize(folder / "m.gguf", folder / "q.gguf", "q4_0");
  const Gguf gguf = Gguf::open(folder / "q.gguf");
  EXPECT_EQ(block_elements(gguf.find_tensor("blk.0.attn_norm.weight")->format), 1u);
  EXPECT_EQ(config_from_gguf(gguf).width, model.config.width);
}

TEST(Quantize, the_first_layers_are_a_model_whose_last_layer_is_as_it_was) {
  const ScratchFolder folder;
  SmallModel model;
  model.config.layers = 12;  // names of layers have one digit or two
  model.write(folder / "m.gguf");
  quantize(folder / "m.gguf", folder / "first.gguf", "w4g32", {.layers = 2});
  const Gguf source = Gguf::open(folder / "m.gguf"), first = Gguf::open(folder / "first.gguf");
  EXPECT_EQ(config_from_gguf(first).layers, 2u);
  EXPECT_EQ(first.find_tensor("blk.0.attn_q.weight")->format, Format::w(4, 32));
  const TensorInfo *kept = first.find_tensor("blk.1.attn_q.weight"), *was = source.find_tensor("blk.1.attn_q.weight");
  EXPECT_EQ(kept->format, Format::f16);
  EXPECT_EQ(bytes_of(first, *kept), bytes_of(source, *was));
  EXPECT_EQ(first.find_tensor("token_embd.weight")->format, Format::q8_0);
  EXPECT_EQ(first.find_tensor("blk.2.attn_q.weight"), nullptr);
  EXPECT_EQ(first.find_tensor("blk.10.attn_q.weight"), nullptr);
}

TEST(Quantize, matrices_that_were_rounded_elsewhere_are_written_as_they_are) {
  const ScratchFolder folder;
  SmallModel model;
  model.write(folder / "m.gguf");
  quantize(folder / "m.gguf", folder / "plain.gguf", "w4g32");
  const Gguf source = Gguf::open(folder / "m.gguf"), plain = Gguf::open(folder / "plain.gguf");
  const std::string name = "blk.1.ffn_down.weight";
  const Format format = target_format(*source.find_tensor(name), quantize_scheme("w4g32"));
  EXPECT_EQ(format, Format::w(4, 32));
  std::vector<std::byte> bytes = bytes_of(plain, *plain.find_tensor(name));
  std::ranges::reverse(bytes);
  const std::map<std::string, std::vector<std::byte>, std::less<>> rounded{{name, bytes}};
  quantize(folder / "m.gguf", folder / "out.gguf", "w4g32", {.rounded = &rounded});
  const Gguf out = Gguf::open(folder / "out.gguf");
  for (const TensorInfo& tensor : plain.tensors()) {
    const std::vector<std::byte> found = bytes_of(out, *out.find_tensor(tensor.name));
    EXPECT_EQ(found, tensor.name == name ? bytes : bytes_of(plain, tensor)) << tensor.name;
  }
}

TEST(Quantize, layers_are_read_from_names) {
  EXPECT_EQ(layer_of("blk.3.attn_q.weight"), 3);
  EXPECT_EQ(layer_of("blk.31.ffn_gate_exps.weight"), 31);
  for (const char* name : {"token_embd.weight", "blk.", "blk.x.attn_q.weight", "blk.3", "output.weight", "blk.99999999999.a"}) {
    EXPECT_EQ(layer_of(name), -1) << name;
  }
}

// What each matrix of a scheme holds, from its blocks.
std::vector<float> values_of(const Gguf& gguf, const TensorInfo& tensor) {
  std::vector<float> values(tensor.rows() * tensor.columns());
  dequantise_row(tensor.format, bytes_of(gguf, tensor).data(), values.data(), values.size());
  return values;
}

TEST(Quantize, every_scheme_writes_a_file_that_is_read_back) {
  const ScratchFolder folder;
  SmallModel model;  // rows of 256, which all formats fit
  model.config.layers = 1, model.config.width = 256, model.config.head_dim = 64, model.config.kv_heads = 1, model.config.ffn = 256;
  model.write(folder / "m.gguf");
  std::size_t number = 0;
  for (const QuantizeScheme& scheme : quantize_schemes()) {
    if (number++ % test::all_or_few(1u, 4u) != 0) continue;
    quantize(folder / "m.gguf", folder / "q.gguf", scheme.name);
    const Gguf gguf = Gguf::open(folder / "q.gguf");
    for (const TensorInfo& tensor : gguf.tensors()) {
      const bool down = tensor.name.find("ffn_down") != std::string::npos;
      const Format expected = tensor.dims.size() == 1              ? Format::f32
                              : tensor.name == "token_embd.weight" ? scheme.embeddings
                              : down                               ? scheme.down.value_or(scheme.matrices)
                                                                   : scheme.matrices;
      EXPECT_EQ(tensor.format, tensor.name == "output.weight" ? scheme.embeddings : expected) << scheme.name << " " << tensor.name;
    }
    const WeightError error = weight_error(folder / "q.gguf", folder / "m.gguf");
    EXPECT_GT(error.relative, 0) << scheme.name;
    EXPECT_LT(error.relative, 0.9) << scheme.name;
  }
}

TEST(Quantize, a_group_that_does_not_fill_rows_gives_way_to_a_smaller_one) {
  const ScratchFolder folder;
  SmallModel model;  // rows of 64 and, in ffn_down, 96
  model.write(folder / "m.gguf");
  quantize(folder / "m.gguf", folder / "q.gguf", "w3g128z");
  const Gguf gguf = Gguf::open(folder / "q.gguf");
  EXPECT_EQ(gguf.find_tensor("blk.0.ffn_up.weight")->format, Format::w(3, 64, 'z'));
  EXPECT_EQ(gguf.find_tensor("blk.0.ffn_down.weight")->format, Format::w(3, 32, 'z'));
}

TEST(Quantize, a_channel_has_one_scale_and_a_ternary_matrix_too) {
  const ScratchFolder folder;
  SmallModel model;
  model.config.ffn = 256;
  model.write(folder / "m.gguf");
  const auto scales = [&](const Gguf& gguf, const TensorInfo& tensor, std::uint64_t first, std::uint64_t rows) {
    const std::vector<std::byte> bytes = bytes_of(gguf, tensor);
    const Bytes block = block_bytes(tensor.format), row = row_bytes(tensor.format, tensor.columns());
    std::set<float> found;
    for (Bytes at = first * row; at < (first + rows) * row; at += block) found.insert(block_scale(tensor.format, bytes.data() + at).scale);
    return found.size();
  };
  for (const std::string name : {"w4_channel", "w3_channel", "w2_channel", "w1_channel"}) {
    quantize(folder / "m.gguf", folder / "q.gguf", name);
    const Gguf gguf = Gguf::open(folder / "q.gguf");
    const TensorInfo& down = *gguf.find_tensor("blk.1.ffn_down.weight");
    EXPECT_TRUE(down.format.row_scale);
    for (std::uint64_t row = 0; row < down.rows(); ++row) EXPECT_EQ(scales(gguf, down, row, 1), 1u) << name;
    EXPECT_GT(scales(gguf, down, 0, down.rows()), 1u) << name;
  }
  quantize(folder / "m.gguf", folder / "t.gguf", "ternary");
  const Gguf source = Gguf::open(folder / "m.gguf"), gguf = Gguf::open(folder / "t.gguf");
  const TensorInfo& down = *gguf.find_tensor("blk.1.ffn_down.weight");
  EXPECT_EQ(down.format, Format::w(2, 128, 'r'));
  EXPECT_EQ(gguf.find_tensor("blk.1.ffn_up.weight")->format, Format::w(2, 64, 'r'));  // rows of 64
  EXPECT_EQ(scales(gguf, down, 0, down.rows()), 1u);
  const std::vector<float> w = values_of(source, *source.find_tensor(down.name)), q = values_of(gguf, down);
  double mean = 0;
  for (const float x : w) mean += std::abs(x);
  mean /= static_cast<double>(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) {
    if (std::abs(std::abs(w[i]) / mean - 0.5) < 0x1p-11) continue;  // the scale is rounded to binary16, so halfway is not quite there
    const double expected = std::abs(w[i]) > mean / 2 ? std::copysign(mean, w[i]) : 0;
    ASSERT_NEAR(q[i], expected, mean * 0x1p-11) << w[i];
  }
}

// A model that was trained with ternary weights loses nothing, whatever share of them is zero.
TEST(Quantize, a_ternary_matrix_stays_what_it_is) {
  const ScratchFolder folder;
  SmallModel().write(folder / "m.gguf");
  quantize(folder / "m.gguf", folder / "once.gguf", "ternary");
  quantize(folder / "once.gguf", folder / "twice.gguf", "ternary");
  EXPECT_EQ(read_file(folder / "once.gguf"), read_file(folder / "twice.gguf"));
}

TEST(Quantize, weights_that_are_not_the_references_are_not_compared) {
  const ScratchFolder folder;
  SmallModel model;
  model.write(folder / "m.gguf");
  EXPECT_EQ(weight_error(folder / "m.gguf", folder / "m.gguf").relative, 0);
  EXPECT_EQ(weight_error(folder / "m.gguf", folder / "m.gguf").bits_per_weight, 16);
  model.config.ffn = 64;
  model.write(folder / "other.gguf");
  EXPECT_NE(message_of([&] { weight_error(folder / "other.gguf", folder / "m.gguf"); }).find("differs in shape from the matrix in"),
            std::string::npos);
}

// The embedded models have one matrix for both.
TEST(Quantize, embedding_and_output_can_have_formats_of_their_own) {
  const ScratchFolder folder;
  const Gguf f16 = Gguf::open(embedded("stories-reglu-3m.f16.gguf"));
  ASSERT_EQ(f16.find_tensor("output.weight"), nullptr);
  quantize(f16.path(), folder / "mixed.gguf", "q4_0", {.vocabulary = {Format::bf16, Format::q8_0}});
  const Gguf mixed = Gguf::open(folder / "mixed.gguf");
  const TensorInfo &embedding = *mixed.find_tensor("token_embd.weight"), &output = *mixed.find_tensor("output.weight");
  EXPECT_EQ(embedding.format, Format::bf16);
  EXPECT_EQ(output.format, Format::q8_0);
  EXPECT_EQ(mixed.find_tensor("blk.0.ffn_up.weight")->format, Format::q4_0);
  EXPECT_FALSE(config_from_gguf(mixed).tied_embedding);
  const std::vector<float> source = values_of(f16, *f16.find_tensor("token_embd.weight"));
  std::vector<float> expected = source;
  for (float& x : expected) x = bfloat_to_float(float_to_bfloat(x));
  EXPECT_EQ(values_of(mixed, embedding), expected);
  std::vector<std::byte> bytes(output.size);
  quantise_row(Format::q8_0, source.data(), bytes.data(), source.size());
  EXPECT_EQ(bytes_of(mixed, output), bytes);
}

TEST(Quantize, a_tied_matrix_stays_one_where_both_have_one_format) {
  const ScratchFolder folder;
  quantize(embedded("stories-reglu-3m.f16.gguf"), folder / "q.gguf", "q4_0", {Format::f16, Format::f16});
  EXPECT_EQ(Gguf::open(folder / "q.gguf").find_tensor("output.weight"), nullptr);
  quantize(embedded("stories-reglu-3m.f16.gguf"), folder / "q.gguf", "q4_0", {Format::f16, {}});
  EXPECT_EQ(Gguf::open(folder / "q.gguf").find_tensor("output.weight")->format, Format::q8_0);
}

TEST(Quantize, a_chosen_format_is_that_of_the_file_or_refused) {
  const ScratchFolder folder;
  SmallModel model;
  model.config.width = 48, model.config.head_dim = 12;
  model.write(folder / "m.gguf");
  const auto refused = [](auto f, std::string_view what) {
    const std::string message = message_of(f);
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  refused([&] { quantize(folder / "m.gguf", folder / "q.gguf", "q4_0", {.vocabulary = {{}, Format::q8_0}}); }, "output.weight: rows of 48");
  EXPECT_EQ(folder.files(), 1u);
  refused([] { written_format("--output", "q6_k"); }, "--output: there is no format \"q6_k\" to write");
  refused([] { written_format("--embedding", "int8_fp8"); }, "--embedding: there is no format");
}

TEST(Quantize, bad_requests_leave_nothing_behind) {
  const ScratchFolder folder;
  SmallModel().write(folder / "m.gguf");
  const auto error = [&](const std::string& out, std::string_view scheme) {
    return message_of([&] { quantize(folder / "m.gguf", out, scheme); });
  };
  EXPECT_NE(error(folder / "q.gguf", "q3_x").find("expected one of: q8_0, q4_0"), std::string::npos);
  EXPECT_NE(error(folder / "m.gguf", "q8_0").find("input and output are one file"), std::string::npos);
  EXPECT_NE(error(folder / "no/such/q.gguf", "q8_0").find("can not write"), std::string::npos);

  {
    GgufWriter out(folder / "nan.gguf");
    out.add_tensor("m", {32, 2}, Format::f32);
    std::vector<float> values(64, 1.0f);
    values[40] = std::numeric_limits<float>::quiet_NaN();
    out.write(std::as_bytes(std::span(values)));
    out.commit();
  }
  const std::string message = message_of([&] { quantize(folder / "nan.gguf", folder / "q.gguf", "q8_0"); });
  EXPECT_NE(message.find("m: row 1, element 8 is nan, which q8_0 can not hold"), std::string::npos) << message;
  EXPECT_EQ(folder.files(), 2u);
}

}  // namespace
}  // namespace vitro
