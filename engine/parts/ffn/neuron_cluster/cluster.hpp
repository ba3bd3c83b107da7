// Neuron clusters: the unit of computing, caching and reading (PowerInfer-2, section 3). A cluster is a run of the neurons
// of one FFN, or of one expert, that are computed by one call.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/parts/ffn/neuron_cluster/landing_buffer.hpp"
#include "engine/parts/placement/charge_dispatch.hpp"

namespace vitro {

// A block that has to come from flash for a cluster.
struct BlockLoad {
  std::uint32_t block = 0;  // of the cache's numbering
  std::uint32_t slot = 0;
  bool stays = false;    // admitted to the cache; otherwise its slot is free after the cluster
  std::uint32_t at = 0;  // of a load: its place among the blocks of its cluster
};

struct Cluster {
  static constexpr std::uint32_t kNoGroup = ~0u;
  std::uint32_t group = 0;            // the FFN or expert of the step that it belongs to; kNoGroup: read ahead for rows that did not come
  std::uint32_t partial = 0;          // slot of its partial sum
  bool continues = false;             // adds to the partial sum of the cluster before it
  IndexList neurons;                  // those that are computed: predicted, or all; ascending
  IndexBits bits;                     // null, or `neurons` as bits, and maybe others below the first and above the last of them
  std::vector<std::uint32_t> blocks;  // of these neurons, ascending, each once
  std::vector<BlockLoad> loads;       // those of `blocks` that are not resident, in the same order
  std::vector<BlockLoad> halves;      // those of which only the first part is, likewise
  std::uint32_t wave = 0;             // clusters whose loads fit into the staging slots together

  // While it runs.
  enum class Stage : std::uint8_t { waiting, gate_io, gate_ready, gate_runs, gated, rest_io, rest_ready, rest_runs, done };
  Stage stage = Stage::waiting;
  std::uint32_t reads_left = 0;
  std::vector<Landed> landed;  // what was read for its next stage and is not at its place yet
  IndexList active;            // neurons whose gate is not zero for some row
};

// Neurons of an FFN, ascending. bits: null, or the same as bits, and maybe others below the first and above the last of them.
struct NamedNeurons {
  IndexList list;
  IndexBits bits = {};
};

// Several rows' neurons as one ascending list without repeats; rows ascend.
IndexList united(const std::vector<IndexList>& rows);

// Throws RunError for neurons outside [first, end), and for a row that does not ascend: a unit's answer is held against the model before it
// is used.
void check_active(const std::vector<IndexList>& rows, std::uint32_t first, std::uint32_t end);

}  // namespace vitro
