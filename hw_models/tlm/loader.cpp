#include "hw_models/tlm/loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "engine/base/path.hpp"
#include "hw_models/dram/detailed.hpp"
#include "hw_models/tlm/agent.hpp"
#include "hw_models/tlm/plugin.hpp"
#include "hw_models/tlm/target_memory.hpp"

namespace vitro::hw {
namespace {

constexpr const char* kTarget = "vitro_tlm_target";
constexpr const char* kInitiator = "vitro_tlm_initiator";

constexpr ParamSpec kDramParams[] = {
    {"capacity", Dimension::bytes, "", ""},
    {"available", Dimension::bytes, "", ""},
    {"bandwidth", Dimension::bandwidth, "1000 GB/s", "no limit beside the target's own"},
    {"latency", Dimension::time, "0 ns", "the target's own time is all"},  // between the target and the agents
    {"transaction", Dimension::bytes, "64 B", "a cache line"},
    {"outstanding", Dimension::none, "64", "transactions that a memory controller has at once"},
    {"answer_within", Dimension::time, "10 ms", "far more than a DRAM takes"},
    {"protocol", Dimension::none, "registered", "", "registered|loosely_timed|approximately_timed"},
};
constexpr ParamSpec kInitiatorParams[] = {
    {"bandwidth", Dimension::bandwidth, "1000 GB/s", "no limit beside the memory's"},
    {"outstanding", Dimension::none, "64", "requests that a memory controller has at once"},
};

constexpr Dimension dimension_of(TlmUnit unit) {
  constexpr Dimension kDimensions[] = {Dimension::none,  Dimension::ratio,     Dimension::time,
                                       Dimension::bytes, Dimension::bandwidth, Dimension::frequency};
  return kDimensions[static_cast<std::size_t>(unit)];
}

const TlmPluginInfo* find_info(const PluginRef& ref, const Library& library, const char* name) {
  const auto* info = static_cast<const TlmPluginInfo*>(symbol(library, name));
  if (info == nullptr) return nullptr;
  if (info->abi != kTlmAbi) {
    fail(ref, fmt::format("was built for TLM plug-in ABI {}, and this vitro has {} (expected a build with this vitro's headers)", info->abi,
                          kTlmAbi));
  }
  if (std::string_view(info->systemc) != SC_VERSION) {
    fail(ref, fmt::format("was built for SystemC {}, and this vitro has {} (expected a build with the same)", info->systemc, SC_VERSION));
  }
  return info;
}

// A module as the device file asks for it. What it was made of lives as long as the process.
struct Module {
  PluginRef ref;
  const TlmPluginInfo* info;
};

Module load(Reader& reader, const char* wanted) {
  const Node* path = reader.raw("plugin");
  if (path == nullptr || path->is_null()) {
    reader.fail("plugin", "is missing (expected the path of a shared object, such as ./acme_dram.so)");
  }
  if (!path->is_scalar()) reader.fail("plugin", "is no text (expected the path of a shared object)");
  const PluginRef ref{path_named_by(*path), path->text(), fmt::format("{}: {}", path->origin().str(), reader.name_of("plugin"))};
  Library library = open_library(ref);
  const bool target = wanted == kTarget;
  const TlmPluginInfo* info = find_info(ref, library, wanted);
  if (info == nullptr) {
    std::string_view has;
    if (symbol(library, target ? kInitiator : kTarget) != nullptr) {
      has = target ? ", but a TLM initiator" : ", but a TLM target";
    } else if (symbol(library, "vitro_plugin") != nullptr) {
      has = ", but device models (expected among `plugins:`)";
    }
    fail(ref, fmt::format("has no TLM {}{} (expected one that says {}, see docs/guide/plugins.md)", target ? "target" : "initiator", has,
                          target ? "VITRO_TLM_TARGET" : "VITRO_TLM_INITIATOR"));
  }
  library.release();  // never unloaded, see plugin.hpp
  return {ref, info};
}

std::vector<ParamSpec> specs(const Module& module, std::span<const ParamSpec> ours) {
  std::vector<ParamSpec> all(ours.begin(), ours.end());
  for (std::size_t i = 0; i < module.info->parameter_count; ++i) {
    const TlmParameter& theirs = module.info->parameters[i];
    if (theirs.key == nullptr) continue;  // kNoParameters
    const std::string_view key = theirs.key;
    if (key == "model" || key == "fidelity" || key == "plugin" ||
        std::any_of(all.begin(), all.end(), [&](const ParamSpec& spec) { return spec.key == key; })) {
      fail(module.ref, fmt::format("has a parameter \"{}\", which is there already (expected another name)", key));
    }
    const std::string_view fallback = theirs.fallback, choices = theirs.choices;
    double value = 0;
    if (!fallback.empty() && choices.empty() && !parse_quantity(fallback, dimension_of(theirs.unit), value)) {
      fail(module.ref, fmt::format("has the default \"{}\" for its parameter \"{}\" (expected {})", fallback, key,
                                   describe(dimension_of(theirs.unit))));
    }
    all.push_back({key, dimension_of(theirs.unit), fallback, theirs.source, choices});
  }
  return all;
}

class Place final : public TlmSite {
 public:
  Place(const Site& site, const Params& params, const Module& module, TlmTargetMemory* memory, TlmAgent* agent)
      : name_(site.name),
        params_(params),
        module_(module),
        seed_(site.context.rng("tlm " + site.name).next()),
        memory_(memory),
        agent_(agent) {}

  // What the plug-in makes here, connected.
  std::unique_ptr<sc_core::sc_module> make() {
    std::unique_ptr<sc_core::sc_module> made;
    try {
      made.reset(module_.info->make(*this));
    } catch (const ConfigError&) {
      throw;
    } catch (const std::exception& error) {
      hw::fail(module_.ref, fmt::format("can not make its module: {}", error.what()));
    }
    if (!made) hw::fail(module_.ref, "made no module");
    if (!connected_) hw::fail(module_.ref, "made a module and connected none of its sockets (expected site.connect(module->socket))");
    return made;
  }

  const char* name() const override { return name_.c_str(); }
  double value(const char* key) const override { return find(key).value; }
  const char* word(const char* key) const override { return find(key).word.c_str(); }
  std::uint64_t seed() const override { return seed_; }
  [[noreturn]] void fail(const char* key, const char* problem) const override {
    find(key);
    params_.fail(key, problem);
  }

 private:
  const Param& find(const char* key) const {
    for (const Param& param : params_.all()) {
      if (param.name != fmt::format("{}.{}", params_.path(), key)) continue;
      param.read = true;
      return param;
    }
    hw::fail(module_.ref, fmt::format("asks for \"{}\", which is none of its parameters", key));
  }

  void connect_target(sc_core::sc_export<tlm::tlm_fw_transport_if<>>& forward,
                      sc_core::sc_port_b<tlm::tlm_bw_transport_if<>>& backward) override {
    note_connection(memory_ != nullptr, "a target");
    memory_->connect(forward, backward);
  }
  void connect_initiator(sc_core::sc_port_b<tlm::tlm_fw_transport_if<>>& forward,
                         sc_core::sc_export<tlm::tlm_bw_transport_if<>>& backward) override {
    note_connection(agent_ != nullptr, "an initiator");
    agent_->connect(forward, backward);
  }
  void note_connection(bool fits, std::string_view what) {
    if (!fits) hw::fail(module_.ref, fmt::format("connects {} socket where there is none to serve", what));
    if (std::exchange(connected_, true)) hw::fail(module_.ref, "connects a second socket (expected one)");
  }

  std::string name_;
  const Params& params_;
  const Module& module_;
  std::uint64_t seed_;
  TlmTargetMemory* memory_;
  TlmAgent* agent_;
  bool connected_ = false;
};

std::uint32_t outstanding(const Params& params) {
  const double value = params.number("outstanding");
  if (value < 1 || value > 4096 || value != std::floor(value)) params.fail("outstanding", "must be a whole number from 1 to 4096");
  return static_cast<std::uint32_t>(value);
}

bool loosely_timed(const Params& params, const Module& module) {
  const std::string& word = params.word("protocol");
  const std::uint32_t known = module.info->protocols;
  if (word == "registered") return (known & kApproximatelyTimed) == 0;  // the closer look where there is one
  const bool loose = word == "loosely_timed";
  if ((known & (loose ? kLooselyTimed : kApproximatelyTimed)) == 0) {
    params.fail("protocol", fmt::format("\"{}\" is not what the target \"{}\" has registered", word, module.info->name));
  }
  return loose;
}

std::unique_ptr<DramModel> make_dram(const Site& site, const Params& params, const Module& module) {
  TlmTargetMemory::Limits limits;
  limits.capacity = params.bytes("capacity");
  limits.line = params.bytes("transaction");
  if (limits.line < 8 || limits.line > 64 * KiB || (limits.line & (limits.line - 1)) != 0) {
    params.fail("transaction", "must be a power of two from 8 B to 64 KiB");
  }
  if (limits.capacity < limits.line) params.fail("capacity", "is less than one transaction");
  limits.outstanding = outstanding(params);
  limits.answer_within = params.time("answer_within");
  if (limits.answer_within.count() == 0) params.fail("answer_within", "must be more than 0");
  limits.loosely_timed = loosely_timed(params, module);
  auto memory = std::make_unique<TlmTargetMemory>(fmt::format("vitro_{}", site.name).c_str(), site.context, limits, module.info->name);
  memory->keep(Place(site, params, module, memory.get(), nullptr).make());
  // A port has no window of its own: what the target has at once is the limit.
  return std::make_unique<DetailedDram>(
      site, std::move(memory), DetailedDram::Limits{params.bandwidth("bandwidth"), limits.outstanding, params.time("latency")});
}

class TlmInitiator final : public Initiator {
 public:
  TlmInitiator(const Site& site, const Params& params, const Module& module)
      : agent_(fmt::format("vitro_{}", site.name).c_str(), site.context, *site.dram,
               site.dram->add_port({site.name, params.bandwidth("bandwidth"), site.port}), outstanding(params), module.info->name),
        module_(Place(site, params, module, nullptr, &agent_).make()) {}
  double bytes_moved(Picoseconds begin, Picoseconds end) override { return agent_.bytes_moved(begin, end); }

 private:
  TlmAgent agent_;
  std::unique_ptr<sc_core::sc_module> module_;
};

template <class M, class Make>
Entry<M> entry_of(std::string_view family, Reader& reader, const char* symbol, std::span<const ParamSpec> ours, Make make) {
  const Module module = load(reader, symbol);
  return {fmt::format("{}.detailed {}", family, module.info->name), module.info->description, specs(module, ours), {},
          [make, module](const Site& site, const Params& params) { return make(site, params, module); }};
}

std::vector<ParamSpec> list_of(std::span<const ParamSpec> specs) { return {specs.begin(), specs.end()}; }

}  // namespace

void register_tlm(Registry& registry) {
  Entry<DramModel> dram{"tlm.detailed", "DRAM: a SystemC module of the plug-in that the block names, at a TLM-2.0 socket",
                        list_of(kDramParams)};
  dram.specialise = [](Reader& reader) { return entry_of<DramModel>("tlm", reader, kTarget, kDramParams, make_dram); };
  registry.add(std::move(dram));
  Entry<Initiator> initiator{"tlm_initiator.detailed", "an agent that loads the DRAM: a SystemC module of the plug-in that the block names",
                             list_of(kInitiatorParams)};
  initiator.specialise = [](Reader& reader) {
    return entry_of<Initiator>("tlm_initiator", reader, kInitiator, kInitiatorParams,
                               [](const Site& site, const Params& params, const Module& module) -> std::unique_ptr<Initiator> {
                                 return std::make_unique<TlmInitiator>(site, params, module);
                               });
  };
  registry.add(std::move(initiator));
}

std::optional<TlmModules> tlm_modules(const PluginRef& ref) {
  Library library = open_library(ref);
  TlmModules all;
  for (const char* name : {kTarget, kInitiator}) {
    const TlmPluginInfo* info = find_info(ref, library, name);
    if (info == nullptr) continue;
    if (all.models.empty()) all.name = info->name, all.description = info->description;
    all.models.emplace_back(name == kTarget ? "tlm" : "tlm_initiator");
    for (const ParamSpec& spec : specs({ref, info}, {})) all.keys.emplace_back(spec.key);
  }
  if (all.models.empty()) return std::nullopt;
  library.release();  // as in load()
  return all;
}

}  // namespace vitro::hw
