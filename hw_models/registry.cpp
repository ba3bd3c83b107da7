#include "hw_models/registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace vitro::hw {

namespace {

void require(std::string_view model, const std::vector<ParamSpec>& params, std::string_view key, Dimension dimension) {
  for (const ParamSpec& spec : params) {
    if (spec.key == key && spec.dimension == dimension) return;
  }
  throw ConfigError(fmt::format("the device model \"{}\" has no parameter \"{}\" (expected {})", model, key, describe(dimension)));
}

}  // namespace

template <class M>
void Registry::add_to(Entries<M>& entries, Entry<M> entry) {
  const std::string name = entry.name;
  if constexpr (std::is_same_v<M, DramModel>) {
    require(name, entry.params, "capacity", Dimension::bytes);
    require(name, entry.params, "available", Dimension::bytes);
  }
  if constexpr (std::is_same_v<M, StorageModel>) require(name, entry.params, "link_bandwidth", Dimension::bandwidth);
  if (dram_.contains(name) || storage_.contains(name) || compute_.contains(name) || initiator_.contains(name)) {
    throw ConfigError(fmt::format("a device model named \"{}\" is already registered", name));
  }
  entries.emplace(name, std::move(entry));
}

template void Registry::add_to(Entries<DramModel>&, Entry<DramModel>);
template void Registry::add_to(Entries<StorageModel>&, Entry<StorageModel>);
template void Registry::add_to(Entries<ComputeModel>&, Entry<ComputeModel>);
template void Registry::add_to(Entries<Initiator>&, Entry<Initiator>);

template <class M>
const Entry<M>& Registry::find(const Entries<M>& entries, Reader& reader, std::string_view family) const {
  const std::string model = reader.text("model", family);
  std::string fidelity = reader.choice("fidelity", {"flow", "detailed"}, "flow");
  if (!reader.has("fidelity") && !entries.contains(model + ".flow") && entries.contains(model + ".detailed")) fidelity = "detailed";
  const auto found = entries.find(fmt::format("{}.{}", model, fidelity));
  if (found != entries.end()) return found->second;
  std::vector<std::string_view> known;
  for (const auto& [name, entry] : entries) known.push_back(name);
  reader.fail(reader.has("model") ? "model" : "fidelity",
              fmt::format("there is no model \"{}.{}\" (expected one of: {})", model, fidelity, fmt::join(known, ", ")));
}

template const Entry<DramModel>& Registry::find(const Entries<DramModel>&, Reader&, std::string_view) const;
template const Entry<StorageModel>& Registry::find(const Entries<StorageModel>&, Reader&, std::string_view) const;
template const Entry<ComputeModel>& Registry::find(const Entries<ComputeModel>&, Reader&, std::string_view) const;
template const Entry<Initiator>& Registry::find(const Entries<Initiator>&, Reader&, std::string_view) const;

std::vector<Registry::Row> Registry::list() const {
  std::vector<Row> rows;
  const auto append = [&rows](const auto& entries) {
    for (const auto& [name, entry] : entries) rows.push_back({name, entry.description});
  };
  append(compute_);
  append(dram_);
  append(initiator_);
  append(storage_);
  return rows;
}

Registry builtin_models() {
  Registry registry;
  register_cpu(registry);
  register_npu(registry);
  register_ane(registry);
  register_gpu(registry);
  register_dram(registry);
  register_ufs(registry);
  return registry;
}

}  // namespace vitro::hw
