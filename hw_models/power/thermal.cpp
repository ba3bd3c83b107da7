#include "hw_models/power/thermal.hpp"

#include <algorithm>
#include <functional>

namespace vitro::hw {
namespace {

constexpr ParamSpec kParams[] = {
    {"resistance_k_per_w", Dimension::none, "", ""},
    {"capacity_j_per_k", Dimension::none, "", ""},
    {"ambient", Dimension::temperature, "25 degC", "room temperature"},
    {"trip", Dimension::temperature, "", ""},
    {"hysteresis", Dimension::temperature, "2 K", "as the trip points of Linux thermal zones commonly have"},
    {"step", Dimension::time, "10 ms", "far below any thermal time constant of a phone"},
};

}  // namespace

Params ThermalNode::read(Reader& reader) {
  Params params(reader, kParams);
  params.add_table(reader, "clock_steps", true);
  params.positive("resistance_k_per_w");
  params.positive("capacity_j_per_k");
  if (params.time("step").count() <= 0) reader.fail("step", "has to be longer than 0");
  if (params.degrees("trip") <= params.degrees("ambient")) reader.fail("trip", "is not above the ambient temperature");
  for (const auto& [name, share] : params.table("clock_steps").values) {
    if (!(share > 0 && share < 1)) reader.fail("clock_steps", name + " is not a share of the full clock between 0 and 1");
  }
  return params;
}

ThermalNode::ThermalNode(const Params& params)
    : resistance_(params.number("resistance_k_per_w")),
      ambient_(params.degrees("ambient")),
      trip_(params.degrees("trip")),
      hysteresis_(params.degrees("hysteresis")),
      step_(params.time("step")),
      share_(to_seconds(step_) / (resistance_ * params.number("capacity_j_per_k"))),
      shares_{1},
      degrees_(ambient_),
      highest_(ambient_) {
  for (const auto& [name, share] : params.table("clock_steps").values) shares_.push_back(share);
  std::sort(shares_.begin(), shares_.end(), std::greater());
}

void ThermalNode::advance(double watts) {
  degrees_ = (degrees_ + share_ * (ambient_ + watts * resistance_)) / (1 + share_);
  highest_ = std::max(highest_, degrees_);
  if (degrees_ > trip_ && level_ + 1 < shares_.size()) {
    ++level_;
  } else if (degrees_ < trip_ - hysteresis_ && level_ > 0) {
    --level_;
  }
}

}  // namespace vitro::hw
