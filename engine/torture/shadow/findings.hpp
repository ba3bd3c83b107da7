// What shadow models found, for people.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace vitro {

// Keeps the first few: the others follow from them.
inline void add_finding(std::vector<std::string>& findings, std::string what) {
  constexpr std::size_t kMost = 4;
  if (findings.size() < kMost) findings.push_back(std::move(what));
}

}  // namespace vitro
