// The NPU at detailed fidelity: tile groups move through the stages one event at a time; memory is asked group by group.
#pragma once
#include <array>
#include <vector>

#include "hw_models/npu/hexagon.hpp"
#include "hw_models/npu/tcm.hpp"

namespace vitro::hw {

class DetailedHexagon final : public Hexagon {
 public:
  DetailedHexagon(const Site& site, const Params& params);

  const TcmAllocator& tcm() const { return tcm_; }

 private:
  // What a stage occupies: of each there is one.
  enum Unit : std::uint8_t { kMemory, kVectors, kMatrices };
  static constexpr int kUnits = 3;

  void start(const TilePlan& plan) override;
  void begin_pass();
  void end_pass();
  void advance();  // starts whatever can start
  bool can_start(Stage stage) const;
  void begin(Stage stage);
  void move(Bytes read, Bytes written, double rows, Callback done);  // descriptor, then bytes
  void finish(Stage stage);
  Unit unit_of(Stage stage) const;
  const TileGroup& group(std::uint32_t index) const;

  TcmAllocator tcm_;
  std::array<Track, kStages> tracks_;

  struct Transfer {
    Bytes read = 0, written = 0;
    Callback done;
  };

  const TilePlan* plan_ = nullptr;
  std::uint32_t pass_ = 0;
  bool prepared_ = false;  // the activations of this pass
  std::vector<Bytes> blocks_;
  hexagon::StageCounts counts_;
  std::array<bool, kUnits> busy_{};
  std::array<Picoseconds, kStages> since_{};
  Transfer transfer_;  // the one whose descriptor is being started
  bool advancing_ = false;
};

}  // namespace vitro::hw
