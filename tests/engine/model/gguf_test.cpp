#include "engine/model/gguf.hpp"

#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

TEST(Gguf, reads_what_the_writer_wrote) {
  const ScratchFolder folder;
  const std::vector<float> floats{1.5f, -2};
  const std::vector<std::int32_t> ints{-7, 8};
  const std::vector<float> first(10, 3.0f), second(64, 0.25f);
  {
    GgufWriter out(folder / "a.gguf", 64);
    out.add("u8", std::uint8_t{200});
    out.add("i64", std::int64_t{-5});
    out.add("f64", 2.5);
    out.add("yes", true);
    out.add("name", std::string("x\0y", 3));
    out.add("strings", gguf_array({"", "abc"}));
    out.add("floats", gguf_array(floats));
    out.add("ints", gguf_array(ints));
    out.add_tensor("t.first", {5, 2}, Format::f32);
    out.add_tensor("t.second", {32, 1, 2}, Format::f32);
    out.write(std::as_bytes(std::span(first)));
    out.write(std::as_bytes(std::span(second)).first(100));
    out.write(std::as_bytes(std::span(second)).subspan(100));
    EXPECT_FALSE(std::filesystem::exists(folder / "a.gguf"));
    out.commit();
  }
  const Gguf gguf = Gguf::open(folder / "a.gguf");
  EXPECT_EQ(gguf.alignment(), 64u);
  EXPECT_EQ(gguf.integer("u8", 0, 255), 200u);
  EXPECT_EQ(gguf.number("i64", -10, 10), -5);
  EXPECT_EQ(gguf.number("f64", 0, 10), 2.5);
  EXPECT_TRUE(gguf.boolean("yes", false));
  EXPECT_EQ(gguf.text("name"), std::string("x\0y", 3));
  EXPECT_EQ(gguf.strings("strings"), (std::vector<std::string>{"", "abc"}));
  EXPECT_EQ(gguf.floats("floats"), floats);
  EXPECT_EQ(gguf.integers("ints"), ints);
  ASSERT_EQ(gguf.tensors().size(), 2u);
  const TensorInfo& t = *gguf.find_tensor("t.second");
  EXPECT_EQ(t.offset % 64, 0u);
  EXPECT_EQ(t.rows(), 2u);
  std::vector<float> back(64);
  gguf.read(t, 0, std::as_writable_bytes(std::span(back)));
  EXPECT_EQ(back, second);
  EXPECT_NE(message_of([&] { gguf.integer("u8", 0, 100); }).find("u8: is 200 (expected 0 to 100)"), std::string::npos);
  EXPECT_NE(message_of([&] { gguf.floats("ints"); }).find("ints: holds int32 values"), std::string::npos);
  EXPECT_NE(message_of([&] { gguf.boolean("u8", true); }).find("expected bool"), std::string::npos);
  EXPECT_NE(message_of([&] { gguf.text("none"); }).find("none: the key is missing"), std::string::npos);
}

TEST(Gguf, what_is_no_file_is_refused) {
  const ScratchFolder folder;
  EXPECT_NE(message_of([&] { Gguf::open(folder / "none.gguf"); }).find("can not open"), std::string::npos);
  EXPECT_NE(message_of([&] { Gguf::open(folder.str()); }).find("not a regular file"), std::string::npos);
  EXPECT_NE(message_of([&] { Gguf::open("/dev/zero"); }).find("not a regular file"), std::string::npos);
}

TEST(Gguf, a_file_that_shrinks_while_open_is_a_message) {
  const ScratchFolder folder;
  SmallModel().write(folder / "m.gguf");
  const Gguf gguf = Gguf::open(folder / "m.gguf");
  const TensorInfo& last = gguf.tensors().back();
  std::filesystem::resize_file(folder / "m.gguf", last.offset + 1);
  std::vector<std::byte> bytes(last.size);
  const std::string message = message_of<RunError>([&] { gguf.read(last, 0, bytes); });
  EXPECT_NE(message.find("m.gguf: the file ends at offset"), std::string::npos) << message;
}

}  // namespace
}  // namespace vitro
