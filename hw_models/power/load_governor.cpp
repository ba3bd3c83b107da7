#include "hw_models/power/load_governor.hpp"

#include <algorithm>

namespace vitro::hw {
namespace {

constexpr ParamSpec kLoadParams[] = {
    {"period", Dimension::time, "1024 us", "Linux, Documentation/scheduler/schedutil.rst"},
    {"decay", Dimension::ratio, "97.857206%", "the same: y^32 = 0.5"},
    {"headroom", Dimension::none, "1.25", "the same: the next clock is 1.25 x the highest x load"},
};

}  // namespace

Params LoadGovernor::read(Reader& reader) {
  Params params(reader, kLoadParams);
  params.add_table(reader, "lowest", true);
  params.positive("headroom");
  if (params.time("period").count() <= 0) reader.fail("period", "has to be longer than 0");
  if (params.ratio("decay") >= 1) reader.fail("decay", "is 100% or more: the load would never change (expected less)");
  const ParamTable& lowest = params.table("lowest");
  for (const auto& [core_class, share] : lowest.values) {
    if (!(share > 0 && share <= 1)) lowest.fail(core_class, "is no share of the highest clock (expected more than 0, and 1 or less)");
  }
  return params;
}

LoadGovernor::LoadGovernor(const Params& params)
    : period_(params.time("period")),
      decay_(params.ratio("decay")),
      headroom_(params.number("headroom")),
      lowest_(params.table("lowest").values) {}

double LoadGovernor::clock_share(std::string_view core_class, double load) const {
  return std::clamp(headroom_ * load, lowest_.find(core_class)->second, 1.0);
}

}  // namespace vitro::hw
