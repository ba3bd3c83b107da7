#include "engine/base/units.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/hash.hpp"
#include "engine/base/rng.hpp"

namespace vitro {
namespace {

struct Good {
  const char* text;
  Dimension dimension;
  double value;
};

TEST(Quantity, units_scale_to_the_base_unit) {
  const Good all[] = {{"59.6 GB/s", Dimension::bandwidth, 59.6e9},
                      {"8 MiB", Dimension::bytes, 8388608},
                      {"1 GB", Dimension::bytes, 1e9},
                      {"1 GiB", Dimension::bytes, 1073741824},
                      {"15us", Dimension::time, 15e-6},
                      {" 3.3 GHz ", Dimension::frequency, 3.3e9},
                      {"50%", Dimension::ratio, 0.5},
                      {"1e3 ns", Dimension::time, 1e-6},
                      {"-2 degC", Dimension::temperature, -2},
                      {"1 pJ/bit", Dimension::energy_per_byte, 8e-12},
                      {"0.25", Dimension::none, 0.25}};
  for (const Good& good : all) {
    double value = -1;
    EXPECT_TRUE(parse_quantity(good.text, good.dimension, value)) << good.text;
    EXPECT_DOUBLE_EQ(value, good.value) << good.text;
  }
}

TEST(Quantity, what_is_no_quantity_leaves_the_result_alone) {
  const std::pair<const char*, Dimension> bad[] = {
      {"2.1", Dimension::bandwidth}, {"2.1 GB", Dimension::bandwidth}, {"GB/s", Dimension::bandwidth}, {"", Dimension::time},
      {"1 s s", Dimension::time},    {"1,5 s", Dimension::time},       {"nan s", Dimension::time},     {"inf B", Dimension::bytes},
      {"1 mib", Dimension::bytes},   {"0x10 B", Dimension::bytes},     {"5 %", Dimension::bytes},      {"1 B", Dimension::none}};
  for (const auto& [text, dimension] : bad) {
    double value = 42;
    EXPECT_FALSE(parse_quantity(text, dimension, value)) << text;
    EXPECT_EQ(value, 42) << text;
  }
}

TEST(Time, work_never_takes_no_time) {
  EXPECT_EQ(transfer_time(1, {1e15}), Picoseconds(1));
  EXPECT_EQ(transfer_time(0, {1e9}), Picoseconds(0));
  EXPECT_EQ(transfer_time(1'000'000'000, {1e9}), Picoseconds(1'000'000'000'000));
  EXPECT_EQ(from_seconds(1.5e-12), Picoseconds(2));
  EXPECT_EQ(from_seconds(-1), Picoseconds(-1'000'000'000'000));
}

TEST(Time, seconds_are_rounded_as_the_library_rounds) {
  Rng rng(3);
  for (int i = 0; i < 100'000; ++i) {
    const double scale = std::ldexp(1e-12, static_cast<int>(rng.next() % 60));
    const double seconds = (2 * to_unit(rng.next()) - 1) * scale;
    ASSERT_EQ(from_seconds(seconds).count(), std::llround(seconds * 1e12)) << seconds;
    const double half = (static_cast<double>(rng.next() % 1000) - 500.5) * 1e-12;
    ASSERT_EQ(from_seconds(half).count(), std::llround(half * 1e12)) << half;
  }
}

TEST(Rounding, goes_to_the_step) {
  EXPECT_EQ(round_up(0, 4096), 0u);
  EXPECT_EQ(round_up(1, 4096), 4096u);
  EXPECT_EQ(round_up(4096, 4096), 4096u);
  EXPECT_EQ(round_down(4095, 4096), 0u);
}

TEST(Formats, are_short_and_have_their_unit) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(3 * GiB / 2), "1.50 GiB");
  EXPECT_EQ(format_time(Picoseconds(12'300'000)), "12.300 us");
  EXPECT_EQ(format_time(Picoseconds(1'500)), "1.5 ns");
}

// Published FNV-1a 64-bit vectors.
TEST(Formats, of_quantities_are_the_shortest_that_mean_the_same) {
  EXPECT_EQ(format_quantity(128.0 * KiB, Dimension::bytes), "128 KiB");
  EXPECT_EQ(format_quantity(4096, Dimension::bytes), "4 KiB");
  EXPECT_EQ(format_quantity(5e8, Dimension::bytes), "500 MB");
  EXPECT_EQ(format_quantity(15e-6, Dimension::time), "15 us");
  EXPECT_EQ(format_quantity(0, Dimension::time), "0 s");
  EXPECT_EQ(format_quantity(59.6e9, Dimension::bandwidth), "59.6 GB/s");
  EXPECT_EQ(format_quantity(0.07, Dimension::ratio), "7%");
  EXPECT_EQ(format_quantity(0.1, Dimension::none), "0.1");
  for (double value = 1.0 / 3; value < 1e18; value *= 7.77) {
    double read = 0;
    ASSERT_TRUE(parse_quantity(format_quantity(value, Dimension::bandwidth), Dimension::bandwidth, read));
    EXPECT_DOUBLE_EQ(read, value);
  }
}

TEST(Hash, is_fnv_1a) {
  EXPECT_EQ(Hash().value(), 0xcbf29ce484222325u);
  Hash a, foobar;
  a.add("a");
  foobar.add("foobar");
  EXPECT_EQ(a.value(), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(foobar.hex(), "85944171f73967e8");
}

TEST(Hash, tells_words_and_their_order_apart) {
  Hash ab, ba;
  ab.add(std::uint64_t{1});
  ab.add(std::uint64_t{2});
  ba.add(std::uint64_t{2});
  ba.add(std::uint64_t{1});
  EXPECT_NE(ab.value(), ba.value());
}

}  // namespace
}  // namespace vitro
