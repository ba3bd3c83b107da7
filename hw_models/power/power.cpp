#include "hw_models/power/power.hpp"

#include <fmt/format.h>

#include "hw_models/power/load_governor.hpp"
#include "hw_models/power/thermal.hpp"

namespace vitro::hw {
namespace {

constexpr ParamSpec kParams[] = {
    {"base", Dimension::power, "", ""},
    {"dram_byte", Dimension::energy_per_byte, "", ""},  // read
    {"dram_write_byte", Dimension::energy_per_byte, "40 pJ/B", "5 pJ/bit, as for reads: array and link work as hard either way"},
    {"flash_byte", Dimension::energy_per_byte, "", ""},  // read
    {"flash_write_byte", Dimension::energy_per_byte, "625 pJ/B", "the power of a UFS 4.0 read at the vendor's 2.8 GB/s of writes"},
    {"voltage_floor", Dimension::ratio, "60%", "supply voltage towards the lowest clocks, of that at the highest"},
};

Params read_params(Reader& reader) {
  Params params(reader, kParams);
  params.add_table(reader, "active_watts", true);
  params.add_table(reader, "idle_watts", false);
  params.add_table(reader, "stalled_share", false);
  params.add_table(reader, "collapse_after_us", false);
  return params;
}

double value_of(const ParamTable& table, std::string_view core_class, double otherwise) {
  const auto found = table.values.find(core_class);
  return found == table.values.end() ? otherwise : found->second;
}

}  // namespace

FlowPower::FlowPower(Reader& reader)
    : params_(read_params(reader)),
      base_(params_.watts("base")),
      dram_read_(params_.joules_per_byte("dram_byte")),
      dram_write_(params_.joules_per_byte("dram_write_byte")),
      flash_read_(params_.joules_per_byte("flash_byte")),
      flash_write_(params_.joules_per_byte("flash_write_byte")),
      voltage_floor_(params_.ratio("voltage_floor")) {
  if (voltage_floor_ > 1) reader.fail("voltage_floor", "is above the voltage at full clock (expected 100% or less)");
  for (const auto& [core_class, share] : params_.table("stalled_share").values) {
    if (share > 1) reader.fail("stalled_share", fmt::format("of {} is {:g} (expected a share, 1 or less)", core_class, share));
  }
  if (std::optional<Reader> thermal = reader.optional_child("thermal")) {
    thermal_ = ThermalNode::read(*thermal);
    thermal->finish();
  }
  if (std::optional<Reader> governor = reader.optional_child("governor")) {
    governor_ = LoadGovernor::read(*governor);
    governor->finish();
  }
}

PowerDraw FlowPower::draw(std::string_view core_class, double clock_share) const {
  const double voltage = voltage_floor_ + (1 - voltage_floor_) * clock_share;
  const double idle = value_of(params_.table("idle_watts"), core_class, 0) * voltage;
  const double dynamic = value_of(params_.table("active_watts"), core_class, 0) * clock_share * voltage * voltage;
  PowerDraw draw{idle, idle + value_of(params_.table("stalled_share"), core_class, 1) * dynamic, idle + dynamic};
  const double wait_us = value_of(params_.table("collapse_after_us"), core_class, -1);
  if (wait_us >= 0) draw.collapses_after = from_seconds(wait_us * 1e-6);
  return draw;
}

std::vector<const Params*> FlowPower::params() const {
  std::vector<const Params*> all{&params_};
  if (thermal_) all.push_back(&*thermal_);
  if (governor_) all.push_back(&*governor_);
  return all;
}

}  // namespace vitro::hw
