// What the tests of placements share: a machine of cores and accelerators, and a placement of a kind on it.
#pragma once
#include <gmock/gmock.h>

#include "engine/parts/placement/placement_kinds.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro::placements {

inline constexpr BlockKind kBlocks[] = {BlockKind::embed, BlockKind::attention, BlockKind::ffn, BlockKind::head};

class Nothing final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

// Three cores, two units of static graphs and one without.
class PlacementTest : public testing::Test {
 protected:
  PlacementTest() : host_(machine_of({"cpu0", "cpu1", "cpu2", "npu", "gpu", "ane"})) { register_placements(kinds); }

  std::unique_ptr<VirtualMachine> machine_of(const std::vector<std::string>& names) {
    VirtualMachineSpec spec;
    for (const std::string& name : names) {
      UnitCaps caps;
      caps.id = UnitId(spec.units.size());
      caps.name = name;
      caps.kind = name.starts_with("cpu") ? UnitKind::core : name == "gpu" ? UnitKind::gpu : UnitKind::npu;
      caps.static_graphs = caps.kind == UnitKind::npu;
      spec.units.push_back(caps);
    }
    return std::make_unique<VirtualMachine>(std::move(spec), function_, trace_);
  }

  std::unique_ptr<UnitPlacement> make(const PlacementConfig& config) { return make(config, *host_); }
  std::unique_ptr<UnitPlacement> make(const PlacementConfig& config, VirtualMachine& host) {
    return kinds.find(config.kind)->make({host.machine(), config, chunk, decode_rows, kv_format, sequences, whole_ffns});
  }
  std::string error_of(const PlacementConfig& config) { return error_of(config, *host_); }
  std::string error_of(const PlacementConfig& config, VirtualMachine& host) {
    try {
      make(config, host);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  static PlacementConfig config(std::string kind, std::vector<std::string> units) {
    PlacementConfig config;
    config.kind = std::move(kind);
    config.units = std::move(units);
    return config;
  }
  static std::vector<std::string> names(const std::vector<ComputeUnit*>& units) {
    std::vector<std::string> names;
    for (const ComputeUnit* unit : units) names.push_back(unit->caps().name);
    return names;
  }

  Registry<PlacementKind> kinds;
  std::uint32_t chunk = 8, decode_rows = 2, sequences = 1, whole_ffns = 0;
  Format kv_format = Format::f32;

 private:
  Nothing function_;
  NullTrace trace_;
  std::unique_ptr<VirtualMachine> host_;
};

inline PlacementConfig with_splits(PlacementConfig config) {
  config.unit = "npu";
  config.splits = {{1, 0.25, 0.5, 0.75}, {4, 0.5, 1, 0}};
  return config;
}

inline PlacementConfig matmuls_on_gpu(PlacementConfig config) {
  config.unit = "gpu";
  return config;
}

}  // namespace vitro::placements
