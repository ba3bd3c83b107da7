#include "hw_models/dram/address_map.hpp"

#include <gtest/gtest.h>

#include "engine/base/check.hpp"
#include "engine/base/rng.hpp"

namespace vitro::hw {
namespace {

TEST(AddressMap, every_mapping_is_one_to_one) {
  DramOrganisation org;
  org.ranks = 2;
  Rng rng(1);
  for (const std::string_view name : AddressMap::names()) {
    const AddressMap map(name, org);
    for (int i = 0; i < 1000; ++i) {
      const std::uint64_t address = rng.below(org.capacity() / 32) * 32;
      EXPECT_EQ(map.encode(map.decode(address)), address) << name;
    }
  }
}

TEST(AddressMap, channels_take_turns_by_the_line) {
  const AddressMap map("mop4", {});
  for (std::uint32_t line = 0; line < 16; ++line) EXPECT_EQ(map.decode(32 * line).channel, line % 4);
}

TEST(AddressMap, mop4_keeps_four_lines_of_a_channel_in_a_row_and_moves_on_to_the_next_group) {
  const AddressMap map("mop4", {});
  const auto at = [&](std::uint64_t n) { return map.decode(n * 128); };  // n-th line of channel 0
  for (std::uint64_t n = 0; n < 4; ++n) EXPECT_EQ(at(n).group, 0u);
  EXPECT_EQ(at(4).group, 1u);
  EXPECT_EQ(at(16).bank, 1u);
  EXPECT_EQ(at(64).column, 4u);
  EXPECT_EQ(at(1023).row, 0u);
  EXPECT_EQ(at(1024).row, 1u);
  EXPECT_EQ(at(1024).group, 1u);  // row 1 is XORed into the group
}

TEST(AddressMap, robaracoch_reads_a_row_to_its_end) {
  const AddressMap map("robaracoch", {});
  for (std::uint64_t n = 0; n < 64; ++n) EXPECT_EQ(map.decode(n * 128).column, n);
  EXPECT_EQ(map.decode(64 * 128).group, 1u);
  EXPECT_EQ(map.decode(64 * 128 * 16).row, 1u);
}

TEST(AddressMap, an_unknown_name_lists_the_known_ones) {
  try {
    AddressMap("mop8", {});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("\"mop8\" is unknown (expected one of: mop4, "), std::string::npos);
  }
}

TEST(AddressMap, three_channels_can_not_be_mapped) {
  DramOrganisation org;
  org.channels = 3;
  EXPECT_THROW(AddressMap("mop4", org), ConfigError);
}

}  // namespace
}  // namespace vitro::hw
