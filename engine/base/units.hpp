// Quantities with their units in the type. Time is integral picoseconds everywhere, so that adding two times is exact
// and two runs of one simulation agree to the bit.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace vitro {

using Picoseconds = std::chrono::duration<std::int64_t, std::pico>;
using Bytes = std::uint64_t;

inline constexpr Bytes KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;
inline constexpr Bytes kPageSize = 4 * KiB;  // flash logical block, direct-I/O alignment and the page of the mmap policy

struct BytesPerSecond {
  double value = 0;
};

struct Hertz {
  double value = 0;
};

// Rounds to the nearest picosecond. Requires: seconds within +-106 days (the range of int64 picoseconds).
Picoseconds from_seconds(double seconds);
constexpr double to_seconds(Picoseconds t) { return static_cast<double>(t.count()) * 1e-12; }

// Time that `size` bytes need at `rate`, rounded up so that work never takes no time. Requires: rate.value > 0.
Picoseconds transfer_time(Bytes size, BytesPerSecond rate);

constexpr Bytes round_up(Bytes value, Bytes step) { return (value + step - 1) / step * step; }
constexpr Bytes round_down(Bytes value, Bytes step) { return value / step * step; }

// What kind of quantity a configuration key holds; decides which unit suffixes are legal.
enum class Dimension : std::uint8_t { none, time, bytes, bandwidth, frequency, power, energy, energy_per_byte, temperature, ratio };

// One word and an example, for messages: "bytes per second, such as 2.1 GB/s".
std::string_view describe(Dimension dimension);

// Parses "59.6 GB/s", "8 MiB", "3.3 GHz", "15 us", "50%" into SI base units (seconds, bytes, bytes per second, hertz, watts,
// joules, joules per byte, kelvin-sized degrees, fraction). GB is 10^9, GiB is 2^30. Returns false, and leaves `out`
// alone, when the text is no number, has no unit, or has one of another dimension.
bool parse_quantity(std::string_view text, Dimension dimension, double& out);

// The shortest text that parse_quantity() reads as this value, to within the rounding of its own product: "128 KiB", "15 us",
// "25%".
std::string format_quantity(double value, Dimension dimension);

// Human-readable forms for tables and messages: "1.5 GiB", "12.3 us".
std::string format_bytes(Bytes value);
std::string format_time(Picoseconds value);

}  // namespace vitro
