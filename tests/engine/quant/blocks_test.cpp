#include "engine/quant/blocks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "engine/base/rng.hpp"
#include "tests/source_path.hpp"

namespace vitro {
namespace {

struct Record {
  std::vector<float> values;
  std::vector<std::byte> bytes;
};

// fixture.bin, written by fixture.py from the gguf Python package.
std::map<std::string, Record> fixture() {
  std::ifstream in(test::source_path("tests/engine/quant/fixture.bin"), std::ios::binary);
  std::map<std::string, Record> records;
  const auto count = [&] {
    std::uint32_t n = 0;
    in.read(reinterpret_cast<char*>(&n), sizeof n);
    return n;
  };
  while (in.peek() != EOF) {
    std::string name(count(), '\0');
    in.read(name.data(), static_cast<std::streamsize>(name.size()));
    Record& r = records[name];
    r.values.resize(count());
    in.read(reinterpret_cast<char*>(r.values.data()), static_cast<std::streamsize>(4 * r.values.size()));
    r.bytes.resize(count());
    in.read(reinterpret_cast<char*>(r.bytes.data()), static_cast<std::streamsize>(r.bytes.size()));
  }
  return records;
}

const std::map<std::string, Format> kFormats{{"f16", Format::f16},   {"bf16", Format::bf16},    {"q8_0", Format::q8_0},
                                             {"q4_0", Format::q4_0}, {"q4_k", Format::q4_k},    {"q5_k", Format::q5_k},
                                             {"q6_k", Format::q6_k}, {"iq4_nl", Format::iq4_nl},
                                             {"iq4_xs", Format::iq4_xs},
                                             {"iq1_s", Format::iq1_s},
                                             {"iq1_m", Format::iq1_m},
                                             {"iq2_xxs", Format::iq2_xxs},
                                             {"iq2_xs", Format::iq2_xs},
                                             {"iq2_s", Format::iq2_s},
                                             {"iq3_xxs", Format::iq3_xxs},
                                             {"iq3_s", Format::iq3_s}};

TEST(Blocks, agree_with_the_gguf_package_to_the_bit) {
  const auto records = fixture();
  ASSERT_EQ(records.size(), 18u);
  for (const auto& [name, record] : records) {
    const Format format = kFormats.at(name.substr(name.find('/') + 1));
    ASSERT_EQ(record.bytes.size(), row_bytes(format, record.values.size())) << name;
    if (name.starts_with("quantise/")) {
      std::vector<std::byte> got(record.bytes.size());
      quantise_row(format, record.values.data(), got.data(), record.values.size());
      EXPECT_EQ(got, record.bytes) << name;
    } else {
      std::vector<float> got(record.values.size());
      dequantise_row(format, record.bytes.data(), got.data(), got.size());
      EXPECT_EQ(std::memcmp(got.data(), record.values.data(), 4 * got.size()), 0) << name;
    }
  }
}

TEST(Blocks, sizes_are_those_of_the_formats) {
  EXPECT_EQ(row_bytes(Format::f32, 7), 28u);
  EXPECT_EQ(row_bytes(Format::q4_0, 64), 36u);
  EXPECT_EQ(row_bytes(Format::q8_0, 64), 68u);
  EXPECT_EQ(row_bytes(Format::q4_k, 256), 144u);
  EXPECT_EQ(row_bytes(Format::q5_k, 256), 176u);
  EXPECT_EQ(row_bytes(Format::q6_k, 512), 420u);
}

TEST(Blocks, quantising_errs_by_at_most_half_a_step) {
  Rng rng(5);
  std::vector<float> x(4096), y(x.size());
  for (float& v : x) v = static_cast<float>(rng.normal());
  for (const Format format : {Format::q8_0, Format::q4_0}) {
    std::vector<std::byte> bytes(row_bytes(format, x.size()));
    quantise_row(format, x.data(), bytes.data(), x.size());
    dequantise_row(format, bytes.data(), y.data(), y.size());
    for (std::size_t b = 0; b < x.size(); b += kBlock) {
      float largest = 0;
      for (std::size_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::abs(x[b + i]));
      // Half a step, or the whole one that q4_0 loses at the end opposite to its largest value; the fp16 scale adds 2^-11.
      const float step = format == Format::q8_0 ? largest / 127 / 2 : largest / 8;
      for (std::size_t i = 0; i < kBlock; ++i) EXPECT_LE(std::abs(x[b + i] - y[b + i]), step + largest * 0x1p-11f);
    }
  }
}

TEST(Blocks, blocks_too_small_for_a_scale_become_zero) {
  for (const float tiny : {1e-45f, 1e-40f, 1e-38f, 1e-12f}) {
    const std::vector<float> x(kBlock, -tiny);
    for (const Format format : {Format::q8_0, Format::q4_0}) {
      std::vector<std::byte> bytes(block_bytes(format));
      std::vector<float> y(kBlock);
      quantise_row(format, x.data(), bytes.data(), kBlock);
      dequantise_row(format, bytes.data(), y.data(), kBlock);
      for (const float v : y) EXPECT_EQ(v, 0) << tiny;
    }
  }
}

TEST(Blocks, nibbles_and_scales_apart_are_the_values_of_q4_0) {
  std::vector<float> values(96), whole(96), apart(96);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i * i)) * static_cast<float>(1 + i / 32);
  std::vector<std::byte> row(row_bytes(Format::q4_0, 96)), nibbles(row_bytes(Format::q4_nibbles, 96)), scales(6);
  quantise_row(Format::q4_0, values.data(), row.data(), 96);
  split_q4_0(row.data(), 96, nibbles.data(), scales.data());
  dequantise_row(Format::q4_0, row.data(), whole.data(), 96);
  dequantise_nibbles(nibbles.data(), scales.data(), apart.data(), 96);
  EXPECT_EQ(whole, apart);
  EXPECT_NE(whole[1], 0);
}

}  // namespace
}  // namespace vitro
