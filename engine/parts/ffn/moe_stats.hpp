// What became of the rows that a router sent to experts, over a run or a part of it.
#pragma once
#include <cstdint>
#include <optional>

namespace vitro {

// What decides which rows an overflowing expert keeps: the L2 norm of the attention output (NPUMoE 3.2), the router's weight, or chance.
enum class Ranking : std::uint8_t { attention_output, router_weight, random };

struct MoeStats {
  std::uint64_t layers = 0;                 // times that experts of a layer ran for a step
  std::uint64_t launches = 0;               // of their graphs
  std::uint64_t pairs = 0;                  // (row, expert) pairs that the router chose
  std::uint64_t dropped = 0, on_cores = 0;  // of them; the rest ran in graphs
  std::uint64_t padded = 0;                 // rows that graphs computed for nobody
  std::uint64_t keys = 0, masked_keys = 0;  // pairs of a row and a key that attention's static graphs computed; of them for nobody
  std::uint64_t graphs = 0, left_graphs = 0;  // that units hold for good; that they did not take, so that cores compute their experts
  std::uint64_t graph_loads = 0;              // of graphs that come ahead of their layer
  std::optional<double> expected_overflow;    // share of a chunk's pairs, by calibration; none: no expert is in a graph
  // Overlap@K with the calibration, the median layer's: K is a quarter of the experts, and half of them.
  std::optional<double> hot_overlap, half_overlap;
  std::uint64_t retiers = 0;                  // times that tiers followed the load
  std::optional<Ranking> ranked_by;           // of the last overflow; none: nothing overflowed

  static std::optional<double> share(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? std::nullopt : std::optional(static_cast<double>(part) / static_cast<double>(whole));
  }
  std::optional<double> drop_rate() const { return share(dropped, pairs); }
  std::optional<double> cpu_share() const { return share(on_cores, pairs); }
  // Of all rows that experts computed, on whatever unit (NPUMoE 5.8).
  std::optional<double> padded_share() const { return share(padded, pairs - dropped + padded); }
  std::optional<double> masked_keys_share() const { return share(masked_keys, keys); }
  std::optional<double> launches_per_layer() const { return share(launches, layers); }
};

}  // namespace vitro
