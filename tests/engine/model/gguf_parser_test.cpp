#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <limits>
#include <set>

#include "engine/model/gguf.hpp"
#include "engine/model/packed_file.hpp"
#include "engine/model/quantize.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

using testing::HasSubstr;

// A GGUF file put together field by field, so that any of them can be wrong.
class Raw {
 public:
  template <class T>
  Raw& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Raw& u32(std::uint32_t v) { return number(v); }
  Raw& u64(std::uint64_t v) { return number(v); }
  Raw& text(std::string_view v) {
    u64(v.size());
    bytes_ += v;
    return *this;
  }
  Raw& header(std::uint64_t tensors, std::uint64_t values, std::uint32_t version = 3) {
    bytes_ += "GGUF";
    return u32(version).u64(tensors).u64(values);
  }
  Raw& key(std::string_view name, GgufType type) { return text(name).u32(static_cast<std::uint32_t>(type)); }
  Raw& tensor(std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t type, std::uint64_t offset) {
    text(name).u32(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t d : dims) u64(d);
    return u32(type).u64(offset);
  }
  Raw& data(std::size_t n) {
    bytes_.resize((bytes_.size() + 31) / 32 * 32 + n, 'd');
    return *this;
  }
  const std::string& str() const { return bytes_; }

 private:
  std::string bytes_;
};

std::string open_error(const std::string& bytes) {
  const ScratchFolder folder;
  write_file(folder / "hostile.gguf", bytes);
  return message_of([&] { Gguf::open(folder / "hostile.gguf"); });
}

void expect_refused(const Raw& file, std::string_view part) {
  const std::string message = open_error(file.str());
  EXPECT_NE(message.find(part), std::string::npos) << "wanted \"" << part << "\", got \"" << message << "\"";
  EXPECT_NE(message.find("hostile.gguf: "), std::string::npos) << message;
}

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

TEST(GgufParser, wrong_magic_and_versions_are_named) {
  expect_refused(Raw().u32(0).u64(0), "not a GGUF file");
  expect_refused(Raw(), "the file ends inside the magic number");
  expect_refused(Raw().header(0, 0, 1), "GGUF version 1");
  expect_refused(Raw().header(0, 0, 0x03000000), "big-endian");
  EXPECT_EQ(open_error(Raw().u32(0x49525750).u32(3).u64(0).u64(0).str()), "");  // PowerInfer
  EXPECT_EQ(open_error(Raw().header(0, 0).str()), "");
}

TEST(GgufParser, counts_and_lengths_beyond_the_file_are_refused_before_use) {
  for (const std::uint64_t n : {kHuge, kHuge - 7, kHuge / 8 + 2, std::uint64_t{1} << 62, std::uint64_t{1} << 32, std::uint64_t{1} << 20}) {
    expect_refused(Raw().header(0, n), "keys can not fit");
    expect_refused(Raw().header(n, 0), "tensors can not fit");
    expect_refused(Raw().header(0, 1).u64(n).u64(0).u64(0), "a key of");
    expect_refused(Raw().header(0, 1).key("k", GgufType::string).u64(n).u64(0), "a string of");
    for (const GgufType type : {GgufType::u8, GgufType::f64, GgufType::string, GgufType::boolean}) {
      expect_refused(Raw().header(0, 1).key("k", GgufType::array).u32(static_cast<std::uint32_t>(type)).u64(n).u64(0), "an array of");
    }
    expect_refused(Raw().header(1, 0).u64(n).u64(0).u64(0).u64(0).u64(0), "a tensor name of");
    expect_refused(Raw().header(1, 0).tensor("t", {n}, 0, 0).data(64), "larger than the file");
    expect_refused(Raw().header(1, 0).tensor("t", {4, n, 2}, 0, 0).data(64), "larger than the file");
  }
  expect_refused(Raw().header(1, 0).tensor("t", {4, 4, 2, 2}, 0, 0).data(64), "the file ends before the data of tensor t");
  expect_refused(Raw().header(1, 0).tensor("t", {4}, 0, kHuge - 31).data(64), "the file ends before the data");
  expect_refused(Raw().header(1, 0).tensor("t", {4}, 0, 64).data(64), "the file ends before the data");
  expect_refused(Raw().header(1, 0).tensor("t", {4}, 0, 0), "the file ends before its tensor data");
}

TEST(GgufParser, wrong_values_are_named) {
  expect_refused(Raw().header(0, 1).key("k", static_cast<GgufType>(13)).u64(0), "unknown value type 13");
  expect_refused(Raw().header(0, 1).key("k", GgufType::array).u32(9).u64(1).u64(0), "arrays of arrays");
  expect_refused(Raw().header(0, 1).key("k", GgufType::array).u32(99).u64(1).u64(0), "unknown value type 99");
  expect_refused(Raw().header(0, 1).key("k", GgufType::boolean).number(std::uint8_t{2}), "a boolean has the value 2");
  expect_refused(Raw().header(0, 1).key("k", GgufType::array).u32(7).u64(2).number(std::uint16_t{0x0201}), "neither 0 nor 1");
  expect_refused(Raw().header(0, 1).key("", GgufType::u32).u32(1), "a key is empty");
  expect_refused(Raw().header(0, 2).key("k", GgufType::u32).u32(1).key("k", GgufType::u32).u32(1), "key k is given twice");
  expect_refused(Raw().header(0, 1).text(std::string(70000, 'k')).u64(0), "longer than 65535");
}

TEST(GgufParser, wrong_alignments_are_refused) {
  for (const std::uint32_t alignment : {0u, 3u, 48u, 0xffffffffu}) {
    expect_refused(Raw().header(0, 1).key("general.alignment", GgufType::u32).u32(alignment), "general.alignment");
  }
  expect_refused(Raw().header(0, 1).key("general.alignment", GgufType::string).text("32"), "general.alignment");
  expect_refused(Raw().header(1, 0).tensor("t", {4}, 0, 8).data(64), "offset 8 is not a multiple of 32");
  expect_refused(Raw().header(1, 1).key("general.alignment", GgufType::u32).u32(1u << 30).tensor("t", {4}, 0, 0).data(64),
                 "before its tensor data");
}

TEST(GgufParser, wrong_tensors_are_named) {
  expect_refused(Raw().header(1, 0).tensor("t", {}, 0, 0).data(64), "tensor t: 0 dimensions");
  expect_refused(Raw().header(1, 0).tensor("t", {1, 1, 1, 1, 1}, 0, 0).data(64), "tensor t: 5 dimensions");
  expect_refused(Raw().header(1, 0).tensor("t", {4, 0}, 0, 0).data(64), "tensor t: a dimension is zero");
  expect_refused(Raw().header(1, 0).tensor("t", {4}, 3, 0).data(64), "tensor t: type 3 is not supported");
  expect_refused(Raw().header(1, 0).tensor("t", {33}, 8, 0).data(64), "not whole q8_0 blocks of 32");
  expect_refused(Raw().header(1, 0).tensor("", {4}, 0, 0).data(64), "no name");
  expect_refused(Raw().header(2, 0).tensor("t", {4}, 0, 0).tensor("t", {4}, 0, 32).data(64), "tensor t: given twice");
  expect_refused(Raw().header(2, 0).tensor("a", {16}, 0, 0).tensor("b", {4}, 0, 32).data(64), "tensors a and b overlap");
  expect_refused(Raw().header(2, 0).tensor("a", {4}, 0, 0).tensor("b", {4}, 0, 0).data(64), "overlap");
  EXPECT_EQ(open_error(Raw().header(2, 0).tensor("a", {8}, 0, 32).tensor("b", {8}, 0, 0).data(64).str()), "");
}

SmallModel tiny_model() {
  SmallModel model;
  model.config.layers = 1, model.config.width = 16, model.config.heads = 2, model.config.kv_heads = 1, model.config.head_dim = 8;
  model.config.ffn = 8, model.config.vocab = 4, model.config.rope.dims = 8;
  return model;
}

TEST(GgufParser, every_format_of_weights_has_a_type_of_its_own) {
  std::set<std::uint32_t> ids;
  for (const Format format : all_formats()) {
    if (!format.is_for_weights()) continue;
    EXPECT_EQ(format_of_gguf_type(gguf_type_id(format)), format) << to_string(format);
    EXPECT_TRUE(ids.insert(gguf_type_id(format)).second) << to_string(format);
  }
  EXPECT_EQ(gguf_type_id(Format::iq4_nl), 20u);  // these are in files
  EXPECT_EQ(gguf_type_id(Format::fp4), 0x56540001u);
  EXPECT_EQ(gguf_type_id(Format::w(2, 64)), 0x56542040u);
  EXPECT_EQ(gguf_type_id(Format::w(4, 128, 'z')), 0x56544880u);
  EXPECT_EQ(gguf_type_id(Format::w(2, 128, 'r')), 0x56542480u);
  for (const std::uint32_t id : {0x56540000u, 0x56540005u, 0x56542000u, 0x56542060u, 0x56545020u, 0x56550000u, 1000u}) {
    EXPECT_EQ(format_of_gguf_type(id), std::nullopt) << id;
  }
}

TEST(GgufParser, rows_of_codebooks_are_whole_blocks_of_256) {
  const std::uint32_t type = gguf_type_id(Format::iq1_s);
  expect_refused(Raw().header(1, 0).tensor("t", {128, 4}, type, 0).data(200), "rows of 128 elements are not whole iq1_s blocks of 256");
  expect_refused(Raw().header(1, 0).tensor("t", {256, 4}, type, 0).data(4 * 50 - 1), "ends before the data");
  EXPECT_EQ(open_error(Raw().header(1, 0).tensor("t", {256, 4}, type, 0).data(4 * 50).str()), "");
}

TEST(GgufParser, rows_of_groups_are_whole_groups_and_a_bit_per_weight_is_enough) {
  const std::uint32_t type = gguf_type_id(Format::w(1, 128));
  expect_refused(Raw().header(1, 0).tensor("t", {96, 4}, type, 0).data(6), "rows of 96 elements are not whole w1g128 blocks of 128");
  expect_refused(Raw().header(1, 0).tensor("t", {128, 4}, type, 0).data(4 * 18 - 1), "ends before the data");
  EXPECT_EQ(open_error(Raw().header(1, 0).tensor("t", {128, 4}, type, 0).data(4 * 18).str()), "");
  expect_refused(Raw().header(1, 0).tensor("t", {128, 4}, 0x56549999, 0).data(72), "is not supported");
  const std::uint32_t tiles = gguf_type_id(Format::q4_0_tile);
  expect_refused(Raw().header(1, 0).tensor("t", {64, 48}, tiles, 0).data(48 * 36),
                 "48 rows of 64 elements are not whole groups of q4_0_tile (expected multiples of 32 and 64)");
  expect_refused(Raw().header(1, 0).tensor("t", {96, 32}, tiles, 0).data(32 * 54), "are not whole groups");
  expect_refused(Raw().header(1, 0).tensor("t", {64, 16, 2}, tiles, 0).data(32 * 36), "16 rows of 64");
  expect_refused(Raw().header(1, 0).tensor("t", {64, 32}, tiles, 0).data(32 * 36 - 1), "ends before the data");
  EXPECT_EQ(open_error(Raw().header(1, 0).tensor("t", {64, 32}, tiles, 0).data(32 * 36).str()), "");
}

// A position has 16 bits. 96 columns: one outlier, 8 bytes with the scales, and 48 of nibbles.
TEST(GgufParser, rows_with_outliers_have_their_own_length_and_most_columns) {
  const std::uint32_t type = gguf_type_id(Format::w4_outliers);
  EXPECT_EQ(open_error(Raw().header(1, 0).tensor("t", {96, 3}, type, 0).data(3 * 56).str()), "");
  expect_refused(Raw().header(1, 0).tensor("t", {96, 3}, type, 0).data(3 * 56 - 1), "ends before the data");
  expect_refused(Raw().header(1, 0).tensor("t", {48, 3}, type, 0).data(3 * 56),
                 "rows of 48 elements are not whole w4_outliers blocks of 32");
  expect_refused(Raw().header(1, 0).tensor("t", {65568, 1}, type, 0).data(65568),
                 "rows of 65568 elements are too long for w4_outliers (expected 65536 or less)");
}

// A model whose blk.1.ffn_up.weight is damaged, and what is said of it wherever its weights are used.
void expect_damage(Format format, const std::function<void(char*)>& damage, const std::string& said) {
  const ScratchFolder folder;
  SmallModel model;
  model.matrices = format;
  model.write(folder / "m.gguf");
  std::string bytes = read_file(folder / "m.gguf");
  const Gguf whole = Gguf::open(folder / "m.gguf");
  const TensorInfo& up = *whole.find_tensor("blk.1.ffn_up.weight");
  EXPECT_NO_THROW(whole.check_blocks(up));
  damage(&bytes[up.offset]);
  write_file(folder / "bad.gguf", bytes);
  const std::string message = "bad.gguf: blk.1.ffn_up.weight: damaged: " + said;
  EXPECT_THAT(message_of([&] { quantize(folder / "bad.gguf", folder / "q.gguf", "q8_0"); }), HasSubstr(message));
  const Gguf bad = Gguf::open(folder / "bad.gguf");
  for (const char* layout : {"rows", "bundles", "lut"}) {
    EXPECT_THAT(message_of([&] { pack(bad, pack_options_of(layout), folder / "cache"); }), HasSubstr(message)) << layout;
  }
}

TEST(GgufParser, a_zero_point_that_is_no_code_is_refused_where_weights_are_used) {
  expect_damage(
      Format::w(1, 32, 'z'), [](char* up) { up[block_bytes(Format::w(1, 32, 'z')) + 2] = 3; },
      "block 1 has the zero point 3 (expected 0 to 1, the codes of w1g32z)");
}

// Scales are binary16: the two blocks of row 3 get 1 and 2.
TEST(GgufParser, a_row_of_two_scales_is_refused_where_weights_are_used_if_its_format_has_one) {
  const auto damage = [](char* up) {
    for (const int block : {6, 7}) {
      char* const scale = up + block * block_bytes(Format::w(2, 32, 'r'));
      scale[0] = 0;
      scale[1] = block == 6 ? 0x3c : 0x40;
    }
  };
  expect_damage(Format::w(2, 32, 'r'), damage, "row 3 begins with the scale 1 and its block 1 has 2 (expected one per row, as w2g32r has)");
}

TEST(GgufParser, a_row_of_two_zero_points_is_refused_where_weights_are_used_if_its_format_has_one) {
  const Format format = Format::w(4, 32, "zr");
  const auto damage = [&](int block, char zero) {
    return [=](char* up) { up[static_cast<std::size_t>(block) * block_bytes(format) + 2] = zero; };
  };
  expect_damage(format, damage(7, 5),
                "row 3 begins with the zero point 8 and its block 1 has 5 (expected one per row below 16, as w4g32zr has)");
  expect_damage(format, damage(0, 16), "row 0 begins with the zero point 16 and its block 0 has 16");
}

// Whatever prefix of a good file is left: a message, never a crash, and never a file that looks whole.
TEST(GgufParser, a_file_cut_at_any_byte_is_refused) {
  const ScratchFolder folder;
  SmallModel model = tiny_model();
  model.extra = {{"tokenizer.ggml.tokens", gguf_array({"a", "bc", ""})}};
  model.write(folder / "whole.gguf");
  Bytes data = 0, end = 0;
  {
    const Gguf gguf = Gguf::open(folder / "whole.gguf");
    data = gguf.data_offset();
    end = gguf.tensors().back().offset + gguf.tensors().back().size;
  }
  for (Bytes n = end; n > 0;) {
    n -= n > data + 64 ? std::min<Bytes>(97, n - data) : 1;
    std::filesystem::resize_file(folder / "whole.gguf", n);
    EXPECT_NE(message_of([&] { Gguf::open(folder / "whole.gguf"); }), "") << n;
  }
}

// No flip of one header bit may do worse than a message or another readable file.
TEST(GgufParser, any_flipped_bit_in_the_header_is_survived) {
  const ScratchFolder folder;
  SmallModel model = tiny_model();
  model.write(folder / "whole.gguf");
  const Bytes header = Gguf::open(folder / "whole.gguf").data_offset();
  std::fstream file(folder / "whole.gguf", std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](Bytes at, int value) {
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(value));
    file.flush();
  };
  std::size_t refused = 0;
  for (Bytes at = 0; at < header; ++at) {
    file.seekg(static_cast<std::streamoff>(at));
    const int good = file.get();
    for (const int bit : {0, 5, 7}) {
      put(at, good ^ (1 << bit));
      refused += !message_of([&] { config_from_gguf(Gguf::open(folder / "whole.gguf")); }).empty();
    }
    put(at, good);
  }
  EXPECT_EQ(message_of([&] { config_from_gguf(Gguf::open(folder / "whole.gguf")); }), "");
  EXPECT_GT(refused, header);
}

}  // namespace
}  // namespace vitro
