#include "sim/characterize/cross_fidelity.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "hw_models/dram/characterize.hpp"
#include "hw_models/dram/probe.hpp"
#include "hw_models/npu/probe.hpp"
#include "hw_models/ufs/fidelity_pair.hpp"
#include "sim/characterize/bench.hpp"
#include "sim/work.hpp"

namespace vitro::sim {
namespace {

struct Source {
  std::string_view part, family;
  std::string (*objection)(const Node& block);  // why this block has no fidelity pair; empty: it has
  std::vector<std::string> (*cases)();
  std::vector<CrossFidelityRow> (*rows)(const Node& device, const std::string& name);
};

constexpr const char* kReference = "public_simulator";

std::string dram_objection(const Node& block) {
  const Node* part = block.find("part");
  const bool named = part != nullptr && part->is_scalar() && part->text() != "none";
  return named ? "" : "dram.part is missing: without it there is no detailed model to compare with";
}

std::vector<std::string> dram_cases() {
  std::vector<std::string> names{kReference};
  for (const hw::DramPattern& pattern : hw::dram_patterns()) names.push_back(pattern.name);
  return names;
}

std::vector<CrossFidelityRow> dram_rows(const Node& device, const std::string& name) {
  std::vector<CrossFidelityRow> rows;
  if (name == kReference) {
    for (const hw::DramReferenceRow& row : hw::dram_reference_rows()) rows.push_back({row.id, row.unit, row.simulated, row.expected, true});
    return rows;
  }
  const std::vector<hw::DramFidelityRow> twins = hw::dram_fidelity(*device.find("dram"), name);
  rows.push_back({name, "GB/s", twins[0].detailed, twins[0].flow});
  // Of one agent alone the total says it all.
  for (std::size_t i = 1; i < twins.size() && twins.size() > 2; ++i) {
    rows.push_back({fmt::format("{}.{}", name, twins[i].agent), "GB/s", twins[i].detailed, twins[i].flow});
  }
  return rows;
}

std::vector<CrossFidelityRow> ufs_rows(const Node& device, const std::string& name) {
  std::vector<CrossFidelityRow> rows;
  for (const hw::StorageFidelityRow& row : hw::storage_fidelity(*device.find("ufs"), name))
    rows.push_back({row.id, row.unit, row.detailed, row.flow});
  return rows;
}

// Products of a 7B model's FFN and attention, by how many rows they multiply: a decode step, a matrix tile, a piece of a prompt.
constexpr std::uint32_t kProductRows[] = {1, 32, 512};
constexpr std::pair<std::uint32_t, std::uint32_t> kProductShapes[] = {{4096, 4096}, {14336, 4096}, {4096, 14336}};  // n, k

std::vector<std::string> npu_cases() {
  std::vector<std::string> names;
  for (const std::uint32_t m : kProductRows) names.push_back(fmt::format("product_m{}", m));
  return names;
}

std::vector<CrossFidelityRow> npu_rows(const Node& device, const std::string& name) {
  const std::vector<std::string> names = npu_cases();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) throw ConfigError(fmt::format("npu: there is no comparison \"{}\"", name));
  Bench bench(device);  // has the operands
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  std::vector<CrossFidelityRow> rows;
  for (const Format format : {Format::f16, Format::q8_0, Format::q4_0}) {
    for (const auto& [n, k] : kProductShapes) {
      const KernelCall call =
          product_call(bench, {.variant = "float", .format = format, .m = kProductRows[found - names.begin()], .n = n, .k = k});
      const auto microseconds = [&](std::string_view fidelity) {
        hw::NpuBench npu(device, fidelity);
        return to_seconds(npu.call(WorkBuilder(npu.model(), "npu", counts).build(call))) * 1e6;
      };
      rows.push_back({fmt::format("{}_{}_{}x{}", name, to_string(format), n, k), "us", microseconds("detailed"), microseconds("flow")});
    }
  }
  return rows;
}

constexpr Source kSources[] = {
    {"dram", "lpddr", dram_objection, dram_cases, dram_rows},
    {"ufs", "ufs", [](const Node&) { return std::string(); }, hw::storage_fidelity_cases, ufs_rows},
    {"npu", "hexagon", [](const Node&) { return std::string(); }, npu_cases, npu_rows},
};

// A block of our own family; another model need not have two fidelities.
std::string objection(const Source& source, const Node* block) {
  if (block == nullptr) return fmt::format("the device has no {}", source.part);
  const Node* model = block->find("model");
  if (model != nullptr && (!model->is_scalar() || model->text() != source.family)) return "a model of another family";
  return source.objection(*block);
}

}  // namespace

CrossFidelityPlan cross_fidelity_plan(const Node& device) {
  CrossFidelityPlan plan;
  for (const Source& source : kSources) {
    const std::string why = objection(source, device.find(source.part));
    if (!why.empty()) {
      plan.without_twin.emplace_back(source.part, why);
      continue;
    }
    for (std::string& name : source.cases()) plan.cases.push_back({std::string(source.part), std::move(name)});
  }
  return plan;
}

std::vector<CrossFidelityRow> cross_fidelity(const Node& device, const CrossFidelityCase& what) {
  const auto source = std::find_if(std::begin(kSources), std::end(kSources), [&](const Source& s) { return s.part == what.part; });
  if (source == std::end(kSources))
    throw ConfigError(fmt::format("cross-fidelity: there is no comparison for \"{}\" (expected dram, ufs or npu)", what.part));
  const std::string why = objection(*source, device.find(what.part));
  if (!why.empty()) throw ConfigError(fmt::format("cross-fidelity: {}: {}", what.part, why));
  return source->rows(device, what.name);
}

}  // namespace vitro::sim
