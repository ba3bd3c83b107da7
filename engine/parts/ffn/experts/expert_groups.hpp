// Which experts share a static graph, and where each graph runs (NPUMoE 4.2, 4.3): experts of one tier and of like load together, as
// one launch; cold ones, whose launch would cost more than their work, stay with the cores.
#pragma once
#include <cstdint>
#include <vector>

namespace vitro {

struct GroupRule {
  std::uint32_t group = 1;  // most experts of one graph: the configured size, and what the units' graph limits admit
  std::uint32_t units = 1;  // that run graphs
  bool residency = true;    // else every expert has a place in a graph, and nothing below counts
  double cold_rows = 0;     // an expert that expects no more is cold,
  std::uint32_t cold = 0;   // and so are so many of the least loaded ones
  double launch_rows = 0;   // of a group, below which it is not worth a launch
  double max_padding = 1;   // of the rows that are computed, wherever; the least loaded experts become cold until it is met
};

// What a layer's experts expect, by expert.
struct LayerLoad {
  std::vector<double> expected;         // rows of a chunk
  std::vector<std::uint32_t> capacity;  // rows of its slice; a hotter expert has no less than a cooler one
  std::vector<double> overflow;         // of the expected rows, beyond the capacity; empty: none
};

// One graph of one layer: `experts` in the order of their slices, each of `capacity` rows.
struct StaticGroup {
  std::vector<std::uint16_t> experts;
  std::uint32_t capacity = 0;
  std::uint32_t unit = 0;
  std::uint32_t first = 0;  // row of its first slice in the layer's pool
  bool comes = false;       // loaded ahead of each use, since the unit does not hold all graphs

  std::uint32_t rows() const { return static_cast<std::uint32_t>(experts.size()) * capacity; }
};

struct LayerPlacement {
  std::vector<StaticGroup> groups;      // by ascending unit, then the largest first
  std::vector<std::uint32_t> capacity;  // by expert; 0: the cores compute it
  std::vector<std::uint32_t> first;     // by expert: row of its slice
  std::uint32_t rows = 0;               // of all slices
};

// The experts that are in a graph are the layer's hottest, whatever the rule. An expert that is in none is cold. Graphs have no units yet.
// Requires: a capacity for each expert, and a group of at least one.
std::vector<StaticGroup> group_experts(const LayerLoad& load, const GroupRule& rule);
// The same, on units.
LayerPlacement place_experts(const LayerLoad& load, const GroupRule& rule);

// Puts each group on a unit, the one with the fewest experts first, since weights are what a launch waits for.
void share_out(std::vector<StaticGroup>& groups, std::uint32_t units);
// A layer of these groups, whose order within a unit is kept; experts in none are the cores'.
LayerPlacement lay_out(std::vector<StaticGroup> groups, std::size_t experts);

// Rows that a graph is expected to compute for nobody, over all that the layer's experts are expected to compute.
double expected_padding(const LayerLoad& load, const LayerPlacement& placement);

}  // namespace vitro
