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

void FlowPower::unit_active(std::string_view core_class, Picoseconds begin, Picoseconds end) {
  const ParamTable& watts = params_.table("active_watts");
  const auto found = watts.values.find(core_class);
  if (found != watts.values.end()) units_.add(begin, end, found->second * to_seconds(end - begin));
}

double FlowPower::energy(Picoseconds begin, Picoseconds end, double dram_bytes, double flash_bytes) const {
  return base_ * to_seconds(end - begin) + units_.sum(begin, end) + dram_bytes * dram_byte_ + flash_bytes * flash_byte_;
}

double FlowPower::peak(Picoseconds begin, Picoseconds end, double dram_rate) const {
  return base_ + units_.peak_rate(begin, end) + dram_rate * dram_byte_;
}

}  // namespace vitro::hw
