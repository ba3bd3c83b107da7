#include "engine/model/gguf_extend.hpp"

#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

TEST(GgufExtend, adds_and_replaces_and_leaves_the_rest) {
  ScratchFolder folder;
  const SmallModel model;
  model.write(folder / "in.gguf");
  const std::string bytes(2 * 3 * 4, 'x');
  write_file(folder / "new", bytes);
  extend_gguf(folder / "in.gguf", folder / "out.gguf", {{"general.name", std::string("other")}, {"vitro.extra", true}},
              {{"blk.0.attn_norm.weight", {6}, Format::f32, folder / "new"}, {"blk.0.fc1.weight", {4, 3}, Format::f16, folder / "new"}});
  const Gguf in = Gguf::open(folder / "in.gguf"), out = Gguf::open(folder / "out.gguf");
  EXPECT_EQ(out.text("general.name"), "other");
  EXPECT_TRUE(out.boolean("vitro.extra", false));
  EXPECT_EQ(out.values().size(), in.values().size() + 1);
  EXPECT_EQ(out.tensors().size(), in.tensors().size() + 1);
  const auto content = [](const Gguf& gguf, const std::string& name) {
    std::vector<std::byte> raw(gguf.find_tensor(name)->size);
    gguf.read(*gguf.find_tensor(name), 0, raw);
    return raw;
  };
  EXPECT_EQ(content(out, "blk.1.ffn_up.weight"), content(in, "blk.1.ffn_up.weight"));
  for (const char* added : {"blk.0.attn_norm.weight", "blk.0.fc1.weight"}) {
    EXPECT_EQ(std::memcmp(content(out, added).data(), bytes.data(), bytes.size()), 0) << added;
  }
}

TEST(GgufExtend, a_tensor_of_another_size_and_its_own_input_are_refused) {
  ScratchFolder folder;
  SmallModel().write(folder / "in.gguf");
  write_file(folder / "new", "1234");
  EXPECT_NE(message_of([&] {
              extend_gguf(folder / "in.gguf", folder / "out.gguf", {}, {{"t", {4}, Format::f16, folder / "new"}});
            }).find("4 bytes for tensor t (expected 8)"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "out.gguf"));
  EXPECT_NE(message_of([&] { extend_gguf(folder / "in.gguf", folder / "in.gguf", {}, {}); }).find("one file"), std::string::npos);
}

}  // namespace
}  // namespace vitro
