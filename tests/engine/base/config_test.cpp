#include "engine/base/config.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/base/json_value.hpp"
#include "engine/base/rng.hpp"

namespace vitro {
namespace {

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "(no error)";
}

std::string parse_error(std::string_view text) {
  return error_of([&] { parse_json(text, "x.json"); });
}

TEST(Json, values_know_their_lines) {
  const Node node = parse_json("{\n \"a\": 1,\n \"b\": {\n\n  \"c\": [true, \"t\",\n -2.5e1\n]}\n}", "x.json");
  EXPECT_EQ(node.find("a")->origin().str(), "x.json:2");
  EXPECT_EQ(node.find_path("b")->origin().str(), "x.json:3");
  const std::vector<Node>& list = node.find_path("b.c")->items();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].origin().line, 5);
  EXPECT_EQ(list[1].origin().line, 5);
  EXPECT_TRUE(list[1].quoted());
  EXPECT_EQ(list[2].origin().line, 6);
  EXPECT_EQ(list[2].text(), "-2.5e1");
}

TEST(Json, damage_is_named_with_its_line) {
  EXPECT_EQ(parse_error("{\n\"a\": }"), "x.json:2: not valid JSON at byte 8");
  EXPECT_EQ(parse_error(""), "x.json:1: not valid JSON at byte 1");
  EXPECT_EQ(parse_error("{\"a\": 1}\n trailing"), "x.json:2: not valid JSON at byte 13");
  EXPECT_EQ(parse_error("[1,\n2"), "x.json:2: not valid JSON at byte 6");
}

TEST(Json, keys_given_twice_and_depth_are_refused) {
  EXPECT_EQ(parse_error("{\"a\": 1,\n\"b\": 2,\n\"a\": 3}"), "x.json:3: a: given twice (first on line 1)");
  EXPECT_EQ(parse_error(std::string(65, '[') + std::string(65, ']')), "x.json:1: nested deeper than 64 levels");
  EXPECT_EQ(parse_error(std::string(64, '[') + std::string(64, ']')), "(no error)");
  EXPECT_NE(parse_error(std::string(1'000'000, '[')), "(no error)");
}

TEST(Json, what_is_read_is_written_back) {
  const std::string text = R"({"a":1,"b":"1","c":[true,null,"x\ny"],"d":{"e":2.5,"f":18446744073709551615}})";
  EXPECT_EQ(parse_json(text, "x").to_json(), text);
}

// Of few letters, so that quotes, escapes, numbers, symbols of several bytes, and bytes that are no UTF-8 stand side by side.
std::string drawn_text(Rng& rng) {
  constexpr std::string_view kPieces[] = {"a", "\"", "\\", "\n", "\x01", "\x7f", "0", "1", "7", "-", ".", "e", " ", "true", "null",
                                          "\xc2\xb5", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xc2", "\xff", "\xed\xa0\x80"};
  std::string text;
  for (std::uint64_t left = rng.below(6); left > 0; --left) text += kPieces[rng.below(std::size(kPieces))];
  return text;
}

Node drawn_tree(Rng& rng, int depth) {
  const std::uint64_t kind = rng.below(depth > 0 ? 5 : 3);
  if (kind == 0) return {};
  if (kind < 3) return Node::scalar(drawn_text(rng), {}, kind == 1);
  std::vector<Node> items;
  std::vector<Node::Entry> entries;
  for (std::uint64_t i = rng.below(4); i > 0; --i) {
    items.push_back(drawn_tree(rng, depth - 1));
    entries.emplace_back(drawn_text(rng) + std::to_string(i), drawn_tree(rng, depth - 1));
  }
  return kind == 3 ? Node::list(std::move(items)) : Node::map(std::move(entries));
}

TEST(Json, is_written_as_the_library_writes_it) {
  Rng rng(1);
  for (int i = 0; i < 3000; ++i) {
    const Node node = drawn_tree(rng, 3);
    EXPECT_EQ(node.to_json(), to_json_value(node).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }
}

TEST(Node, a_change_of_a_copy_changes_no_other) {
  const Node node = parse_json(R"({"a": {"b": {"c": 1}, "d": [1, 2]}})", "x");
  const std::string before = node.to_json();
  Node copy = node, inner = *node.find("a"), copied = copy;
  copy.set_path("a.b.c", Node::scalar("2"));
  inner.set("d", Node());
  EXPECT_EQ(copy.to_json(), R"({"a":{"b":{"c":2},"d":[1,2]}})");
  EXPECT_EQ(inner.to_json(), R"({"b":{"c":1},"d":null})");
  EXPECT_EQ(copied.to_json(), before);
  EXPECT_EQ(node.to_json(), before);
}

// Texts that begin as a literal does, and texts around which a parser would pass over blanks.
TEST(Json, unquoted_scalars_are_what_a_parser_of_json_takes_them_for) {
  const auto written = [](std::string text) { return Node::scalar(std::move(text)).to_json(); };
  for (const char* literal : {"1", "-2.5", "1e3", "true", "false", "null", " 7", "\t7\n"}) {
    EXPECT_NE(written(literal).front(), '"') << literal;
  }
  EXPECT_EQ(written(" 7"), "7");
  for (const char* text : {"", " ", "59.6 GB/s", "1 GiB", "truely", "nothing", "-", "+1", ".5", "0x10", "falsehood", "NaN", "Infinity"}) {
    EXPECT_EQ(written(text), '"' + std::string(text) + '"');
  }
  EXPECT_EQ(Node::scalar("1", {}, true).to_json(), R"("1")");
}

TEST(Node, paths_make_maps_on_the_way_and_replace_in_place) {
  Node node = parse_json(R"({"memory": {"budget": "1 GiB"}, "x": 1})", "x");
  node.set_path("memory.budget", Node::scalar("2 GiB"));
  node.set_path("sweep.memory.ffn", Node::scalar("50%"));
  EXPECT_EQ(node.find_path("memory.budget")->text(), "2 GiB");
  EXPECT_EQ(node.find_path("sweep.memory.ffn")->text(), "50%");
  EXPECT_EQ(node.entries()[0].first, "memory");
  EXPECT_EQ(node.find_path("x.y"), nullptr);
  EXPECT_EQ(node.find("memory")->origin().str(), "x:1");
  EXPECT_EQ(node.find_path("memory.budget")->origin().str(), "(default)");
}

// Every message of the reader, on one document.
class ReaderMessages : public testing::Test {
 protected:
  ReaderMessages()
      : node_(parse_json("{\n"
                         "\"n\": 12,\n"
                         "\"half\": 1.5,\n"
                         "\"rate\": \"2.1\",\n"
                         "\"time\": \"3 us\",\n"
                         "\"flag\": \"maybe\",\n"
                         "\"list\": [1],\n"
                         "\"map\": {\"inner\": {\"depth\": 1}},\n"
                         "\"nothing\": null,\n"
                         "\"sourced\": {\"value\": \"3.3 GHz\", \"kind\": \"spec\", \"source\": \"a datasheet\"},\n"
                         "\"unsourced\": {\"value\": \"3.3 GHz\", \"kind\": \"guessed\"}\n"
                         "}",
                         "p.json")) {}

  template <class Action>
  std::string error(Action action) {
    Reader reader(node_, "dev");
    return error_of([&] { action(reader); });
  }
  Node node_;
};

TEST_F(ReaderMessages, values_come_with_their_types) {
  Reader r(node_, "");
  EXPECT_EQ(r.integer("n", 0, 100), 12);
  EXPECT_EQ(r.number("half", 0, 2), 1.5);
  EXPECT_DOUBLE_EQ(r.quantity("time", Dimension::time), 3e-6);
  EXPECT_EQ(r.integer("absent", 0, 5, 4), 4);
  EXPECT_EQ(r.text("absent", "x"), "x");
  EXPECT_EQ(r.text("nothing", "x"), "x");
  EXPECT_TRUE(r.boolean("absent", true));
  EXPECT_EQ(r.choice("absent", {"a", "b"}, "b"), "b");
  EXPECT_EQ(r.list("list").size(), 1u);
  EXPECT_FALSE(r.optional_child("nothing"));
  EXPECT_EQ(r.child("map").child("inner").integer("depth", 0, 9), 1);
  const Sourced sourced = r.sourced("sourced", Dimension::frequency);
  EXPECT_DOUBLE_EQ(sourced.value, 3.3e9);
  EXPECT_EQ(sourced.kind, Provenance::spec);
  EXPECT_EQ(sourced.source, "a datasheet");
  EXPECT_FALSE(r.sourced("time", Dimension::time).kind);
}

TEST_F(ReaderMessages, name_file_line_key_value_and_what_was_expected) {
  EXPECT_EQ(error([](Reader& r) { r.integer("n", 0, 10); }), "p.json:2: dev.n: \"12\" (expected a whole number from 0 to 10)");
  EXPECT_EQ(error([](Reader& r) { r.integer("half", 0, 10); }), "p.json:3: dev.half: \"1.5\" (expected a whole number from 0 to 10)");
  EXPECT_EQ(error([](Reader& r) { r.quantity("rate", Dimension::bandwidth); }),
            "p.json:4: dev.rate: \"2.1\" has no unit (expected bytes per second, such as 2.1 GB/s)");
  EXPECT_EQ(error([](Reader& r) { r.quantity("time", Dimension::bytes); }),
            "p.json:5: dev.time: \"3 us\" is not understood (expected bytes, such as 8 MiB)");
  EXPECT_EQ(error([](Reader& r) { r.boolean("flag", false); }), "p.json:6: dev.flag: \"maybe\" (expected true or false)");
  EXPECT_EQ(error([](Reader& r) { r.choice("flag", {"a", "b"}); }), "p.json:6: dev.flag: \"maybe\" (expected one of: a, b)");
  EXPECT_EQ(error([](Reader& r) { r.text("list"); }), "p.json:7: dev.list: is a list (expected text)");
  EXPECT_EQ(error([](Reader& r) { r.list("n"); }), "p.json:2: dev.n: is not a list (expected [a, b, ...])");
  EXPECT_EQ(error([](Reader& r) { r.child("n"); }), "p.json:2: dev.n: is not a map of keys (expected `key: value` lines)");
  EXPECT_EQ(error([](Reader& r) { r.text("absent"); }), "p.json:1: dev.absent: is missing");
  EXPECT_EQ(error([](Reader& r) { r.child("map").child("inner").integer("depth", 5, 9); }),
            "p.json:8: dev.map.inner.depth: \"1\" (expected a whole number from 5 to 9)");
  EXPECT_EQ(error([](Reader& r) { r.sourced("unsourced", Dimension::frequency); }),
            "p.json:11: dev.unsourced.kind: \"guessed\" (expected one of: spec, measured, derived, scaled, fitted, assumed)");
}

TEST(Reader, quantities_stay_within_what_they_can_mean) {
  const Node node =
      parse_json(R"({"size": "-6 MiB", "huge": "1e300 GB", "wait": "1e9 s", "part": "150%", "cold": "-20 degC", "none": -1})", "p");
  const auto error = [&](std::string_view key, Dimension dimension) {
    return error_of([&] { Reader(node, "m").quantity(key, dimension); });
  };
  EXPECT_EQ(error("size", Dimension::bytes), "p:1: m.size: \"-6 MiB\" is negative (expected bytes, such as 8 MiB)");
  EXPECT_EQ(error("huge", Dimension::bytes), "p:1: m.huge: \"1e300 GB\" is too large (expected bytes, such as 8 MiB)");
  EXPECT_EQ(error("wait", Dimension::time), "p:1: m.wait: \"1e9 s\" is too large (expected a time, such as 15 us)");
  EXPECT_EQ(error("cold", Dimension::temperature), "(no error)");
  EXPECT_EQ(error("none", Dimension::none), "(no error)");
  EXPECT_EQ(error("part", Dimension::ratio), "(no error)");  // of what, only the caller knows
  EXPECT_EQ(error_of([&] { Reader(node, "m").share("part", 0); }), "p:1: m.part: \"150%\" is not a share (expected 0% to 100%)");
  EXPECT_EQ(Reader(node, "m").share("absent", 0.25), 0.25);
}

TEST(Reader, a_key_that_is_missing_is_looked_for_among_misspelt_ones) {
  const Node node = parse_json("{\n\"bandwith\": \"1 GB/s\",\n\"m\": 1}", "p");
  Reader reader(node, "dram");
  EXPECT_EQ(error_of([&] { reader.quantity("bandwidth", Dimension::bandwidth); }),
            "p:2: dram.bandwith: unknown key (did you mean \"bandwidth\"?)");
  EXPECT_EQ(error_of([&] { reader.integer("n", 0, 1); }), "p:1: dram.n: is missing");
}

TEST(Reader, unknown_keys_are_errors_with_a_suggestion) {
  const Node node = parse_json("{\"bandwidht\": 1}", "p");
  Reader near(node, "ufs");
  near.has("x");
  near.number("bandwidth", 0, 1, 0);
  EXPECT_EQ(error_of([&] { near.finish(); }), "p:1: ufs.bandwidht: unknown key (did you mean \"bandwidth\"?)");
  Reader far(node, "");
  far.number("lanes", 0, 1, 0);
  far.number("gear", 0, 1, 0);
  EXPECT_EQ(error_of([&] { far.finish(); }), "p:1: bandwidht: unknown key (expected one of: gear, lanes)");
  const Node short_name = parse_json("{\"xy\": 1, \"kvq\": 1}", "p");
  Reader few(short_name, "");
  few.number("kv", 0, 1, 0);
  EXPECT_EQ(error_of([&] { few.finish(); }), "p:1: xy: unknown key (expected one of: kv)") << "two letters off is another name";
  few.ignore("xy");
  EXPECT_EQ(error_of([&] { few.finish(); }), "p:1: kvq: unknown key (did you mean \"kv\"?)");
  Reader asked(node, "");
  asked.ignore("bandwidht");
  EXPECT_EQ(error_of([&] { asked.finish(); }), "(no error)");
}

TEST(Reader, a_misspelt_key_is_named_before_what_its_absence_would_mean) {
  const Node node = parse_json("{\n\"ggfu\": \"a.gguf\",\n\"pack\": 1}", "p");
  Reader reader(node, "model");
  const std::string near = "p:2: model.ggfu: unknown key (did you mean \"gguf\"?)";
  EXPECT_EQ(error_of([&] { reader.fail("gguf", "is missing (expected a file)"); }), near);
  EXPECT_EQ(error_of([&] { reader.fail("gguf", "needs a unit"); }), "p:1: model.gguf: needs a unit");
  EXPECT_EQ(error_of([&] { reader.fail("shape", "is missing"); }), "p:1: model.shape: is missing");
  EXPECT_EQ(error_of([&] { reader.fail("pack", "is wrong"); }), "p:3: model.pack: is wrong") << "is there";
  reader.ignore("ggfu");
  EXPECT_EQ(error_of([&] { reader.fail("gguf", "is missing"); }), "p:1: model.gguf: is missing") << "ggfu is a key of its own";
  const Node units = parse_json("{\"npu\": {}}", "p");
  EXPECT_EQ(error_of([&] { Reader(units, "").fail("cpu", "is missing"); }), "p:1: cpu: is missing") << "npu may be read later";
}

// Reads every kind of key, some of them absent.
std::string resolved(const std::string& json) {
  const Node node = parse_json(json, "p");
  Reader reader(node, "");
  reader.text("name", "phone");
  reader.text("note", "");  // empty: not given
  reader.integer("count", 1, 8, 4);
  reader.integer("limit", 1, 8, 0);  // out of range: not given
  reader.number("factor", 0, 1, 0.1);
  reader.boolean("on", true);
  reader.quantity("size", Dimension::bytes, 128.0 * KiB);
  reader.quantity("wait", Dimension::time, 15e-6);
  reader.share("part", 0.25);
  reader.choice("kind", {"a", "b"}, "b");
  reader.raw("extra");
  Reader inner = reader.section("inner");
  inner.integer("depth", 1, 32, 2);
  inner.finish();
  if (std::optional<Reader> other = reader.optional_child("other")) other->boolean("x", false);
  if (reader.has("splits")) {
    for (Reader& split : reader.maps("splits")) split.share("hot", 0);
  }
  reader.finish();
  return reader.resolved().to_json();
}

TEST(Resolved, has_the_default_of_each_key_that_is_absent) {
  EXPECT_EQ(resolved("{}"), R"({"name":"phone","count":4,"factor":0.1,"on":true,"size":"128 KiB","wait":"15 us","part":"25%",)"
                            R"("kind":"b","inner":{"depth":2}})");
}

TEST(Resolved, has_what_was_given_as_it_was_written) {
  EXPECT_EQ(resolved(R"({"on": "off", "size": "0.5 MiB", "limit": 3, "inner": {}, "other": {}, "extra": [1, {"a": "b"}], "splits": [{}, )"
                     R"({"hot": "5%"}], "note": "12"})"),
            R"({"name":"phone","note":"12","count":4,"limit":3,"factor":0.1,"on":false,"size":"0.5 MiB","wait":"15 us","part":"25%",)"
            R"("kind":"b","extra":[1,{"a":"b"}],"inner":{"depth":2},"other":{"x":false},"splits":[{"hot":"0%"},{"hot":"5%"}]})");
}

TEST(Resolved, is_the_same_when_it_is_read_again) {
  for (const std::string given : {"{}", R"({"count": 2, "splits": [{}], "wait": "1 ms", "inner": {"depth": 7}})"}) {
    EXPECT_EQ(resolved(resolved(given)), resolved(given));
  }
}

TEST(Resolved, keeps_the_lines_of_what_was_given_and_writes_old_spellings_anew) {
  const Node node = parse_json("{\n\"old\": 3,\n\"a\": {\n\"b\": 1}}", "p");
  Reader reader(node, "");
  reader.child("a").integer("b", 0, 9);
  const Node* old = reader.raw("old");
  reader.forget("old");
  reader.rewrite("new", *old);
  EXPECT_EQ(reader.resolved().to_json(), R"({"a":{"b":1},"new":3})");
  EXPECT_EQ(reader.resolved().find_path("a.b")->origin().str(), "p:4");
}

}  // namespace
}  // namespace vitro
