#include "engine/base/registry.hpp"

#include <gtest/gtest.h>

namespace vitro {
namespace {

struct Part {
  std::string name, description;
  int (*make)() = nullptr;
};

Registry<Part> two() {
  Registry<Part> parts;
  parts.add({"second", "comes first", [] { return 2; }});
  parts.add({"first", "comes second", [] { return 1; }});
  return parts;
}

TEST(Registry, parts_are_found_by_name_and_listed_in_the_order_in_which_they_came) {
  const Registry<Part> parts = two();
  EXPECT_EQ(parts.names(), (std::vector<std::string>{"second", "first"}));
  ASSERT_NE(parts.find("first"), nullptr);
  EXPECT_EQ(parts.find("first")->make(), 1);
  EXPECT_EQ(parts.find("second")->description, "comes first");
  EXPECT_EQ(parts.all().size(), 2u);
}

TEST(Registry, a_name_that_is_not_there_finds_nothing) {
  EXPECT_EQ(two().find("third"), nullptr);
  EXPECT_EQ(two().find(""), nullptr);
  EXPECT_EQ(two().find("firs"), nullptr) << "no part of a name";
  EXPECT_EQ(Registry<Part>().find("first"), nullptr);
}

TEST(Registry, a_name_is_given_once) {
  Registry<Part> parts = two();
  try {
    parts.add({"first", "another one"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "two parts are registered under the name \"first\"");
  }
  EXPECT_EQ(parts.all().size(), 2u);
  EXPECT_EQ(parts.find("first")->description, "comes second") << "the one that was there stays";
}

}  // namespace
}  // namespace vitro
