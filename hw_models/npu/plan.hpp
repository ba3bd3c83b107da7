// TilePlan: how the NPU works on one call. A product [m, k] x [k, n] keeps activations in TCM and streams weights through it
// by groups of tile columns: in (a memory path), vector (dequantise and permute), matrix (HMX), out; the stages work at the
// same time on different groups, with two buffers between them (T-MAN 4.2). When the activations of all rows do not fit
// into TCM, rows are split and the weights stream once per part. Other operators are cut into chunks of their operands.
// Attention fills tiles with the rows of one sequence and the query heads that share a head of keys and values; sequences share none
// (TTS-NPU 5.2). As one call it goes through the stages block by block of keys, by the worker's plan (engine/base/attention_plan.hpp).
// Products by look-up stream tiles of the layout (T-MAN 4.1) instead of whole columns: each thread has rows of its own, in whole vectors,
// and a part of the depth at a time, for which tables stay in registers. A group is a tile for each thread. Sums that registers can not
// hold until the next part are in TCM, which leaves less room for groups, or cost loads and stores elsewhere (Spill).
#pragma once
#include <algorithm>
#include <array>

#include "engine/base/attention_plan.hpp"
#include "engine/base/block_plan.hpp"
#include "hw_models/npu/kernels.hpp"

namespace vitro::hw {

using hexagon::kIn, hexagon::kMatrix, hexagon::kOut, hexagon::kStages, hexagon::kVector;
using hexagon::Stage;
using hexagon::StageRoom;

struct TileGroup {
  Bytes in = 0, out = 0;          // over the memory path
  double rows = 1;                // runs of bytes of `in`
  double vector = 0, matrix = 0;  // seconds
  bool operator==(const TileGroup&) const = default;
};

// A part of the activation rows: they come in and are made ready, then the groups follow.
struct Pass {
  Bytes activations = 0;
  double prepare = 0;  // seconds of the vector stage
  std::uint32_t groups = 0;
  TileGroup full, last;  // all alike but the last
  bool operator==(const Pass&) const = default;

  // Results are collected and leave behind the last group, or there are none.
  bool once() const { return full.out == 0; }
};

struct TilePlan {
  Path path = Path::dma;
  std::uint32_t threads = 1;
  std::uint32_t passes = 1;
  Pass pass, last_pass;
  std::array<Bytes, 10> buffers{};  // in TCM during a pass; 0: none
  bool streams = false;             // a product, or attention in blocks: the buffers above
  hexagon::StagePlan stages{};      // of a product by tiles, or of a pass of attention in blocks: what the worker runs

  const Pass& at(std::uint32_t index) const { return index + 1 == passes ? last_pass : pass; }
  Bytes read() const;  // of all passes
  Bytes written() const;
  TilePlan without_memory() const;  // its vector and matrix stages alone
  bool operator==(const TilePlan&) const = default;
};

class TilePlanner {
 public:
  explicit TilePlanner(const HexagonParameters& parts) : parts_(parts) {}

  // softmax: of attention whose scores have a price of their own (Work::has_own_softmax), else null; quotient: of attention in blocks.
  // Throws RunError when the smallest tiles of the call do not fit into TCM.
  TilePlan plan(const Work& work, const Kernel& kernel, const Kernel* softmax = nullptr, const Kernel* quotient = nullptr) const;
  // Seconds of a stage of one group, alone on the DRAM; 0 when the stage has nothing to do.
  double time(const TilePlan& plan, const TileGroup& group, Stage stage) const;
  double load_time(const TilePlan& plan, Bytes bytes, double rows) const;  // over the plan's path
  double least_time(const TilePlan& plan, Bytes bytes) const;              // of that, while bytes move
  double control_time(const TilePlan& plan, double rows) const;            // of that, before bytes move

  // How many groups a stage may be ahead of the next one, and results behind weights; whether one group has to leave first.
  std::uint32_t buffers() const { return parts_.buffers; }
  std::uint32_t ahead() const { return hexagon::groups_ahead(parts_.buffers); }
  std::uint32_t out_behind() const { return hexagon::out_behind(parts_.buffers); }
  bool one_by_one() const { return parts_.buffers == 0; }

 private:
  TilePlan product(const Work& work, const Kernel& kernel) const;
  TilePlan attention(const Work& work, const Kernel& kernel, const Kernel& softmax, const Kernel& quotient) const;
  TilePlan chunks(const Work& work, const Kernel& kernel, const Kernel* softmax) const;
  Pass product_pass(const Work& work, const Kernel& kernel, std::uint32_t rows, std::uint32_t columns) const;
  TilePlan block_product(const Work& work, const Kernel& kernel) const;
  Pass block_pass(const Work& work, const Kernel& kernel, std::uint32_t rows, const hexagon::StagePlan& stages) const;
  Pass tile_pass(const Work& work, const Kernel& kernel, std::uint32_t rows, std::uint32_t columns) const;
  void spill(Pass& pass, const Kernel& kernel, Bytes stored, Bytes waiting) const;
  double tile_cycles(std::uint32_t bits) const;
  double vector_seconds(double packets, const Kernel& kernel) const { return packets / kernel.threads / parts_.clock; }
  double packets_of_element(const Kernel& kernel) const {
    return std::max(kernel.packets_per_element, kernel.gathers_per_element * parts_.gather_packets);
  }
  double element_packets(const Work& work, const Kernel& kernel) const;
  double other_packets(const Work& work, const Kernel& kernel) const;

  const HexagonParameters& parts_;
};

}  // namespace vitro::hw
