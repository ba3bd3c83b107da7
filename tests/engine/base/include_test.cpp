#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "engine/base/config.hpp"
#include "engine/base/file.hpp"

namespace vitro {
namespace {

using testing::HasSubstr;

// Files in a folder of their own.
class Include : public testing::Test {
 protected:
  Include() : folder_(testing::TempDir() + "include_" + testing::UnitTest::GetInstance()->current_test_info()->name() + "/") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "parts");
  }
  ~Include() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, std::string_view text) {
    OutputFile file(folder_ + name);
    file.write(text);
    file.commit();
    return folder_ + name;
  }
  Node load(std::string_view text) { return load_yaml(write("main.yaml", text)); }
  std::string error(std::string_view text) {
    try {
      load(text);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "(no error)";
  }

  std::string folder_;
};

TEST_F(Include, maps_merge_deeply_and_the_own_value_wins_wherever_the_key_stands) {
  write("base.yaml", "name: base\ndram: {a: 1, b: {c: 2, d: 3}}\nlist: [1, 2]\n");
  EXPECT_EQ(load("dram: {b: {c: 9}, e: 5}\nlist: [3]\ninclude: base.yaml\n").to_json(),
            R"({"name":"base","dram":{"a":1,"b":{"c":9,"d":3},"e":5},"list":[3]})");
}

TEST_F(Include, of_several_files_the_later_wins) {
  write("one.yaml", "a: 1\nb: 1\n");
  write("two.yaml", "b: 2\n");
  EXPECT_EQ(load("include: [one.yaml, two.yaml]\n").to_json(), R"({"a":1,"b":2})");
  EXPECT_EQ(load("include: [two.yaml, one.yaml]\n").to_json(), R"({"b":1,"a":1})");
}

TEST_F(Include, a_file_that_was_written_again_is_read_again) {
  write("base.yaml", "a: 1\n");
  EXPECT_EQ(load("include: base.yaml\n").to_json(), R"({"a":1})");
  EXPECT_EQ(load("include: base.yaml\n").to_json(), R"({"a":1})");
  write("base.yaml", "a: 2\n");
  EXPECT_EQ(load("include: base.yaml\n").to_json(), R"({"a":2})");
}

TEST_F(Include, works_inside_maps_and_lists_and_null_takes_a_block_away) {
  write("parts/core.yaml", "clock: 1 GHz\nrates: {int8: 4}\n");
  write("base.yaml", "cpu:\n  - include: parts/core.yaml\n    class: big\nnpu: {a: 1}\n");
  EXPECT_EQ(load("include: base.yaml\nnpu:\n").to_json(), R"({"cpu":[{"clock":"1 GHz","rates":{"int8":4},"class":"big"}],"npu":null})");
}

TEST_F(Include, paths_start_at_the_file_that_names_them) {
  write("parts/outer.yaml", "include: inner.yaml\n");
  write("parts/inner.yaml", "x: 1\n");
  EXPECT_EQ(load("include: parts/outer.yaml\n").to_json(), R"({"x":1})");
}

TEST_F(Include, a_value_with_its_provenance_is_replaced_as_a_whole) {
  write("base.yaml",
        "bw: {value: 1 GB/s, kind: measured, source: here, note: odd}\nt: {kind: derived, source: s, f: {a: 1, b: 2}}\nplain: 5 us\n");
  const Node node = load(
      "include: base.yaml\nbw: {value: 2 GB/s, kind: assumed, source: there}\nt: {kind: assumed, source: x, f: {a: 3}}\n"
      "plain: {value: 6 us, kind: spec, source: y}\n");
  EXPECT_EQ(node.find("bw")->find("note"), nullptr);
  EXPECT_EQ(node.find_path("t.f.b"), nullptr);  // a number of another source
  EXPECT_EQ(node.find_path("plain.value")->text(), "6 us");
}

TEST_F(Include, values_know_the_file_that_wrote_them) {
  const std::string base = write("base.yaml", "\na: {b: 1,\n    c: 2}\n");
  const Node node = load("# first\ninclude: base.yaml\na:\n  c: 3\n");
  EXPECT_EQ(node.find_path("a.b")->origin().str(), base + ":2");
  EXPECT_EQ(node.find_path("a.c")->origin().str(), folder_ + "main.yaml:4");
}

TEST_F(Include, a_circle_ends_in_a_message_that_names_the_chain) {
  write("b.yaml", "x: 1\ninclude: parts/c.yaml\n");
  write("parts/c.yaml", "include: ../main.yaml\n");
  EXPECT_EQ(error("include: b.yaml\n"), fmt::format("{0}parts/c.yaml:1: include: \"../main.yaml\" includes itself "
                                                    "({0}main.yaml -> {0}b.yaml -> {0}parts/c.yaml -> {0}main.yaml)",
                                                    folder_));
  EXPECT_THAT(error("include: main.yaml\n"), HasSubstr("\"main.yaml\" includes itself"));
}

TEST_F(Include, the_same_part_twice_is_no_circle) {
  write("part.yaml", "x: 1\n");
  EXPECT_EQ(load("a: {include: part.yaml}\nb: {include: part.yaml}\n").to_json(), R"({"a":{"x":1},"b":{"x":1}})");
}

TEST_F(Include, wrong_names_end_in_one_message_with_file_and_line) {
  EXPECT_THAT(error("a: 1\ncpu:\n  include: no.yaml\n"),
              AllOf(HasSubstr("main.yaml:3: cpu.include: \"no.yaml\" is not a file"), HasSubstr("looked for " + folder_ + "no.yaml")));
  EXPECT_THAT(error("include: {a: 1}\n"), HasSubstr("main.yaml:1: include: is not a file name (expected base.yaml"));
  EXPECT_THAT(error("include:\n"), HasSubstr("is not a file name"));
  write("list.yaml", "[1, 2]\n");
  EXPECT_THAT(error("include: list.yaml\n"), HasSubstr("\"list.yaml\" holds no map of keys"));
  write("bad.yaml", "a: 1\nb: [\n");
  EXPECT_THAT(error("include: bad.yaml\n"), HasSubstr("bad.yaml:"));
}

TEST_F(Include, files_that_double_are_bounded) {
  write("f0.yaml", "x: 1\n");
  for (int i = 1; i < 20; ++i) write(fmt::format("f{}.yaml", i), fmt::format("include: [f{0}.yaml, f{0}.yaml]\n", i - 1));
  EXPECT_THAT(error("include: f19.yaml\n"), HasSubstr("more than 256 files"));
}

TEST_F(Include, depth_is_bounded) {
  write("f0.yaml", "x: 1\n");
  for (int i = 1; i < 40; ++i) write(fmt::format("f{}.yaml", i), fmt::format("include: f{}.yaml\n", i - 1));
  EXPECT_EQ(error("include: f30.yaml\n"), "(no error)");
  EXPECT_THAT(error("include: f31.yaml\n"), HasSubstr("\"f0.yaml\" is more than 32 files deep"));
}

}  // namespace
}  // namespace vitro
