#include "engine/parts/placement/useful_threads.hpp"

#include <gtest/gtest.h>

namespace vitro {
namespace {

TEST(UsefulThreads, a_thread_has_to_have_enough_of_a_phase) {
  EXPECT_EQ(useful_threads(6 * MiB, 8, 8), 1u);
  EXPECT_EQ(useful_threads(34 * 600 * KiB, 8, 8), 2u);
  EXPECT_EQ(useful_threads(GiB, 16, 4), 4u) << "no more than there are";
}

}  // namespace
}  // namespace vitro
