#include "hw_models/ufs/probe.hpp"

#include <algorithm>

#include "engine/base/hash.hpp"
#include "hw_models/registry.hpp"

namespace vitro::hw {
namespace {

class Prober {
 public:
  Prober(StorageModel& model, EventLoop& loop, const StorageProbe& probe) : model_(model), loop_(loop), probe_(probe), rng_(probe.seed) {
    VITRO_CHECK(probe.block > 0 && probe.range >= probe.block && !probe.cores.empty() && probe.depth > 0, "a probe asks for something");
    for (std::size_t i = 0; i < probe.cores.size(); ++i) cores_.push_back({model.issue_time(probe.cores[i]), loop.now(), i * part()});
  }

  StorageProbeResult run() {
    for (std::uint32_t i = 0; i < probe_.depth; ++i) {
      for (std::uint16_t core = 0; core < cores_.size(); ++core) issue(core);
    }
    while (ended_ < probe_.warm_up + probe_.commands) loop_.step();
    const StorageProbeResult measured = result();
    stopped_ = true;
    while (outstanding_ > 0) loop_.step();  // the callbacks of commands in flight lead back here
    return measured;
  }

 private:
  struct Core {
    Picoseconds issue_time, free;
    std::uint64_t position = 0;
  };

  Bytes part() const { return probe_.range / probe_.cores.size() / probe_.block * probe_.block; }

  std::uint64_t next_address(std::size_t index) {
    if (!probe_.sequential) return rng_.below(probe_.range / probe_.block) * probe_.block;
    Core& core = cores_[index];
    const std::uint64_t address = core.position;
    core.position += probe_.block;
    if (core.position >= (index + 1) * part()) core.position = index * part();
    return address;
  }

  // The core spends its issue time, then the device has the command; a core issues one at a time.
  void issue(std::uint16_t index) {
    if (stopped_) return;
    ++outstanding_;
    Core& core = cores_[index];
    const Picoseconds begin = std::max(core.free, loop_.now());
    core.free = begin + core.issue_time;
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(operations_.size()));
      operations_.emplace_back();
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    operations_[slot] = {begin, index};
    loop_.at(core.free, {}, [this, slot] { submit(slot); });
  }

  void submit(std::uint32_t slot) {
    const std::uint16_t core = operations_[slot].core;
    most_in_flight_ = std::max(most_in_flight_, ++in_flight_);
    model_.submit({next_address(core), probe_.block, probe_.write, probe_.sequential, core}, [this, slot] { end(slot); });
  }

  void end(std::uint32_t slot) {
    --in_flight_;
    --outstanding_;
    const Operation operation = operations_[slot];
    free_.push_back(slot);
    hash_.add(static_cast<std::uint64_t>(loop_.now().count()));
    if (++ended_ == probe_.warm_up) counted_from_ = loop_.now();
    if (ended_ > probe_.warm_up && ended_ <= probe_.warm_up + probe_.commands) latencies_.push_back(loop_.now() - operation.begin);
    issue(operation.core);
  }

  StorageProbeResult result() {
    StorageProbeResult result;
    const double seconds = to_seconds(loop_.now() - counted_from_);
    result.commands_per_second = static_cast<double>(probe_.commands) / seconds;
    result.bytes_per_second = result.commands_per_second * static_cast<double>(probe_.block);
    std::sort(latencies_.begin(), latencies_.end());
    const auto last = static_cast<double>(latencies_.size() - 1);
    const auto at = [this, last](double share) { return latencies_[static_cast<std::size_t>(share * last)]; };
    Picoseconds sum{0};
    for (const Picoseconds latency : latencies_) sum += latency;
    result.mean = sum / static_cast<std::int64_t>(latencies_.size());
    result.p50 = at(0.5);
    result.p99 = at(0.99);
    result.p999 = at(0.999);
    result.most = latencies_.back();
    result.most_in_flight = most_in_flight_;
    result.hash = hash_.value();
    return result;
  }

  struct Operation {
    Picoseconds begin{0};
    std::uint16_t core = 0;
  };

  StorageModel& model_;
  EventLoop& loop_;
  const StorageProbe& probe_;
  Rng rng_;
  std::vector<Core> cores_;
  std::vector<Operation> operations_;
  std::vector<std::uint32_t> free_;
  std::uint64_t ended_ = 0;
  std::uint32_t in_flight_ = 0, most_in_flight_ = 0;  // at the device
  std::uint64_t outstanding_ = 0;                     // being issued too
  bool stopped_ = false;
  Picoseconds counted_from_{0};
  std::vector<Picoseconds> latencies_;
  Hash hash_;
};

}  // namespace

StorageProbeResult run(StorageModel& model, EventLoop& loop, const StorageProbe& probe) {
  Prober prober(model, loop, probe);
  return prober.run();
}

StorageBench::StorageBench(const Node& storage, std::uint64_t seed) : loop_(seed) {
  Node memory = Node::map({});
  memory.set("bandwidth", Node::scalar("1000 GB/s"));
  memory.set("latency", Node::scalar("110 ns"));
  for (const char* key : {"capacity", "available"}) memory.set(key, Node::scalar("24 GB"));
  Reader memory_reader(memory, "dram");
  dram_params_ = std::make_unique<Params>(memory_reader, FlowDram::params());
  dram_ = std::make_unique<FlowDram>(Site{loop_, "dram", nullptr, kMemoryController}, *dram_params_);

  Registry registry;
  register_ufs(registry);
  Reader reader(storage, "ufs");
  const Entry<StorageModel>& entry = registry.storage(reader, "ufs");
  params_ = std::make_unique<Params>(reader, entry.params);
  reader.finish();
  const PortId port = dram_->add_port({"ufs", {1000e9}});
  model_ = entry.make(Site{loop_, "ufs", dram_.get(), port}, *params_);
}

StorageProbeResult run(const Node& storage, const StorageProbe& probe) {
  StorageBench bench(storage, probe.seed);
  return run(bench.model(), bench.loop(), probe);
}

}  // namespace vitro::hw
