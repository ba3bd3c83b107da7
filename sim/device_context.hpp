// What the hardware models see of the simulation: the executor's clock and queue, the trace, named random streams.
#pragma once
#include <map>
#include <string>

#include "engine/base/hash.hpp"
#include "engine/machine/trace.hpp"
#include "hw_models/context.hpp"
#include "sim/executor.hpp"

namespace vitro::sim {

class DeviceContext final : public hw::Context {
 public:
  DeviceContext(SimExecutor& executor, TraceSink& trace, std::uint64_t seed) : executor_(executor), trace_(trace), seed_(seed) {}

  Picoseconds now() const override { return executor_.device_now(); }
  void at(Picoseconds when, hw::Label label, hw::Callback action) override { executor_.at(when, label, action); }
  // 0 is the executor itself.
  std::uint16_t device(std::string_view) override { return ++devices_; }
  Rng& rng(std::string_view stream) override {
    Hash name;
    name.add(stream);
    return streams_.try_emplace(std::string(stream), mix(seed_, {name.value()})).first->second;
  }

  bool tracing() const override { return trace_.enabled(); }
  hw::Track track(std::string_view group, std::string_view name) override { return hw::Track(trace_.track(group, name)); }
  void span(hw::Track track, Picoseconds begin, Picoseconds end, std::string_view name) override {
    trace_.span(TrackId(track), begin, end, name);
  }
  void counter(hw::Track track, double value) override { trace_.counter(TrackId(track), now(), value); }

 private:
  SimExecutor& executor_;
  TraceSink& trace_;
  std::uint64_t seed_;
  std::uint16_t devices_ = 0;
  std::map<std::string, Rng, std::less<>> streams_;
};

}  // namespace vitro::sim
