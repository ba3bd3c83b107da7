#include "hw_models/cpu/reuse_curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace vitro::hw {

ReuseCurve::ReuseCurve(const ParamTable& table) {
  for (const auto& [key, rate] : table.values) {
    if (key == "private_cache" || key == "shared_cache") {
      (key == "private_cache" ? private_cache_ : shared_cache_) = static_cast<Bytes>(std::max(rate, 0.0) * static_cast<double>(MiB));
      continue;
    }
    char* end = nullptr;
    const double mebibytes = std::strtod(key.c_str(), &end);
    if (*end != '\0' || !(mebibytes > 0)) {
      throw ConfigError(fmt::format("{}.{}: is no distance (expected a number of MiB above 0)", table.name, key));
    }
    if (!(rate > 0)) throw ConfigError(fmt::format("{}.{}: {} (expected GB/s above 0)", table.name, key, rate));
    points_.push_back({std::log(mebibytes * static_cast<double>(MiB)), 1e-9 / rate});
  }
  std::sort(points_.begin(), points_.end(), [](const Point& a, const Point& b) { return a.log_distance < b.log_distance; });
}

std::optional<ReuseCurve::Cost> ReuseCurve::cost(const Work& work) const {
  if (points_.empty() || work.reused_bytes == 0) return std::nullopt;
  const Bytes distance = work.moved_here <= private_cache_ ? work.moved_here : work.moved_anywhere;
  const double bytes = static_cast<double>(work.reused_bytes);
  return Cost{bytes * seconds_per_byte(static_cast<double>(std::max<Bytes>(distance, 1))), distance <= shared_cache_};
}

double ReuseCurve::seconds_per_byte(double distance) const {
  const double x = std::log(distance);
  const auto above = std::find_if(points_.begin(), points_.end(), [x](const Point& p) { return p.log_distance >= x; });
  if (above == points_.begin()) return above->seconds_per_byte;
  if (above == points_.end()) return points_.back().seconds_per_byte;
  const Point &low = *(above - 1), &high = *above;
  const double share = (x - low.log_distance) / (high.log_distance - low.log_distance);
  return low.seconds_per_byte + share * (high.seconds_per_byte - low.seconds_per_byte);
}

}  // namespace vitro::hw
