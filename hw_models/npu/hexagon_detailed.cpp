#include "hw_models/npu/hexagon_detailed.hpp"

#include <algorithm>

namespace vitro::hw {
namespace {

enum Kind : std::uint16_t { kPrepared, kControl, kStageEnd, kDone };

constexpr std::array<std::string_view, kStages> kStageNames = {"in", "vector", "matrix", "out"};

}  // namespace

DetailedHexagon::DetailedHexagon(const Site& site, const Params& params) : Hexagon(site, params), tcm_(parts_.tcm, parts_.vector_bytes) {
  for (int stage = 0; stage < kStages; ++stage) {
    tracks_[static_cast<std::size_t>(stage)] = context_.track(site.name, kStageNames[static_cast<std::size_t>(stage)]);
  }
}

void DetailedHexagon::start(const TilePlan& plan) {
  plan_ = &plan;
  pass_ = 0;
  begin_pass();
}

void DetailedHexagon::begin_pass() {
  for (const Bytes bytes : plan_->buffers) {
    if (bytes == 0) continue;
    const std::optional<Bytes> block = tcm_.allocate(bytes);
    VITRO_CHECK(block.has_value(), "a tile plan that does not fit into TCM");
    blocks_.push_back(*block);
  }
  counts_ = {};
  const Pass& pass = plan_->at(pass_);
  prepared_ = pass.prepare == 0 && pass.activations == 0;
  if (prepared_) return advance();
  busy_[kMemory] = busy_[kVectors] = true;
  move(pass.activations, 0, 1, [this] {
    busy_[kMemory] = false;
    const auto prepare = from_seconds(plan_->at(pass_).prepare);
    context_.at(context_.now() + prepare, {device_, kPrepared}, [this] {
      busy_[kVectors] = false;
      prepared_ = true;
      advance();
    });
    advance();  // the first weights need not wait for that
  });
}

void DetailedHexagon::end_pass() {
  for (const Bytes block : blocks_) tcm_.free(block);
  blocks_.clear();
  if (++pass_ < plan_->passes) return begin_pass();
  context_.at(context_.now(), {device_, kDone}, [this] { end(); });
}

void DetailedHexagon::move(Bytes read, Bytes written, double rows, Callback done) {
  transfer_ = {read, written, done};
  const Picoseconds control = from_seconds(planner_.control_time(*plan_, rows));
  context_.at(context_.now() + control, {device_, kControl}, [this] {
    const Picoseconds pace = from_seconds(planner_.least_time(*plan_, transfer_.read + transfer_.written));
    ports_.move(plan_->path, transfer_.read, transfer_.written, pace, transfer_.done);
  });
}

DetailedHexagon::Unit DetailedHexagon::unit_of(Stage stage) const {
  if (stage == kMatrix) return kMatrices;
  return stage == kVector || plan_->path == Path::vector_load ? kVectors : kMemory;
}

const TileGroup& DetailedHexagon::group(std::uint32_t index) const {
  const Pass& pass = plan_->at(pass_);
  return index + 1 == pass.groups ? pass.last : pass.full;
}

bool DetailedHexagon::can_start(Stage stage) const {
  const Pass& pass = plan_->at(pass_);
  const std::uint32_t next = counts_.started[stage];
  if (next > counts_.finished[stage] || (stage != kIn && !prepared_)) return false;
  if (!hexagon::may_start(stage, counts_, pass.groups, planner_.buffers(), pass.once())) return false;
  return planner_.time(*plan_, group(next), stage) == 0 || !busy_[unit_of(stage)];
}

void DetailedHexagon::advance() {
  if (advancing_) return;
  advancing_ = true;
  for (bool moved = true; moved;) {
    moved = false;
    for (const Stage stage : {kOut, kMatrix, kVector, kIn}) {  // what empties buffers goes first
      if (!can_start(stage)) continue;
      begin(stage);
      moved = true;
    }
  }
  advancing_ = false;
  if (counts_.finished[kOut] == plan_->at(pass_).groups) end_pass();
}

void DetailedHexagon::begin(Stage stage) {
  const TileGroup& g = group(counts_.started[stage]++);
  const double seconds = planner_.time(*plan_, g, stage);
  if (seconds == 0) {
    ++counts_.finished[stage];
    return;
  }
  since_[stage] = context_.now();
  busy_[unit_of(stage)] = true;
  const auto ended = [this, stage] { finish(stage); };
  if (stage == kIn) return move(g.in, 0, g.rows, ended);
  if (stage == kOut) return move(0, g.out, 1, ended);
  context_.at(context_.now() + from_seconds(seconds), {device_, kStageEnd}, ended);
}

void DetailedHexagon::finish(Stage stage) {
  busy_[unit_of(stage)] = false;
  ++counts_.finished[stage];
  if (context_.tracing()) context_.span(tracks_[stage], since_[stage], context_.now(), kStageNames[stage]);
  advance();
}

}  // namespace vitro::hw
