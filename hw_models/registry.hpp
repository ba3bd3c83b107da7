// Registry: models by name. Our own folders, plug-ins and models written in Python all come in through add().
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hw_models/compute.hpp"
#include "hw_models/context.hpp"
#include "hw_models/dram.hpp"
#include "hw_models/initiator.hpp"
#include "hw_models/params.hpp"
#include "hw_models/storage.hpp"

namespace vitro::hw {

// Where a model stands in the SoC: its name there and its way to memory.
struct Site {
  Context& context;
  std::string name;           // "cpu0", "npu", "ufs", "dram"
  DramModel* dram = nullptr;  // null for the DRAM itself
  PortId port{};              // its port at the DRAM; of accelerators and storage the parent of the ports that the model adds
};

template <class M>
using Factory = std::function<std::unique_ptr<M>(const Site&, const Params&)>;

template <class M>
struct Entry {
  std::string name, description;  // "ufs.flow": family.fidelity
  std::vector<ParamSpec> params;
  std::vector<std::string> tables;  // keys of ParamTables that the model reads, all optional
  Factory<M> make;
  // Of a model that lies in a file which the block names: reads the keys that say so, and gives the entry that counts instead.
  std::function<Entry(Reader&)> specialise = nullptr;
};

class Registry {
 public:
  // Throws ConfigError on a name that is taken, and on a model without a parameter that its surroundings read: of DRAM
  // `capacity` and `available` (bytes), of storage `link_bandwidth` (its cap at the DRAM).
  void add(Entry<DramModel> entry) { add_to(dram_, std::move(entry)); }
  void add(Entry<StorageModel> entry) { add_to(storage_, std::move(entry)); }
  void add(Entry<ComputeModel> entry) { add_to(compute_, std::move(entry)); }
  void add(Entry<Initiator> entry) { add_to(initiator_, std::move(entry)); }

  // The model that the block read by `reader` asks for with `model:` (or `family`) and `fidelity:` (or flow, unless there is a detailed one
  // alone). The message for an unknown one lists the known ones.
  const Entry<DramModel>& dram(Reader& reader, std::string_view family) const { return find(dram_, reader, family); }
  const Entry<StorageModel>& storage(Reader& reader, std::string_view family) const { return find(storage_, reader, family); }
  const Entry<ComputeModel>& compute(Reader& reader, std::string_view family) const { return find(compute_, reader, family); }
  const Entry<Initiator>& initiator(Reader& reader, std::string_view family) const { return find(initiator_, reader, family); }

  struct Row {
    std::string name, description;
  };
  std::vector<Row> list() const;

 private:
  template <class M>
  using Entries = std::map<std::string, Entry<M>, std::less<>>;
  template <class M>
  void add_to(Entries<M>& entries, Entry<M> entry);
  template <class M>
  const Entry<M>& find(const Entries<M>& entries, Reader& reader, std::string_view family) const;

  Entries<DramModel> dram_;
  Entries<StorageModel> storage_;
  Entries<ComputeModel> compute_;
  Entries<Initiator> initiator_;
};

// One per folder; they list what the folder implements.
void register_dram(Registry& registry);
void register_ufs(Registry& registry);
void register_cpu(Registry& registry);
void register_npu(Registry& registry);
void register_ane(Registry& registry);
void register_gpu(Registry& registry);

Registry builtin_models();

}  // namespace vitro::hw
