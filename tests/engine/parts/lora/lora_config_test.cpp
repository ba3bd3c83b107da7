#include "engine/parts/lora/lora_config.hpp"

#include <gmock/gmock.h>

#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

using testing::HasSubstr;

LoraConfig read(const std::string& json) { return read_lora(Reader(parse_json(json, "e.json"), "engine.lora")); }
std::string refusal(const std::string& json) {
  return message_of([&] { read(json); });
}

TEST(LoraConfig, adapters_are_files_or_shapes_and_have_the_numbers_of_their_places) {
  const LoraConfig lora = read(R"({"adapters": [{"name": "a", "file": "/x/a.gguf", "scale": 0.5},
                                                {"name": "b", "rank": 8, "alpha": 16, "matrices": ["attn_q", "ffn_up"], "format": "f32"}],
                                   "order": "ab_x"})");
  EXPECT_EQ(lora.names(), (std::vector<std::string>{"none", "a", "b"}));
  EXPECT_EQ(lora.order, LoraOrder::ab_x);
  EXPECT_EQ(lora.adapters[0].file, "/x/a.gguf");
  EXPECT_EQ(lora.adapters[0].strength, 0.5);
  EXPECT_FALSE(lora.adapters[0].shape);
  ASSERT_TRUE(lora.adapters[1].shape);
  EXPECT_EQ(lora.adapters[1].shape->rank, 8u);
  EXPECT_EQ(lora.adapters[1].shape->roles, (std::vector<Role>{Role::attn_q, Role::ffn_up}));
  EXPECT_EQ(lora.adapters[1].shape->format, Format::f32);
  EXPECT_TRUE(read("{}").adapters.empty());
  EXPECT_EQ(read("{}").order, LoraOrder::a_bx);
}

TEST(LoraConfig, what_is_wrong_is_named_by_its_key) {
  EXPECT_THAT(refusal(R"({"adapters": [{"name": "none", "file": "x"}]})"), HasSubstr("engine.lora.adapters.name: \"none\""));
  EXPECT_THAT(refusal(R"({"adapters": [{"name": "a", "file": "x"}, {"name": "a", "file": "y"}]})"), HasSubstr("name of another adapter"));
  EXPECT_THAT(refusal(R"({"adapters": [{"name": "a", "rank": 0, "matrices": ["attn_q"]}]})"), HasSubstr("engine.lora.adapters.rank"));
  EXPECT_THAT(refusal(R"({"adapters": [{"name": "a", "rank": 8, "matrices": ["attn"]}]})"), HasSubstr("engine.lora.adapters.matrices"));
  EXPECT_THAT(refusal(R"({"adapters": [{"name": "a", "rank": 8, "matrices": []}]})"), HasSubstr("is empty"));
  EXPECT_THAT(refusal(R"({"adapters": [{"name": "a"}]})"), HasSubstr("engine.lora.adapters.rank"));
  EXPECT_THAT(refusal(R"({"adapters": [{"name": "a", "file": "x", "rank": 8}]})"), HasSubstr("unknown key"));
  EXPECT_THAT(refusal(R"({"order": "bax"})"), HasSubstr("a_bx"));
}

}  // namespace
}  // namespace vitro
