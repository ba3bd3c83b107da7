// What a device file's table says of a (kernel variant, weight format), looked up once per pair.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw_models/compute.hpp"
#include "hw_models/params.hpp"

namespace vitro::hw {

// Gives out numbers for "variant.format", in the order in which they are first asked for: tables that are asked alike number
// alike. `section`: entries under that key of the table come before those that stand in the table itself.
class KernelTable {
 public:
  explicit KernelTable(const ParamTable& table, std::string_view section = {}) : table_(table), section_(section) {}

  std::uint16_t find(std::string_view variant, std::string_view format) {
    std::string key = std::string(variant) + "." + std::string(format);
    for (std::size_t i = 0; i < known_.size(); ++i) {
      if (known_[i].key == key) return static_cast<std::uint16_t>(i);
    }
    auto entry = table_.values.find(section_ + "." + key);
    if (entry == table_.values.end()) entry = table_.values.find(key);
    known_.push_back({std::move(key), entry == table_.values.end() ? std::nullopt : std::optional<double>(entry->second)});
    return static_cast<std::uint16_t>(known_.size() - 1);
  }
  std::optional<double> at(std::uint16_t id) const { return known_.at(id).value; }

 private:
  struct Known {
    std::string key;
    std::optional<double> value;
  };
  const ParamTable& table_;
  std::string section_;
  std::vector<Known> known_;
};

// Multiply-adds per cycle or per second; what the table lacks gets the general rate.
class KernelRates {
 public:
  KernelRates(const ParamTable& table, double general, std::string_view section = {}) : table_(table, section), general_(general) {}

  KernelCost find(std::string_view variant, std::string_view format) {
    const std::uint16_t id = table_.find(variant, format);
    return {id, table_.at(id).value_or(0) > 0};
  }
  // Seconds or cycles, in the inverse of the table's unit. A call without multiply-adds needs no number.
  double time(double macs, std::uint16_t id) const {
    if (macs == 0) return 0;
    const double rate = table_.at(id).value_or(0);
    return macs / (rate > 0 ? rate : general_);
  }

 private:
  KernelTable table_;
  double general_;
};

}  // namespace vitro::hw
