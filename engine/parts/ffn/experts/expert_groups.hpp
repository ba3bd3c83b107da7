// Which experts share a static graph, and where each graph runs (NPUMoE 4.2, 4.3): experts of one tier and of like load together, as
// one launch; cold ones, whose launch would cost more than their work, stay with the cores.
#pragma once
#include <cstdint>
#include <vector>

namespace vitro {

struct GroupRule {
  std::uint32_t group = 1;  // most experts of one graph: the configured size, and what the unit's graph limit admits
  bool residency = true;    // else every expert has a place in a graph
  std::uint32_t base = 1;   // rows; an expert with no more expected ones is cold,
  std::uint32_t cold = 0;   // and so are so many of the least loaded ones
  std::uint32_t units = 1;  // that run graphs
};

// One graph of one layer: `experts` in the order of their slices, each of `capacity` rows.
struct StaticGroup {
  std::vector<std::uint16_t> experts;
  std::uint32_t capacity = 0;
  std::uint32_t unit = 0;
  std::uint32_t first = 0;  // row of its first slice in the layer's pool

  std::uint32_t rows() const { return static_cast<std::uint32_t>(experts.size()) * capacity; }
};

struct LayerPlacement {
  std::vector<StaticGroup> groups;      // by ascending unit, then the largest first
  std::vector<std::uint32_t> capacity;  // by expert; 0: the cores compute it
  std::vector<std::uint32_t> first;     // by expert: row of its slice
  std::uint32_t rows = 0;               // of all slices
};

// `expected`: rows of a chunk by expert. Requires: a capacity for each, and a group of at least one.
LayerPlacement place_experts(const std::vector<double>& expected, const std::vector<std::uint32_t>& capacities, const GroupRule& rule);

}  // namespace vitro
