#include "engine/model/gguf_writer.hpp"

#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

TEST(GgufWriter, an_abandoned_file_leaves_nothing_behind) {
  const ScratchFolder folder;
  {
    GgufWriter out(folder / "a.gguf");
    out.add_tensor("t", {4}, Format::f32);
    out.write(std::vector<std::byte>(8));
  }
  EXPECT_EQ(folder.files(), 0u);
}

TEST(GgufWriter, tensors_are_aligned_and_padded) {
  const ScratchFolder folder;
  GgufWriter out(folder / "a.gguf", 256);
  out.add_tensor("one", {1}, Format::f32);
  out.add_tensor("two", {1}, Format::f32);
  out.write(std::vector<std::byte>(4));
  out.write(std::vector<std::byte>(4));
  out.commit();
  const Gguf gguf = Gguf::open(folder / "a.gguf");
  EXPECT_EQ(gguf.data_offset() % 256, 0u);
  EXPECT_EQ(gguf.tensors()[1].offset - gguf.tensors()[0].offset, 256u);
  EXPECT_EQ(gguf.file_size() % 256, 0u);
}

}  // namespace
}  // namespace vitro
