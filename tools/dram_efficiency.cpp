// Writes the rows of hw_models/dram/efficiency_table.cpp: what derive_flow_efficiency() measures on the detailed model of every part.
//
//     cmake --build build/release --target dram_efficiency && build/release/hw_models/dram_efficiency [PART]... > rows
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "hw_models/dram/efficiency.hpp"

int main(int count, char** names) {
  using namespace vitro::hw;
  std::vector<FlowEfficiency> derived;
  for (const DramPart& part : dram_parts()) {
    const bool asked = count == 1 || std::find(names + 1, names + count, part.name) != names + count;
    if (asked) derived.push_back(derive_flow_efficiency(part, "mop4", {}));
  }
  for (std::size_t row = 0; !derived.empty() && row < derived[0].entries().size(); ++row) {
    std::string values;
    const std::string& key = derived[0].entries()[row].first;
    for (const FlowEfficiency& part : derived) {
      const double value = part.entries()[row].second;
      values += values.empty() ? "" : ", ";
      values += key == "sequential" ? fmt::format("{:.4g}e9", value * 1e-9) : fmt::format("{:.4g}", value);
    }
    fmt::print("    {{\"{}\", {{{}}}}},\n", key, values);
  }
}
