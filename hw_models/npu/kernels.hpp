// The kernel table: what one (variant, weight format) needs of the NPU's units. Values are counts, so that a file with
// packets counted under emulation can take the place of estimates.
//
//   kernels:
//     kind: derived
//     source: "packets executed by our HVX kernels"
//     hmx:                                            # or hvx: where the multiply-adds run
//       dma:                                          # or l2fetch, vector_load: how the weights come in
//         float: {q4_0: {packets_per_weight: 0.035}}  # variant, format
// A format may name one operator: `f16.attention`. A second table, `more_kernels:`, of the same form adds entries of another source.
//
// packets_per_weight  of HVX, to make a weight ready (unpack, scale, permute into tiles)
// packets_per_placed_weight  in place of those, of a weight whose row lies in a place of its own (hmx alone; default: packets_per_weight)
// gathers_per_weight  vgather or vscatter instructions that TCM carries out one after the other (gather_packets), beside the packets:
//                     nobody waits for one of them alone, since results are read after a pass, and a scatter is released after it
// packets_per_mac     of HVX, per multiply-add (hvx alone; default: the general price)
// packets_per_lookup  of HVX, per table look-up (default: vlut16 on 16-bit entries)
// packets_per_sum     of HVX, per output, group of columns and activation row: scale, zero point (Finalize of T-MAN 5). On hmx: of a
//                     product whose tiles leave the sums of each block (engine/base/block_plan.hpp). Of attention's results: per row and
//                     head, the reciprocal of the sum that they are divided by
// packets_per_masked  of HVX, per score of attention in a tile of keys that not all rows of a pass see
// packets_per_block   of HVX, beside them: per output column, block and up to four activation rows, which share a block's scale (hmx alone)
// packets_per_activation  of HVX, per activation that tables are made of, where the call makes them (Precompute); on hmx, that becomes int8
// packets_per_element, gathers_per_element  the same of an operator without weights ("softmax.exp_table"), and of making activations
//                     int8 before tables are made of them ("int8_activations.g64": in blocks of 64); of a score of attention with all that
//                     a block of keys takes ("attention.exp_table", whose packets_per_weight are those of an element of keys
//                     or values that tiles are made of), and of an element of its result ("attention.quotient")
// tile_rows, tile_columns  rows and columns of the weights, at most, that the kernel's loops take at a time and that lie together
//                     (T-MAN 4.1). Look-ups stream weights by such tiles, one for each thread. A device whose TCM or vectors are smaller
//                     than those of the tile's search takes what the search finds for it. On hmx: weights lie in panels of a vector of rows
// bits                of an HMX operand: 16, 8 or 4 (hmx alone; default 16)
// threads             HVX threads that share the work (default: all)
//
// Two-level dequantisation is `two_level` (scales multiplied) or `scaled_tables` (scales in the second table). `fused`, the name that both
// had, finds the first of them that the format has, if the table has no entry of that name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hw_models/npu/parameters.hpp"

namespace vitro::hw {

struct Kernel {
  bool matrix = false;  // on HMX
  Path path = Path::dma;
  std::uint32_t threads = 1;
  std::uint32_t bits = 16;
  double packets_per_weight = 0, packets_per_placed_weight = 0, packets_per_mac = 0, packets_per_lookup = 0;
  double gathers_per_weight = 0, packets_per_sum = 0, packets_per_block = 0, packets_per_activation = 0;
  double packets_per_element = 0, gathers_per_element = 0, packets_per_masked = 0;
  std::uint32_t tile_rows = 0, tile_columns = 0;  // 0: any
  double packets_of_weight(const Work& work) const {
    return work.in_places && packets_per_placed_weight > 0 ? packets_per_placed_weight : packets_per_weight;
  }
  // Whether HVX makes strips of rows in pieces first (engine/base/block_plan.hpp).
  bool in_pieces(const Work& work) const {
    return work.in_places && packets_per_placed_weight > 0 && (work.weight_bits == 4 || work.weight_bits == 8);
  }
  bool by_blocks() const { return matrix && packets_per_sum > 0; }
};

class HexagonKernels {
 public:
  // Throws ConfigError on a unit, a path or a quantity that does not exist. Tables may be empty; an entry of the first one stands.
  HexagonKernels(const ParamTable& table, const HexagonParameters& parts, const ParamTable& more = {});

  // "native": a vendor's static graph, whose weights HMX takes as they lie: DMA and HMX alone (TTS-NPU 8). Other entries that
  // the table lacks run on one HVX thread at the general price.
  KernelCost find(std::string_view variant, std::string_view format);
  // Requires: `id` is from find(), or 0 before the first one.
  const Kernel& operator[](std::uint16_t id) const { return known_.at(id).kernel; }

 private:
  struct Entry {
    std::string name;  // "float.q4_0"
    bool from_table = false;
    Kernel kernel;
  };
  Entry* entry(std::vector<Entry>& entries, std::string_view name);
  // Entries before `stands` are left as they are.
  void read(const ParamTable& table, const std::string& key, double value, std::size_t stands = 0);

  std::uint32_t threads_;
  Kernel general_, native_;
  std::vector<Entry> table_, known_;
};

}  // namespace vitro::hw
