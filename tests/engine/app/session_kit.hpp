// Whole runs of the embedded models on virtual machines.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/app/session.hpp"
#include "engine/base/rng.hpp"
#include "engine/machine/host_decorator.hpp"
#include "engine/testing/faulty_storage.hpp"
#include "engine/virtual/virtual_machine.hpp"
#include "tests/source_path.hpp"

namespace vitro::test {

using Json = nlohmann::ordered_json;

inline const std::string kModels = source_path("configs/models/embedded/");
inline constexpr const char *kDense = "stories-reglu-3m.f16.gguf", *kMixture = "stories-moe-6m.f16.gguf";

// Units and flash take random times: every seed is another timing of the same decisions.
inline VirtualMachineSpec random_times(const MachineRequest& request, std::uint64_t seed) {
  auto rng = std::make_shared<Rng>(seed);
  VirtualMachineSpec spec;
  for (std::uint32_t i = 0; i < std::max<std::size_t>(request.units.size(), request.threads); ++i) {
    UnitCaps caps;
    caps.id = UnitId(i);
    caps.name = "cpu" + std::to_string(i);
    spec.units.push_back(caps);
  }
  spec.memory_limits = {request.dram_budget.value_or(GiB), 0, 0, 0};
  spec.phantom = request.phantom;
  spec.shuffle = seed;
  spec.price = [rng](const UnitCaps&, const KernelCall&) { return Picoseconds(1000 + static_cast<std::int64_t>(rng->below(100000))); };
  spec.read_price = [rng](const ReadRequest&) { return Picoseconds(1000 + static_cast<std::int64_t>(rng->below(1000000))); };
  return spec;
}

inline MachineFactory random_machines(std::uint64_t seed) {
  return [seed](const MachineRequest& request, Function& function, TraceSink& trace) -> std::unique_ptr<MachineHost> {
    return std::make_unique<VirtualMachine>(random_times(request, seed), function, trace);
  };
}

// A machine whose flash fails where plans say so. A plan may also just look at what is asked of it.
class FlashByPlan final : public HostDecorator {
 public:
  FlashByPlan(std::unique_ptr<MachineHost> inner, FaultyStorage::ReadPlan reads, FaultyStorage::WritePlan writes)
      : HostDecorator(std::move(inner)), storage_(inner_->machine().storage, std::move(reads), std::move(writes)) {
    Machine& m = inner_->machine();
    machine_.emplace(Machine{m.executor, m.clock, m.units, storage_, m.memory, m.trace, m.seed});
  }
  Machine& machine() override { return *machine_; }

 private:
  FaultyStorage storage_;
  std::optional<Machine> machine_;
};

inline MachineFactory flash_by_plan(MachineFactory inner, FaultyStorage::ReadPlan reads = {}, FaultyStorage::WritePlan writes = {}) {
  return [=](const MachineRequest& request, Function& function, TraceSink& trace) -> std::unique_ptr<MachineHost> {
    return std::make_unique<FlashByPlan>(inner(request, function, trace), reads, writes);
  };
}
inline MachineFactory faulty_machines(std::uint64_t seed, FaultyStorage::ReadPlan reads = {}, FaultyStorage::WritePlan writes = {}) {
  return flash_by_plan(random_machines(seed), std::move(reads), std::move(writes));
}

// A folder of the test's own, and runs in it.
class Sessions : public testing::Test {
 protected:
  Sessions() : folder_(std::filesystem::temp_directory_path() / ("vitro_sessions_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Sessions() override { std::filesystem::remove_all(folder_); }

  // model: a path, or the name of an embedded one. engine, extra: JSON; extra's keys are paths.
  static Node experiment(const std::string& model, const std::string& engine, const std::string& extra = "{}") {
    Node root =
        parse_json(R"({"experiment": "e", "machine": "host", "workload": {"prompt": "Once upon a time", "output_tokens": 12}})", "e.json");
    root.set("model", parse_json(Json{{"gguf", model.find('/') == std::string::npos ? kModels + model : model}}.dump(), "e.json"));
    root.set("engine", parse_json(engine, "e.json"));
    const Node more = parse_json(extra, "e.json");
    for (const auto& [key, value] : more.entries()) root.set_path(key, value);
    return root;
  }
  Json run(const Node& root, const MachineFactory& machines, const std::string& out = "") const {
    return run_experiment(read_experiment(root), {out, (folder_ / "cache").string(), nullptr}, machines);
  }
  std::filesystem::path folder_;
};

}  // namespace vitro::test
