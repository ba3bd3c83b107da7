// CoreCosts: the cycles that a core needs for the arithmetic of a call. docs/design/cpu.md says where the tables come from.
#pragma once
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "hw_models/compute.hpp"
#include "hw_models/kernel_rates.hpp"
#include "hw_models/params.hpp"

namespace vitro::hw {

class CoreCosts {
 public:
  // Keys of a cluster that it reads; `tables` are by kernel set (or none), variant and weight format.
  static const std::vector<ParamSpec>& params();
  static const std::vector<std::string>& tables();

  explicit CoreCosts(const Params& params);

  KernelCost find(std::string_view variant, std::string_view format);
  double cycles(const Work& work) const;
  double without_runs(const Work& work) const;  // Work::cycles

 private:
  double product(const Work& work) const;
  // Of products that `rows` rows share what they meet.
  double passes(std::uint64_t macs, std::uint32_t rows, std::uint16_t kernel) const;
  std::optional<double> measured_product(const Work& work) const;
  double conversions(const Work& work) const;

  KernelRates one_;                  // multiply-adds per cycle where a single activation row meets the weights
  KernelTable batch_;                // the same where a pass takes two
  std::array<KernelTable, 4> more_;  // with 4 and 8 rows; with 16 and 64, too, where all were measured
  KernelTable conversions_;          // cycles per converted element within a product
  double elementwise_per_cycle_, conversions_per_cycle_, lookups_per_cycle_, cycles_per_run_;
};

}  // namespace vitro::hw
