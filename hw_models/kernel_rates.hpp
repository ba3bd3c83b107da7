// Throughput by (kernel variant, weight format), from a device file's table.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hw_models/compute.hpp"
#include "hw_models/params.hpp"

namespace vitro::hw {

// Looks up "variant.format" once per pair and hands out numbers for it; what the table lacks gets the general rate.
class KernelRates {
 public:
  KernelRates(const ParamTable& table, double general) : table_(table), general_(general) {}

  KernelPrice find(std::string_view variant, std::string_view format) {
    std::string key = std::string(variant) + "." + std::string(format);
    for (std::size_t i = 0; i < known_.size(); ++i) {
      if (known_[i].key == key) return {static_cast<std::uint16_t>(i), known_[i].from_table};
    }
    const auto entry = table_.values.find(key);
    const bool found = entry != table_.values.end() && entry->second > 0;
    known_.push_back({std::move(key), found ? entry->second : general_, found});
    return {static_cast<std::uint16_t>(known_.size() - 1), found};
  }
  // Seconds or cycles, in the inverse of the table's unit. A call without multiply-adds needs no number.
  double time(double macs, std::uint16_t id) const { return macs == 0 ? 0 : macs / known_.at(id).rate; }

 private:
  struct Known {
    std::string key;
    double rate = 0;
    bool from_table = false;
  };
  const ParamTable& table_;
  double general_;
  std::vector<Known> known_;
};

}  // namespace vitro::hw
