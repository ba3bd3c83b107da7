#include "hw_models/power/power.hpp"

namespace vitro::hw {
namespace {

constexpr ParamSpec kParams[] = {
    {"base", Dimension::power, "", ""},
    {"dram_byte", Dimension::energy_per_byte, "", ""},
    {"flash_byte", Dimension::energy_per_byte, "", ""},
};

Params read_params(Reader& reader) {
  Params params(reader, kParams);
  params.add_table(reader, "active_watts", true);
  return params;
}

}  // namespace

FlowPower::FlowPower(Reader& reader)
    : params_(read_params(reader)),
      base_(params_.watts("base")),
      dram_byte_(params_.joules_per_byte("dram_byte")),
      flash_byte_(params_.joules_per_byte("flash_byte")) {}

double FlowPower::active_watts(std::string_view core_class) const {
  const ParamTable& watts = params_.table("active_watts");
  const auto found = watts.values.find(core_class);
  return found == watts.values.end() ? 0 : found->second;
}

double FlowPower::energy(Picoseconds window, double unit_joules, double dram_bytes, double flash_bytes) const {
  return base_ * to_seconds(window) + unit_joules + dram_bytes * dram_byte_ + flash_bytes * flash_byte_;
}

double FlowPower::peak(double unit_watts, double dram_bytes_per_second) const {
  return base_ + unit_watts + dram_bytes_per_second * dram_byte_;
}

}  // namespace vitro::hw
