#include "engine/model/quantize.hpp"

#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "engine/model/tokenizer.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

std::vector<std::byte> bytes_of(const Gguf& gguf, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.size);
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
