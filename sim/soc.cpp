#include "sim/soc.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "hw_models/tlm/loader.hpp"

namespace vitro::sim {
namespace {

constexpr hw::ParamSpec kCpuParams[] = {
    {"bandwidth", Dimension::bandwidth, "", ""},  // of all cores together: the CPU's port at the DRAM
    {"cache_lookup_cycles", Dimension::none, "60", "one hash-map probe that hits the second-level cache"},
    {"cache_update_cycles", Dimension::none, "150", "relinking an entry and a hash-map update"},
    {"plan_step_cycles", Dimension::none, "300", "choosing where one operation goes"},
    {"submit_cycles", Dimension::none, "500", "filling and publishing one request to a unit"},
    {"checksum_cycles", Dimension::none, "1950", "reading a page of 4 KiB that has just landed, and summing it up"},
    {"mapped_page_cycles", Dimension::none, "0", "not measured: pages that come through a mapping cost their core nothing"},
    {"barrier_cycles", Dimension::none, "300", "a result's cache line from another core, an inbox entry, a coroutine resumed"},
    {"calls", Dimension::none, "together", "a chain is simulated in pieces of several calls", "each|together"},
    {"phases", Dimension::none, "repeated", "a phase like an earlier one is replayed: results are the same", "repeated|each"},
};
// By PolicyWork, without the last, which is among what waking the policy costs.
constexpr std::string_view kPolicyKeys[] = {"cache_lookup_cycles", "cache_update_cycles", "plan_step_cycles", "submit_cycles",
                                          "checksum_cycles"};
static_assert(std::size(kPolicyKeys) + 1 == kPolicyWorks);

constexpr std::string_view kWakeCosts = "wake_costs";  // a table, of measured devices alone
constexpr std::string_view kWakeKeys[] = {"interrupt_latency_us", "interrupt_cost_us", "switch_cost_us", "answer_between_calls_us",
                                          "page_fault_cycles"};

double entry(const hw::ParamTable& table, std::string_view key) {
  const auto found = table.values.find(key);
  return found == table.values.end() ? 0 : found->second;
}

void refuse_unknown(const hw::ParamTable& table) {
  for (const auto& [key, value] : table.values) {
    if (std::ranges::find(kWakeKeys, key) == std::end(kWakeKeys)) {
      table.fail(key, fmt::format("unknown key (expected one of: {})", fmt::join(kWakeKeys, ", ")));
    }
  }
}

// A parameter of a memory model, without counting it as used. Requires: every memory model has it (hw::Registry).
Bytes stated_bytes(const hw::Params& params, std::string_view name) {
  return static_cast<Bytes>(std::ranges::find(params.all(), name, &hw::Param::name)->value);
}

// Parameters of a block, unknown keys refused. The caller consumed the keys that are not parameters.
template <class M>
std::unique_ptr<hw::Params> read_params(Reader& reader, const hw::Entry<M>& entry) {
  auto params = std::make_unique<hw::Params>(reader, entry.params);
  for (const std::string& table : entry.tables) params->add_table(reader, table, false);
  reader.finish();
  return params;
}

// The entry that counts: of a model in a file which the block names, that file's.
template <class M>
hw::Entry<M> chosen(const hw::Entry<M>& entry, Reader& reader) {
  return entry.specialise ? entry.specialise(reader) : entry;
}

// A device without memory, cores or flash is none. The message says what such a block looks like.
Reader required(Reader& root, std::string_view key, std::string_view expected) {
  if (!root.has(key)) root.fail(key, fmt::format("is missing (expected a block such as {})", expected));
  return root.child(key);
}

// Context of a device that is only looked at.
class NoContext final : public hw::Context {
 public:
  Picoseconds now() const override { return Picoseconds(0); }
  void at(Picoseconds, hw::Label, hw::Callback) override {}
  std::uint16_t device(std::string_view) override { return 0; }
  Rng& rng(std::string_view) override { return rng_; }
  bool tracing() const override { return false; }
  hw::Track track(std::string_view, std::string_view) override { return {}; }
  void span(hw::Track, Picoseconds, Picoseconds, std::string_view) override {}
  void counter(hw::Track, double) override {}

 private:
  Rng rng_{0};
};

}  // namespace

Soc::Soc(const Node& device, hw::Context& context, const hw::Registry& registry) : context_(context), registry_(registry) {
  Reader root(device, "");
  name_ = root.text("name");
  if (const std::string* const file = device.find("name")->origin().file.get(); file != nullptr) file_ = *file;
  description_ = root.text("description", "");
  build_dram(root);
  build_cpu(root);
  build_accelerator(root, "npu", "hexagon", UnitKind::npu);
  build_accelerator(root, "ane", "ane", UnitKind::npu);
  build_accelerator(root, "gpu", "gpu", UnitKind::gpu);
  build_initiators(root);
  build_storage(root);
  if (std::optional<Reader> reader = root.optional_child("power")) {
    power_.emplace(*reader);
    reader->finish();
  }
  root.ignore("plugins");      // whoever made the registry has read them
  root.ignore("calibration");  // what a measured file says of its own making, for those who read results
  root.finish();
}

void Soc::build_dram(Reader& root) {
  Reader reader = required(root, "dram", "dram: {bandwidth: 51 GB/s, capacity: 12 GB, available: 9 GB}");
  const hw::Entry<hw::DramModel> entry = chosen(registry_.dram(reader, "lpddr"), reader);
  models_.push_back(fmt::format("dram {}", entry.name));
  params_.push_back(read_params(reader, entry));
  const hw::Params& params = *params_.back();
  if (const Bytes capacity = stated_bytes(params, "dram.capacity"); stated_bytes(params, "dram.available") > capacity) {
    params.fail("available", fmt::format("is above the capacity (expected at most {} bytes)", capacity));
  }
  dram_ = entry.make({context_, "dram", nullptr, hw::kMemoryController}, *params_.back());
}

void Soc::build_cpu(Reader& root) {
  Reader reader = required(root, "cpu", "cpu: {bandwidth: 38 GB/s, clusters: [...]}");
  auto cpu = std::make_unique<hw::Params>(reader, kCpuParams);
  barrier_cycles_ = cpu->number("barrier_cycles");
  // Memory that looks at single accesses gets those of each call.
  const bool fluid = dynamic_cast<const hw::ReplayableDram*>(dram_.get()) != nullptr;
  calls_together_ = fluid && cpu->word("calls") == "together";
  phases_repeated_ = cpu->word("phases") == "repeated";
  mapped_page_cycles_ = cpu->number("mapped_page_cycles");
  for (std::size_t i = 0; i < std::size(kPolicyKeys); ++i) policy_cycles_[i] = cpu->number(kPolicyKeys[i]);
  cpu->add_table(reader, kWakeCosts, false);
  const hw::ParamTable& costs = cpu->table(kWakeCosts);
  refuse_unknown(costs);
  policy_cycles_.back() = entry(costs, "page_fault_cycles");
  const auto time = [&](std::string_view key) { return from_seconds(entry(costs, key) * 1e-6); };
  wakes_ = {time("interrupt_latency_us"), time("interrupt_cost_us"), time("switch_cost_us"), {}};
  if (costs.values.contains("answer_between_calls_us")) wakes_.between_calls = time("answer_between_calls_us");
  const hw::PortId port = dram_->add_port({"cpu", cpu->bandwidth("bandwidth"), hw::kMemoryController, 1});
  params_.push_back(std::move(cpu));
  const hw::Entry<hw::ComputeModel>& entry = registry_.compute(reader, "core");
  models_.push_back(fmt::format("cpu {}", entry.name));
  for (const std::string_view key : {"core_bandwidth", "cluster_bandwidth"}) {
    if (std::none_of(entry.params.begin(), entry.params.end(), [key](const hw::ParamSpec& spec) { return spec.key == key; })) {
      reader.fail("model", fmt::format("\"{}\" is not a model of a CPU core (it has no parameter \"{}\")", entry.name, key));
    }
  }

  const std::vector<Node>& clusters = reader.list("clusters");
  if (clusters.empty()) reader.fail("clusters", "is empty (expected one block per core class, fastest first)");
  int index = 0;
  for (const Node& node : clusters) {
    Reader inner(node, fmt::format("cpu.{}", node.is_map() && node.find("class") != nullptr ? node.find("class")->text() : "clusters"));
    const std::string core_class = inner.text("class");
    const auto cores = static_cast<int>(inner.integer("cores", 1, 256));
    params_.push_back(read_params(inner, entry));
    const hw::Params& params = *params_.back();
    // Siblings share a saturated CPU port in proportion to what they could take.
    const BytesPerSecond core_cap = params.bandwidth("core_bandwidth"), cluster_cap = params.bandwidth("cluster_bandwidth");
    const hw::PortId cluster = dram_->add_port({core_class, cluster_cap, port, std::min(cluster_cap.value, cores * core_cap.value)});
    for (int i = 0; i < cores; ++i) {
      std::string name = fmt::format("cpu{}", index++);
      const hw::PortId core = dram_->add_port({name, core_cap, cluster, 1});
      processors_.push_back({name, core_class, UnitKind::core, entry.make({context_, name, dram_.get(), core}, params), &params});
      const std::size_t last = processors_.size() - 1;
      if (last > 0 && processors_[last].model->clock().value > processors_[last - 1].model->clock().value) {
        inner.fail("clock", "is above that of the cluster before it (expected clusters in descending order of speed)");
      }
    }
  }
  reader.finish();
}

void Soc::build_accelerator(Reader& root, std::string_view name, std::string_view family, UnitKind kind) {
  if (!root.has(name)) return;
  Reader reader = root.child(name);
  const hw::Entry<hw::ComputeModel>& entry = registry_.compute(reader, family);
  models_.push_back(fmt::format("{} {}", name, entry.name));
  const auto units = static_cast<int>(reader.integer("units", 1, 16, 1));
  params_.push_back(read_params(reader, entry));
  const hw::Params& params = *params_.back();
  for (int i = 0; i < units; ++i) {
    const std::string unit = units == 1 ? std::string(name) : fmt::format("{}{}", name, i);
    const hw::Site site{context_, unit, dram_.get(), hw::kMemoryController};
    processors_.push_back({unit, std::string(name), kind, entry.make(site, params), &params});
  }
}

void Soc::build_initiators(Reader& root) {
  std::optional<Reader> blocks = root.optional_child("initiators");
  if (!blocks) return;
  for (const auto& [name, node] : blocks->node().entries()) {
    if (!blocks->has(name)) continue;  // `camera:` with nothing behind it removes an included one
    Reader reader = blocks->child(name);
    const hw::Entry<hw::Initiator> entry = chosen(registry_.initiator(reader, "tlm_initiator"), reader);
    models_.push_back(fmt::format("{} {}", name, entry.name));
    params_.push_back(read_params(reader, entry));
    initiators_.emplace_back(name, entry.make({context_, name, dram_.get(), hw::kMemoryController}, *params_.back()));
  }
  blocks->finish();
}

void Soc::build_storage(Reader& root) {
  Reader reader = required(root, "ufs", "ufs: {include: ../storage/ufs4_0.yaml}");
  const hw::Entry<hw::StorageModel>& entry = registry_.storage(reader, "ufs");
  models_.push_back(fmt::format("ufs {}", entry.name));
  params_.push_back(read_params(reader, entry));
  const hw::Params& params = *params_.back();
  storage_ = entry.make({context_, "ufs", dram_.get(), hw::kMemoryController}, params);
}

std::optional<double> Soc::rated_writes() const {
  for (const hw::Param& param : params_.back()->all()) {
    if (!param.name.ends_with(".rated_writes") || param.value == 0) continue;
    param.read = true;
    return param.value;
  }
  return std::nullopt;
}

std::vector<std::string> Soc::assumed_parameters(const std::vector<std::string>& used) const {
  std::set<const hw::Params*> idle;
  for (const Processor& processor : processors_) idle.insert(processor.params);
  for (const Processor& processor : processors_) {
    if (std::find(used.begin(), used.end(), processor.name) != used.end()) idle.erase(processor.params);
  }
  std::vector<std::string> names;
  const auto append = [&names](const hw::Params& params) {
    for (std::string& name : params.assumed_and_read()) names.push_back(std::move(name));
  };
  for (const auto& params : params_) {
    if (!idle.contains(params.get())) append(*params);
  }
  if (power_) {
    for (const hw::Params* params : power_->params()) append(*params);
  }
  return names;
}

std::vector<std::string> Soc::unread_parameters(const std::string& file) const {
  std::vector<std::string> lines;
  visit_parameters([&](const hw::Params& params) {
    for (const hw::Param& param : params.all()) {
      const std::string* const from = param.origin.file.get();
      if (param.read || from == nullptr || param.source.starts_with("default") || *from == file_) continue;
      if (*from != file && !from->starts_with("--set ")) continue;
      lines.push_back(fmt::format("device.{} ({}) does nothing here: no model that this run uses reads it ({})", param.name,
                                  param.origin.str(), models()));
    }
  });
  return lines;
}

bool Processor::as_fast_as(const Processor& other) const {
  if (core_class == other.core_class) return true;
  const auto rates = [](const Processor& core) {
    const auto table = core.params->tables().find("macs_per_cycle");
    return table == core.params->tables().end() ? std::map<std::string, double, std::less<>>{} : table->second.values;
  };
  constexpr std::string_view kLink = "core_bandwidth";
  return model->clock().value == other.model->clock().value && rates(*this) == rates(other) &&
         params->bandwidth(kLink).value == other.params->bandwidth(kLink).value;
}

DeviceSummary Soc::summary() const {
  DeviceSummary summary{name_, description_, {}, 0, 0, {}};
  for (const Processor& processor : processors_) {
    if (summary.processors.empty() || summary.processors.back().first != processor.core_class) {
      summary.processors.emplace_back(processor.core_class, 0);
    }
    ++summary.processors.back().second;
  }
  summary.dram_capacity = stated_bytes(*params_.front(), "dram.capacity");
  summary.dram_available = stated_bytes(*params_.front(), "dram.available");
  std::map<std::string, int> kinds;
  visit_parameters([&kinds](const hw::Params& params) {
    for (const hw::Param& param : params.all()) {
      if (!param.word.empty()) continue;  // a decision, not a number
      ++kinds[param.source.starts_with("default") ? "default" : std::string(to_string(param.kind))];
    }
    for (const auto& [key, table] : params.tables()) ++kinds[std::string(to_string(table.kind))];
  });
  for (const std::string kind : {"spec", "measured", "derived", "scaled", "fitted", "assumed", "default"}) {
    if (kinds.contains(kind)) summary.parameters_by_kind.emplace_back(kind, kinds[kind]);
  }
  return summary;
}

void Soc::visit_parameters(const std::function<void(const hw::Params&)>& visit) const {
  for (const auto& params : params_) visit(*params);
  if (!power_) return;
  for (const hw::Params* params : power_->params()) visit(*params);
}

DeviceSummary summarise_device(const Node& device) {
  NoContext context;
  const hw::Registry registry = hw::models_for(device, nullptr, hw::register_tlm);
  return Soc(device, context, registry).summary();
}

void visit_parameters(const Node& device, const hw::AddModels& add_models, const std::function<void(const hw::Params&)>& visit) {
  NoContext context;
  const hw::Registry registry = hw::models_for(device, add_models, hw::register_tlm);
  Soc(device, context, registry).visit_parameters(visit);
}

}  // namespace vitro::sim
