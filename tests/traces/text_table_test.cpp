#include "traces/text_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

TEST(TextTable, the_same_text_has_the_same_number_however_many_there_are) {
  TextTable table;
  std::map<std::string, TextTable::Id> known;
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::string text(rng.next() % 3, 'x');
    const std::string named = text + std::to_string(rng.next() % 5'000);
    const auto [entry, is_new] = known.try_emplace(named, static_cast<TextTable::Id>(known.size()));
    ASSERT_EQ(table.add(named), entry->second);
  }
  EXPECT_GT(known.size(), 5'000u);
  for (const auto& [text, id] : known) ASSERT_EQ(table[id], text);
}

TEST(TextTable, texts_stay_where_they_are_and_may_be_empty) {
  TextTable table;
  EXPECT_EQ(table.add(""), 0u);
  const std::string* const first = &table[table.add("first")];
  for (int i = 0; i < 1'000; ++i) table.add(std::to_string(i));
  EXPECT_EQ(&table[table.add("first")], first);
  EXPECT_EQ(table.add(""), 0u);
}

}  // namespace
}  // namespace vitro
