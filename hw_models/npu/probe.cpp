#include "hw_models/npu/probe.hpp"

#include <algorithm>
#include <deque>

namespace vitro::hw {
namespace {

// HVX threads that each read block after block; the DMA engine works on one descriptor at a time.
class Readers {
 public:
  Readers(EventLoop& loop, MemoryPorts& ports, const HexagonParameters& parts, const ReadProbe& probe)
      : loop_(loop), ports_(ports), planner_(parts), probe_(probe), left_(probe.threads, probe.blocks) {
    plan_.path = probe.path;
  }

  void run() {
    for (std::uint32_t thread = 0; thread < probe_.threads; ++thread) next(thread);
    while (!loop_.empty()) loop_.step();
  }

 private:
  void next(std::uint32_t thread) {
    if (left_[thread]-- == 0) return;
    waiting_.push_back(thread);
    if (probe_.path != Path::dma || waiting_.size() == 1) start();
  }

  void start() {
    const std::uint32_t thread = waiting_.front();
    const Picoseconds control = from_seconds(planner_.control_time(plan_, probe_.rows));
    loop_.at(loop_.now() + control, {}, [this, thread] { read(thread); });
    if (probe_.path != Path::dma) waiting_.pop_front();
  }

  void read(std::uint32_t thread) {
    const Picoseconds pace = from_seconds(planner_.least_time(plan_, probe_.block));
    ports_.move(probe_.path, probe_.block, 0, pace, [this, thread] {
      if (probe_.path == Path::dma) {
        waiting_.pop_front();
        if (!waiting_.empty()) start();
      }
      next(thread);
    });
  }

  EventLoop& loop_;
  MemoryPorts& ports_;
  TilePlanner planner_;
  const ReadProbe& probe_;
  TilePlan plan_;
  std::vector<std::uint32_t> left_;
  std::deque<std::uint32_t> waiting_;  // DMA: front is at work
};

}  // namespace

NpuBench::NpuBench(const Node& device, std::string_view fidelity) {
  Registry registry;
  register_dram(registry);
  register_npu(registry);
  Reader root(device, "");

  Reader memory = root.child("dram");
  const Entry<DramModel>& dram = registry.dram(memory, "lpddr");
  dram_params_ = std::make_unique<Params>(memory, dram.params);
  for (const std::string& table : dram.tables) dram_params_->add_table(memory, table, false);
  memory.finish();
  dram_ = dram.make({loop_, "dram", nullptr, kMemoryController}, *dram_params_);

  Node block = root.child("npu").node();
  if (!fidelity.empty()) block.set("fidelity", Node::scalar(std::string(fidelity)));
  Reader reader(block, "npu");
  const Entry<ComputeModel>& npu = registry.compute(reader, "hexagon");
  params_ = std::make_unique<Params>(reader, npu.params);
  for (const std::string& table : npu.tables) params_->add_table(reader, table, false);
  reader.finish();
  parts_.emplace(*params_);
  const Site site{loop_, "npu", dram_.get(), kMemoryController};
  model_ = npu.make(site, *params_);
  ports_ = std::make_unique<MemoryPorts>(site, *parts_);
}

double NpuBench::read_bandwidth(const ReadProbe& probe) {
  VITRO_CHECK(probe.threads > 0 && probe.block > 0 && probe.blocks > 0, "a probe asks for something");
  const Picoseconds begin = loop_.now();
  Readers readers(loop_, *ports_, *parts_, probe);
  readers.run();
  hash_.add(static_cast<std::uint64_t>(loop_.now().count()));
  return static_cast<double>(probe.block) * probe.blocks * probe.threads / to_seconds(loop_.now() - begin);
}

double NpuBench::lookup_cycles(std::uint32_t instructions) {
  VectorThread thread(*parts_);
  for (std::uint32_t i = 0; i < instructions; ++i) thread.lookup();
  hash_.add(static_cast<std::uint64_t>(thread.cycles()));
  return thread.cycles() / instructions;
}

double NpuBench::gather_packets(std::uint32_t gathers, Bytes table) {
  VectorThread thread(*parts_);
  Rng& rng = loop_.rng("gather");
  std::vector<std::uint32_t> offsets(parts_->vector_bytes / 2);
  for (std::uint32_t i = 0; i < gathers; ++i) {
    for (std::uint32_t& offset : offsets) offset = static_cast<std::uint32_t>(rng.below(table / 2) * 2);
    thread.gather(offsets);
  }
  hash_.add(static_cast<std::uint64_t>(thread.cycles()));
  return thread.cycles() / gathers;
}

Picoseconds NpuBench::call(const Work& work) {
  const Picoseconds begin = loop_.now();
  bool done = false;
  model_->submit(work, [flag = &done] { *flag = true; });
  while (!done) {
    VITRO_CHECK(!loop_.empty(), "a call that never ends");
    loop_.step();
  }
  hash_.add(static_cast<std::uint64_t>(loop_.now().count()));
  return loop_.now() - begin;
}

StagePrices NpuBench::prices(const Work& work) const {
  const auto& npu = static_cast<const Hexagon&>(*model_);
  const TilePlan plan = npu.plan(work);
  StagePrices prices{plan.stages, {}, {}, npu.planner().load_time(plan, plan.pass.activations, 1), plan.pass.prepare};
  for (const Stage stage : {kIn, kVector, kMatrix, kOut}) {
    prices.full[stage] = npu.planner().time(plan, plan.pass.full, stage);
    prices.last[stage] = npu.planner().time(plan, plan.pass.last, stage);
  }
  return prices;
}

std::vector<std::string> NpuBench::assumed() const {
  std::vector<std::string> names = dram_params_->assumed_and_read();
  for (std::string& name : params_->assumed_and_read()) names.push_back(std::move(name));
  return names;
}

}  // namespace vitro::hw
