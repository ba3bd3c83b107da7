#include "hw_models/params.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hw_models/registry.hpp"
#include "tests/hw_models/context.hpp"

namespace vitro::hw {
namespace {

using testing::HasSubstr;

constexpr ParamSpec kSpecs[] = {
    {"latency", Dimension::time, "", ""},
    {"depth", Dimension::none, "32", "a standard"},
};

Params read(const std::string& yaml) {
  static std::vector<std::unique_ptr<Node>> kept;
  kept.push_back(std::make_unique<Node>(parse_yaml(yaml, "t.yaml")));
  Reader reader(*kept.back(), "ufs");
  Params params(reader, kSpecs);
  params.add_table(reader, "prices", false);
  reader.finish();
  return params;
}

std::string message_of(const std::string& yaml) {
  try {
    read(yaml);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(Params, provenance_is_kept_and_what_was_read_and_assumed_is_listed) {
  const Params params = read("latency: {value: 3 us, kind: measured, source: a paper}");
  EXPECT_EQ(params.time("latency"), 3 * kUs);
  EXPECT_EQ(params.all()[0].kind, Provenance::measured);
  EXPECT_EQ(params.all()[0].source, "a paper");
  EXPECT_TRUE(params.assumed_and_read().empty());
  EXPECT_EQ(params.number("depth"), 32);
  EXPECT_EQ(params.assumed_and_read(), std::vector<std::string>{"ufs.depth"});
}

template <class Use>
std::string message_of_use(Use use) {
  try {
    use();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "(no error)";
}

// A model refuses a value long after the file was read.
TEST(Params, a_model_that_refuses_a_value_names_file_and_line) {
  const Params params = read("latency: 3 us\ndepth: 0\nprices:\n  kind: measured\n  source: a bench\n  float:\n    f16: 16\n");
  EXPECT_EQ(message_of_use([&] { params.positive("depth"); }), "t.yaml:2: ufs.depth: is 0 (expected more)");
  EXPECT_EQ(message_of_use([&] { params.fail("latency", "is long"); }), "t.yaml:1: ufs.latency: is long");
  const ParamTable& table = params.table("prices");
  EXPECT_EQ(message_of_use([&] { table.fail("float.f16", "is dear"); }), "t.yaml:7: ufs.prices.float.f16: is dear");
  EXPECT_THAT(message_of_use([&] { table.fail("", "has no f32"); }), testing::MatchesRegex("t.yaml:[34]: ufs.prices: has no f32"));
}

TEST(Params, a_default_that_is_refused_has_the_place_of_its_block) {
  const Params params = read("{latency: 3 us}");
  EXPECT_EQ(message_of_use([&] { params.fail("depth", "is too large"); }), "t.yaml:1: ufs.depth: is too large");
}

TEST(Params, a_plain_value_counts_as_assumed) {
  const Params params = read("latency: 3 us");
  EXPECT_EQ(params.time("latency"), 3 * kUs);
  EXPECT_EQ(params.assumed_and_read(), std::vector<std::string>{"ufs.latency"});
}

TEST(Params, wrong_input_names_file_line_key_and_value) {
  EXPECT_THAT(message_of("latency: 3"), AllOf(HasSubstr("t.yaml:1: ufs.latency: \"3\" has no unit"), HasSubstr("15 us")));
  EXPECT_THAT(message_of("depth: 3"), HasSubstr("ufs.latency: is missing"));
  EXPECT_THAT(message_of("{latency: 3 us, dept: 4}"), HasSubstr("did you mean \"depth\"?"));
  EXPECT_THAT(message_of("latency: -3 us"), HasSubstr("negative"));
  EXPECT_THAT(message_of("latency: {value: 3 us, kind: guessed, source: x}"), HasSubstr("guessed"));
}

TEST(Params, tables_share_one_provenance_and_flatten_their_keys) {
  const Node node = parse_yaml("rates: {kind: derived, source: a guide, float: {f16: 16}, int8: {q4_0: 40}, base: 2}", "t.yaml");
  Reader reader(node, "cpu");
  Params params;
  params.add_table(reader, "rates", true);
  const ParamTable& table = params.table("rates");
  EXPECT_EQ(table.values.at("float.f16"), 16);
  EXPECT_EQ(table.values.at("int8.q4_0"), 40);
  EXPECT_EQ(table.values.at("base"), 2);
  EXPECT_EQ(table.kind, Provenance::derived);
  EXPECT_TRUE(params.table("others").values.empty());
}

TEST(Registry, a_taken_name_is_refused) {
  Registry registry = builtin_models();
  EXPECT_THROW(register_ufs(registry), ConfigError);
  EXPECT_THROW(registry.add(Entry<DramModel>{"core.flow", "", {}, {}, nullptr}), ConfigError);
}

TEST(Registry, an_unknown_model_lists_the_known_ones) {
  const Registry registry = builtin_models();
  const Node node = parse_yaml("model: mram", "t.yaml");
  Reader reader(node, "dram");
  try {
    registry.dram(reader, "lpddr");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("t.yaml:1: dram.model"), HasSubstr("mram.flow"), HasSubstr("lpddr.flow")));
  }
}

TEST(Params, a_word_is_one_of_its_choices_or_the_default) {
  constexpr ParamSpec specs[] = {{"refresh", Dimension::none, "per_bank", "", "none|all_bank|per_bank"}};
  const auto word = [&](const char* text) {
    const Node node = parse_yaml(text, "t");
    Reader reader(node, "dram");
    const Params params(reader, specs);
    reader.finish();
    EXPECT_EQ(params.assumed_and_read().size(), 0u);
    return params.word("refresh");
  };
  EXPECT_EQ(word("{}"), "per_bank");
  EXPECT_EQ(word("{refresh: none}"), "none");
  EXPECT_THROW(word("{refresh: sometimes}"), ConfigError);
}

}  // namespace
}  // namespace vitro::hw
