#include "engine/model/tokenizer.hpp"

#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

using Ids = std::vector<std::int32_t>;

struct Vocabulary {
  std::string model = "llama";
  std::vector<std::string> tokens{"<unk>", "<s>", "<0x61>", "\u2581", "b", "\u2581b", "bb", "[b]", "c", "bbc"};
  std::vector<float> scores{0, 0, 0, -1, -2, -3, -2, 0, -4, -9};
  std::vector<std::int32_t> types{2, 3, 6, 1, 1, 1, 1, 4, 1, 5};
  std::vector<std::pair<std::string, GgufValue>> extra{{"tokenizer.ggml.unknown_token_id", std::uint32_t{0}}};

  std::unique_ptr<Tokenizer> load() const {
    const ScratchFolder folder;
    GgufWriter out(folder / "v.gguf");
    out.add("tokenizer.ggml.model", model);
    out.add("tokenizer.ggml.tokens", gguf_array(tokens));
    out.add("tokenizer.ggml.scores", gguf_array(scores));
    if (!types.empty()) out.add("tokenizer.ggml.token_type", gguf_array(types));
    for (const auto& [key, value] : extra) out.add(key, value);
    out.commit();
    return Tokenizer::from_gguf(Gguf::open(folder / "v.gguf"));
  }
};

TEST(Tokenizer, the_best_score_merges_first_and_then_the_leftmost) {
  EXPECT_EQ(Vocabulary().load()->encode("bbb"), (Ids{3, 6, 4}));  // _ b b b: "bb" at -2 beats "_b" at -3; the left one wins
  EXPECT_EQ(Vocabulary().load()->encode("b"), (Ids{5}));
}

TEST(Tokenizer, user_defined_pieces_are_cut_out_and_unused_ones_never_made) {
  EXPECT_EQ(Vocabulary().load()->encode("b[b]b"), (Ids{5, 7, 4}));
  EXPECT_EQ(Vocabulary().load()->encode("bbc"), (Ids{3, 6, 8}));
}

TEST(Tokenizer, what_no_piece_covers_is_spelt_in_bytes_or_unknown) {
  EXPECT_EQ(Vocabulary().load()->encode("ba"), (Ids{5, 2}));
  EXPECT_EQ(Vocabulary().load()->encode("bz"), (Ids{5, 0}));
  EXPECT_EQ(Vocabulary().load()->decode(Ids{5, 0}), "b \u2047 ");
  Vocabulary strict;
  strict.extra.clear();
  EXPECT_NE(message_of([&] { strict.load()->encode("bz"); }).find("neither byte tokens nor an unknown token"), std::string::npos);
}

TEST(Tokenizer, the_space_before_a_text_can_be_turned_off) {
  Vocabulary v;
  v.extra.emplace_back("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = v.load();
  EXPECT_EQ(tokenizer->encode("b"), (Ids{4}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(" b")), " b");
}

TEST(Tokenizer, inconsistent_data_is_refused_by_key) {
  const auto refused = [](auto change, std::string_view part) {
    Vocabulary v;
    change(v);
    const std::string message = message_of([&] { v.load(); });
    EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
  };
  refused([](auto& v) { v.model = "bert"; }, "tokenizer.ggml.model: \"bert\" is not supported");
  refused([](auto& v) { v.scores.pop_back(); }, "tokenizer.ggml.scores: 9 scores for 10 tokens");
  refused([](auto& v) { v.scores[4] = std::numeric_limits<float>::quiet_NaN(); }, "the score of token 4 is not finite");
  refused([](auto& v) { v.types.push_back(1); }, "tokenizer.ggml.token_type: 11 types for 10 tokens");
  refused([](auto& v) { v.types[0] = 0; }, "token 0 has type 0");
  refused([](auto& v) { v.tokens[2] = "<0x6G>"; }, "byte token 2 is \"<0x6G>\"");
  refused([](auto& v) { v.extra = {{"tokenizer.ggml.eos_token_id", std::uint32_t{10}}}; }, "eos_token_id: is 10 (expected 0 to 9)");
  refused([](auto& v) { v.extra = {{"tokenizer.ggml.bos_token_id", std::int32_t{-1}}}; }, "bos_token_id: is -1");
  refused([](auto& v) { v.extra = {{"tokenizer.ggml.remove_extra_whitespaces", true}}; }, "remove_extra_whitespaces");
}

}  // namespace
}  // namespace vitro
