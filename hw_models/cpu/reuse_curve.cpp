#include "hw_models/cpu/reuse_curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace vitro::hw {
namespace {

constexpr double kLine = 64;

}  // namespace

ReuseCurve::ReuseCurve(const ParamTable& table) : table_(table) {
  for (const auto& [key, number] : table.values) {
    char* end = nullptr;
    const double mebibytes = std::strtod(key.c_str(), &end);
    if (key == "private_cache") {
      private_cache_ = static_cast<Bytes>(number * static_cast<double>(MiB));
    } else if (*end == '\0' && mebibytes > 0) {
      points_.push_back({std::log(mebibytes * static_cast<double>(MiB)), number});
    }
  }
  std::sort(points_.begin(), points_.end(), [](const Point& a, const Point& b) { return a.log_distance < b.log_distance; });
  if (!table.values.empty() && (points_.empty() || points_.back().ns <= 0)) {
    table.fail("", "has no points, or its last point is 0 (expected distances in MiB with a time each, such as {1: 2 ns, 8: 10 ns})");
  }
}

void ReuseCurve::name(std::uint16_t id, std::string_view variant, std::string_view format) {
  const auto found = table_.values.find(fmt::format("{}.{}", variant, format));
  if (factors_.size() <= id) factors_.resize(id + 1, 1.0);
  if (found != table_.values.end()) factors_[id] = found->second;
}

std::optional<ReuseCurve::Cost> ReuseCurve::cost(const Work& work) const {
  if (points_.empty() || work.reused_bytes == 0) return std::nullopt;
  if (work.moved_here <= private_cache_) return Cost{};
  const double near = points_.front().ns, far = points_.back().ns;
  const double ns = ns_per_line(static_cast<double>(std::max<Bytes>(work.moved_anywhere, 1)));
  const double share = far > near ? std::clamp((ns - near) / (far - near), 0.0, 1.0) : 1.0;
  const double factor = work.kernel < factors_.size() ? factors_[work.kernel] : 1.0;
  return Cost{static_cast<double>(work.reused_bytes) / kLine * ns * factor * 1e-9, share};
}

double ReuseCurve::ns_per_line(double distance) const {
  const double x = std::log(distance);
  const auto above = std::find_if(points_.begin(), points_.end(), [x](const Point& p) { return p.log_distance >= x; });
  if (above == points_.begin()) return above->ns;
  if (above == points_.end()) return points_.back().ns;
  const Point &low = *(above - 1), &high = *above;
  const double share = (x - low.log_distance) / (high.log_distance - low.log_distance);
  return low.ns + share * (high.ns - low.ns);
}

}  // namespace vitro::hw
