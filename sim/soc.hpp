// Soc: the devices of one phone, built from a device file (docs/guide/adding-a-device.md).
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/config.hpp"
#include "engine/machine/clock.hpp"
#include "engine/machine/compute_unit.hpp"
#include "hw_models/compute.hpp"
#include "hw_models/context.hpp"
#include "hw_models/dram.hpp"
#include "hw_models/initiator.hpp"
#include "hw_models/plugin_loader.hpp"
#include "hw_models/power/power.hpp"
#include "hw_models/registry.hpp"
#include "hw_models/storage.hpp"

namespace vitro::sim {

struct Processor {
  std::string name;                // "cpu0" (fastest first) ..., "npu"; "ane0", "ane1" where a block says `units: 2`
  std::string core_class;          // "big", "mid", "little"; of an accelerator the name of its block
  UnitKind kind = UnitKind::core;  // by the block that it stands in, whoever made its model
  std::unique_ptr<hw::ComputeModel> model;
  const hw::Params* params = nullptr;

  // Whether two cores have the same clock, bandwidth and macs_per_cycle. Wake-up costs may differ: `vitro calibrate` writes the policy's
  // core as a class of its own for them. Requires: both are cores.
  bool as_fast_as(const Processor& other) const;
};

// What it costs to wake the policy on a core that computes. A thread of its own takes the core from a call in progress and gives it
// back. Where `between_calls` is set it does so only while storage is busy: else the policy computes itself and sees answers when a
// call ends (docs/design/machine-host.md).
struct PolicyWakes {
  Picoseconds latency{0};                    // until it sees another unit's answer, beside that unit's hand_back
  Picoseconds cost{0};                       // by which the call in progress ends later for it
  Picoseconds own_cost{0};                   // by which the next call begins later after an answer of the core's own unit
  std::optional<Picoseconds> between_calls;  // by which the next call begins later for an answer that is seen between two calls
};

// One line of `vitro list devices`.
struct DeviceSummary {
  std::string name, description;
  std::vector<std::pair<std::string, int>> processors;          // ("big", 1), ("mid", 5), ..., ("npu", 1)
  Bytes dram_capacity = 0, dram_available = 0;                  // of the phone, and for one application
  std::vector<std::pair<std::string, int>> parameters_by_kind;  // ("measured", 12), ..., ("default", 9)
};

class Soc {
 public:
  // Throws ConfigError: a missing block, an unknown model (the message lists the known ones), a value without a unit, an
  // unknown key. `context` and `registry` have to outlive it.
  Soc(const Node& device, hw::Context& context, const hw::Registry& registry);

  const std::string& name() const { return name_; }
  std::vector<Processor>& processors() { return processors_; }
  hw::DramModel& dram() { return *dram_; }
  hw::StorageModel& storage() { return *storage_; }
  // Agents that load the DRAM unasked, by name.
  const std::vector<std::pair<std::string, std::unique_ptr<hw::Initiator>>>& initiators() const { return initiators_; }
  // What the host may write over the flash device's life; none: not rated.
  std::optional<double> rated_writes() const;
  hw::FlowPower* power() { return power_ ? &*power_ : nullptr; }
  // Cycles of the policy's core for each unit whose result arrives: a barrier of n units costs n times that, some of it hidden
  // behind those that still work.
  double barrier_cycles() const { return barrier_cycles_; }
  bool calls_together() const { return calls_together_; }    // of a chain, in pieces, where models can
  bool phases_repeated() const { return phases_repeated_; }  // from a record, where models can
  double mapped_page_cycles() const { return mapped_page_cycles_; }
  // Cycles of the policy's core for one unit of policy work.
  double policy_cycles(PolicyWork work) const { return policy_cycles_[static_cast<std::size_t>(work)]; }

  PolicyWakes policy_wakes() const { return wakes_; }

  // The model of each block with its fidelity: "dram lpddr.detailed, cpu core.flow, ufs ufs.flow".
  std::string models() const { return fmt::format("{}", fmt::join(models_, ", ")); }

  // Dotted names of the assumed parameters that were read, without those of processors that are not named in `used`.
  std::vector<std::string> assumed_parameters(const std::vector<std::string>& used) const;
  // A line for each parameter that `file` or an override states (--set) and no model has read: what it says does nothing.
  std::vector<std::string> unread_parameters(const std::string& file) const;
  DeviceSummary summary() const;
  // In the order of the file's blocks.
  void visit_parameters(const std::function<void(const hw::Params&)>& visit) const;

 private:
  void build_dram(Reader& root);
  void build_cpu(Reader& root);
  void build_accelerator(Reader& root, std::string_view name, std::string_view family, UnitKind kind);
  void build_initiators(Reader& root);
  void build_storage(Reader& root);

  std::string name_, description_;
  std::string file_;  // that states its name: whole devices have parameters for either fidelity
  std::vector<std::string> models_;
  hw::Context& context_;
  const hw::Registry& registry_;
  std::unique_ptr<hw::DramModel> dram_;
  std::unique_ptr<hw::StorageModel> storage_;
  std::vector<std::pair<std::string, std::unique_ptr<hw::Initiator>>> initiators_;
  std::vector<Processor> processors_;
  std::optional<hw::FlowPower> power_;
  std::array<double, kPolicyWorks> policy_cycles_{};
  double barrier_cycles_ = 0, mapped_page_cycles_ = 0;
  bool calls_together_ = false, phases_repeated_ = false;
  PolicyWakes wakes_;
  std::vector<std::unique_ptr<hw::Params>> params_;  // models keep references into them
};

// Reads a device file without simulating anything.
DeviceSummary summarise_device(const Node& device);
void visit_parameters(const Node& device, const hw::AddModels& add_models, const std::function<void(const hw::Params&)>& visit);

}  // namespace vitro::sim
