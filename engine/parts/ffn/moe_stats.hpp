// What became of the rows that a router sent to experts, over a run or a part of it.
#pragma once
#include <cstdint>
#include <optional>

namespace vitro {

struct MoeStats {
  std::uint64_t layers = 0;                 // times that experts of a layer ran for a step
  std::uint64_t launches = 0;               // of their graphs
  std::uint64_t pairs = 0;                  // (row, expert) pairs that the router chose
  std::uint64_t dropped = 0, on_cores = 0;  // of them; the rest ran in graphs
  std::uint64_t padded = 0;                 // rows that graphs computed for nobody

  static std::optional<double> share(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? std::nullopt : std::optional(static_cast<double>(part) / static_cast<double>(whole));
  }
  std::optional<double> drop_rate() const { return share(dropped, pairs); }
  std::optional<double> cpu_share() const { return share(on_cores, pairs); }
  // Of all rows that experts computed, on whatever unit (NPUMoE 5.8).
  std::optional<double> padded_share() const { return share(padded, pairs - dropped + padded); }
  std::optional<double> launches_per_layer() const { return share(launches, layers); }
};

}  // namespace vitro
