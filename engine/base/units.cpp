#include "engine/base/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

struct Unit {
  std::string_view suffix;
  Dimension dimension;
  double scale;
};

constexpr double kKi = 1024.0, kMi = kKi * kKi, kGi = kKi * kMi;

constexpr std::array kUnits{
    Unit{"s", Dimension::time, 1},
    Unit{"ms", Dimension::time, 1e-3},
    Unit{"us", Dimension::time, 1e-6},
    Unit{"ns", Dimension::time, 1e-9},
    Unit{"ps", Dimension::time, 1e-12},
    Unit{"B", Dimension::bytes, 1},
    Unit{"kB", Dimension::bytes, 1e3},
    Unit{"KB", Dimension::bytes, 1e3},
    Unit{"MB", Dimension::bytes, 1e6},
    Unit{"GB", Dimension::bytes, 1e9},
    Unit{"KiB", Dimension::bytes, kKi},
    Unit{"MiB", Dimension::bytes, kMi},
    Unit{"GiB", Dimension::bytes, kGi},
    Unit{"B/s", Dimension::bandwidth, 1},
    Unit{"kB/s", Dimension::bandwidth, 1e3},
    Unit{"MB/s", Dimension::bandwidth, 1e6},
    Unit{"GB/s", Dimension::bandwidth, 1e9},
    Unit{"MiB/s", Dimension::bandwidth, kMi},
    Unit{"GiB/s", Dimension::bandwidth, kGi},
    Unit{"Hz", Dimension::frequency, 1},
    Unit{"kHz", Dimension::frequency, 1e3},
    Unit{"MHz", Dimension::frequency, 1e6},
    Unit{"GHz", Dimension::frequency, 1e9},
    Unit{"W", Dimension::power, 1},
    Unit{"mW", Dimension::power, 1e-3},
    Unit{"J", Dimension::energy, 1},
    Unit{"mJ", Dimension::energy, 1e-3},
    Unit{"uJ", Dimension::energy, 1e-6},
    Unit{"nJ", Dimension::energy, 1e-9},
    Unit{"pJ", Dimension::energy, 1e-12},
    Unit{"J/B", Dimension::energy_per_byte, 1},
    Unit{"nJ/B", Dimension::energy_per_byte, 1e-9},
    Unit{"pJ/B", Dimension::energy_per_byte, 1e-12},
    Unit{"pJ/bit", Dimension::energy_per_byte, 8e-12},
    Unit{"degC", Dimension::temperature, 1},
    Unit{"K", Dimension::temperature, 1},
    Unit{"%", Dimension::ratio, 0.01},
};

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

Picoseconds from_seconds(double seconds) {
  VITRO_CHECK(std::abs(seconds) < 9e6, "time out of range");
  // std::llround(), halves away from zero, without a call of the library: several times per simulated event. The rest is exact.
  const double picoseconds = seconds * 1e12;
  const auto whole = static_cast<std::int64_t>(picoseconds);
  const double rest = picoseconds - static_cast<double>(whole);
  return Picoseconds(whole + (rest >= 0.5 ? 1 : 0) - (rest <= -0.5 ? 1 : 0));
}

Picoseconds transfer_time(Bytes size, BytesPerSecond rate) {
  VITRO_CHECK(rate.value > 0, "transfer_time needs a positive rate");
  return Picoseconds(static_cast<std::int64_t>(std::ceil(static_cast<double>(size) / rate.value * 1e12)));
}

std::string_view describe(Dimension dimension) {
  switch (dimension) {
    case Dimension::none:
      return "a bare number";
    case Dimension::time:
      return "a time, such as 15 us";
    case Dimension::bytes:
      return "bytes, such as 8 MiB";
    case Dimension::bandwidth:
      return "bytes per second, such as 2.1 GB/s";
    case Dimension::frequency:
      return "a frequency, such as 3.3 GHz";
    case Dimension::power:
      return "a power, such as 4.5 W";
    case Dimension::energy:
      return "an energy, such as 20 pJ";
    case Dimension::energy_per_byte:
      return "energy per byte, such as 40 pJ/B";
    case Dimension::temperature:
      return "a temperature, such as 45 degC";
    case Dimension::ratio:
      return "a share, such as 50%";
  }
  return "a quantity";
}

bool parse_quantity(std::string_view text, Dimension dimension, double& out) {
  text = trim(text);
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return false;
  const std::string_view suffix = trim(text.substr(static_cast<std::size_t>(rest - text.data())));
  if (dimension == Dimension::none) {
    if (!suffix.empty()) return false;
    out = number;
    return true;
  }
  for (const Unit& unit : kUnits) {
    if (unit.dimension != dimension || unit.suffix != suffix) continue;
    out = number * unit.scale;
    return true;
  }
  return false;
}

std::string format_quantity(double value, Dimension dimension) {
  if (dimension == Dimension::none) return fmt::format("{}", value);
  std::string best, text;
  for (const Unit& unit : kUnits) {
    if (unit.dimension != dimension) continue;
    double read = 0;
    for (int digits = 15; digits <= 17; ++digits) {
      text = fmt::format("{:.{}g}{}{}", value / unit.scale, digits, dimension == Dimension::ratio ? "" : " ", unit.suffix);
      if (!parse_quantity(text, dimension, read) || std::abs(read - value) > 4e-16 * std::abs(value)) continue;
      if (best.empty() || text.size() < best.size()) best = text;
      break;
    }
  }
  return best.empty() ? text : best;
}

std::string format_bytes(Bytes value) {
  if (value >= GiB) return fmt::format("{:.2f} GiB", static_cast<double>(value) / kGi);
  if (value >= MiB) return fmt::format("{:.2f} MiB", static_cast<double>(value) / kMi);
  if (value >= KiB) return fmt::format("{:.2f} KiB", static_cast<double>(value) / kKi);
  return fmt::format("{} B", value);
}

std::string format_time(Picoseconds value) {
  const double seconds = to_seconds(value);
  if (std::abs(seconds) >= 1) return fmt::format("{:.3f} s", seconds);
  if (std::abs(seconds) >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  if (std::abs(seconds) >= 1e-6) return fmt::format("{:.3f} us", seconds * 1e6);
  return fmt::format("{:.1f} ns", seconds * 1e9);
}

}  // namespace vitro
