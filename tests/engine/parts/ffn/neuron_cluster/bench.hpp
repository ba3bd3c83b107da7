// What the tests of clusters share: a machine without hardware, a store of neurons that never existed, and times by hand.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "engine/base/rng.hpp"
#include "engine/machine/activity.hpp"
#include "engine/machine/counted_machine.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster_pipeline.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster_plan.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {

constexpr Picoseconds kUnit{1000};

// A neuron's gate is not zero when `fires` says so.
class Gate final : public Function {
 public:
  Outcome execute(const KernelCall& call) override {
    ++calls;
    if (before) before(call);
    if (!call.is<ops::Select>()) return {};
    ActiveSet active;
    for (std::size_t row = 0; row < call.batch->size(); ++row) {
      auto ids = std::make_shared<std::vector<std::uint32_t>>();
      for (const std::uint32_t neuron : *call.rows) {
        if (fires(neuron)) ids->push_back(neuron);
      }
      if (also && !std::ranges::binary_search(*ids, *also)) ids->insert(std::ranges::lower_bound(*ids, *also), *also);
      active.rows.push_back(std::move(ids));
    }
    return active;
  }
  std::function<bool(std::uint32_t)> fires = [](std::uint32_t) { return true; };
  std::function<void(const KernelCall&)> before;  // may throw
  std::optional<std::uint32_t> also;              // a neuron that every answer has, asked for or not
  std::uint64_t calls = 0;
};

// A clock that keeps what it was charged.
class Charges final : public Clock {
 public:
  explicit Charges(const Clock& clock) : clock_(clock) {}
  Picoseconds now() const override { return clock_.now(); }
  void charge(PolicyWork work, std::uint32_t n) override { charged_[static_cast<std::size_t>(work)] += n; }
  std::uint64_t of(PolicyWork work) const { return charged_[static_cast<std::size_t>(work)]; }

 private:
  const Clock& clock_;
  std::array<std::uint64_t, kPolicyWorks> charged_{};
};

class Spans final : public TraceSink {
 public:
  bool enabled() const override { return true; }
  TrackId track(std::string_view group, std::string_view) override {
    storage_.push_back(group == "storage");
    return TrackId(storage_.size() - 1);
  }
  void span(TrackId track, Picoseconds begin, Picoseconds end, std::string_view, std::string_view) override {
    (storage_[static_cast<std::size_t>(track)] ? reads : calls).add(begin, end);
  }
  void counter(TrackId, Picoseconds, double) override {}
  void decision(std::string_view kind, std::string_view what, std::string_view where) override {
    log += std::string(kind) + " " + std::string(what) + " " + std::string(where) + "\n";
  }
  Picoseconds overlap() const { return reads.intersected(calls).total(); }

  IntervalSet reads, calls;
  std::string log;

 private:
  std::vector<bool> storage_;
};

struct Scene {
  std::uint32_t neurons = 8, width = 4096, layers = 1, experts = 1, units = 4;
  double in_dram = 0.5;
  double streamed = 0;  // of an FFN: room for hot neurons that do not stay
  Bytes staging = 16 * 24 * KiB;
  BundleForm form = BundleForm::one_read;
  bool two_phases = true;  // where the form has them
  std::string eviction = "lru";
  std::uint32_t window = 0;
  std::uint32_t cluster_neurons = 1;
  PipelineKind kind = PipelineKind::cluster;
  Picoseconds compute = kUnit, read = kUnit;
  std::uint32_t io_depth = 4, io_together = 1, unit_depth = 1;
  bool keep_silent = false;
  bool bits = false;  // predictions come as bits, too
  std::uint32_t activations = 0;  // KernelCall::activations of the gates
  bool accelerators = false;      // units are no cores
  bool reader_computes = false;  // the core that issues reads is one of the units
  std::optional<std::uint64_t> shuffle;
  std::function<Status(const ReadRequest&)> fault;
  std::function<void(const UnitCaps&, const KernelCall&)> seen;  // each call, where it runs
};

struct Report {
  Picoseconds took{0}, overlap{0};
  PipelineStats stats;
  std::uint64_t unit_submissions = 0, storage_submissions = 0, bytes_read = 0;
  std::string log;
  std::vector<std::vector<std::uint32_t>> active;  // of each cluster, in cluster order
};

class Bench {
 public:
  explicit Bench(const Scene& setup)
      : setup_(setup), machine_(spec(setup), gate, spans), counted_(machine_.machine()), charges_(machine_.machine().clock) {
    const FileId file = machine_.machine().storage.open_phantom(GiB).value_or_throw();
    const BundleLayout layout = bundle_layout(Format::f16, setup.neurons, setup.width, setup.form);
    std::vector<Weight> weights;
    for (std::uint32_t layer = 0; layer < setup.layers; ++layer) {
      Weight weight;
      weight.name = "ffn" + std::to_string(layer);
      weight.role = Role::ffn_bundle;
      weight.layer = static_cast<std::int16_t>(layer);
      weight.rows = setup.neurons, weight.columns = setup.width;
      weight.format = Format::f16;
      weight.form = setup.form;
      weight.experts = setup.experts;
      const Bytes bytes = setup.experts * layout.bytes();
      weight.extent = {file, layer * bytes, bytes};
      weights.push_back(std::move(weight));
    }
    weights_ = WeightStore(std::move(weights));
    NeuronStoreOptions options;
    options.ffn_in_dram = setup.in_dram;
    options.streamed = setup.streamed;
    options.staging = setup.staging;
    options.eviction = setup.eviction;
    options.window = setup.window;
    options.two_phases = setup.two_phases;
    options.whole_waves = setup.kind == PipelineKind::none;
    store.emplace(machine_.machine(), weights_, options);
    machine_.run(store->load(UnitId(setup.units)));
    ClusterPipeline::Options pipeline_options;
    pipeline_options.kind = setup.kind;
    pipeline_options.units = counted_.machine().units;
    if (!setup.reader_computes) pipeline_options.units.pop_back();
    pipeline_options.io_core = UnitId(setup.units);
    pipeline_options.io_depth = setup.io_depth;
    pipeline_options.io_together = setup.io_together;
    pipeline_options.unit_depth = setup.unit_depth;
    pipeline_options.keep_silent = setup.keep_silent;
    graphs.emplace(machine_.machine());
    Machine& m = counted_.machine();
    charging_.emplace(Machine{m.executor, charges_, m.units, m.storage, m.memory, m.trace, m.seed});
    pipeline.emplace(*charging_, *graphs, *store, pipeline_options);
    spans.reads = spans.calls = {};
    spans.log.clear();
  }

  Report layer(std::int16_t layer, std::vector<std::uint32_t> neurons, bool every_neuron = false) {
    FfnGroup group;
    group.rows = std::make_shared<const std::vector<SeqPos>>(1);
    const NamedNeurons predicted = named(std::move(neurons));
    ClusterPlanOptions plan;
    plan.cluster_neurons = setup_.cluster_neurons;
    std::vector<Cluster> clusters = plan_clusters(*store, layer, {{&group, predicted}}, plan);
    ClusterCalls calls;
    calls.gate = [&](const Cluster& cluster, Chain& chain) {
      chain.push_back(call(ops::Matmul{}, group));
      chain.back().activations = setup_.activations;
      if (every_neuron) return;
      chain.push_back(call(ops::Select{}, group));
      chain.back().rows = cluster.neurons;
    };
    calls.rest = [&](const Cluster&, Chain& chain) { chain.push_back(call(ops::Accumulate{}, group)); };
    const Picoseconds began = machine_.machine().clock.now();
    const std::uint64_t read = machine_.machine().storage.totals().bytes_read, submitted = counted_.counts().unit_submissions;
    const std::uint64_t asked = counted_.counts().storage_submissions;
    machine_.run(pipeline->run(&clusters, std::move(calls), every_neuron));
    Report report;
    report.took = machine_.machine().clock.now() - began;
    report.overlap = spans.overlap();
    report.stats = pipeline->stats();
    report.unit_submissions = counted_.counts().unit_submissions - submitted;
    report.storage_submissions = counted_.counts().storage_submissions - asked;
    report.bytes_read = machine_.machine().storage.totals().bytes_read - read;
    report.log = spans.log;
    for (const Cluster& cluster : clusters) report.active.push_back(*cluster.active);
    return report;
  }

  // Layers 0 to n - 1 as a prefill has them: all neurons; the next layer is read ahead while one is computed, or not.
  Report prefill(std::uint32_t layers, bool read_ahead) {
    FfnGroup group;
    group.rows = std::make_shared<const std::vector<SeqPos>>(1);
    auto every = std::make_shared<std::vector<std::uint32_t>>(setup_.neurons);
    std::iota(every->begin(), every->end(), 0u);
    ClusterPlanOptions plan;
    plan.cluster_neurons = setup_.cluster_neurons;
    std::vector<std::vector<Cluster>> clusters;
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      clusters.push_back(plan_clusters(*store, static_cast<std::int16_t>(layer), {{&group, {every}}}, plan));
    }
    const Picoseconds began = machine_.machine().clock.now();
    machine_.run(prefill_layers(pipeline.operator->(), &clusters, read_ahead));
    Report report;
    report.took = machine_.machine().clock.now() - began;
    report.overlap = spans.overlap();
    report.bytes_read = machine_.machine().storage.totals().bytes_read;
    return report;
  }
  // With bits where the scene says so.
  NamedNeurons named(std::vector<std::uint32_t> neurons) const {
    std::vector<std::uint64_t> bits((setup_.neurons + 63) / 64);
    for (const std::uint32_t neuron : neurons) bits[neuron / 64] |= std::uint64_t{1} << neuron % 64;
    NamedNeurons out{std::make_shared<const std::vector<std::uint32_t>>(std::move(neurons))};
    if (setup_.bits) out.bits = std::make_shared<const std::vector<std::uint64_t>>(std::move(bits));
    return out;
  }
  Machine& machine() { return machine_.machine(); }
  void run(Task<void> task) { machine_.run(std::move(task)); }
  std::uint64_t charged(PolicyWork work) const { return charges_.of(work); }

  Gate gate;
  Spans spans;
  std::optional<NeuronStore> store;
  std::optional<GraphCache> graphs;
  std::optional<ClusterPipeline> pipeline;

 private:
  static VirtualMachineSpec spec(const Scene& setup) {
    VirtualMachineSpec spec;
    for (std::uint32_t i = 0; i <= setup.units; ++i) {
      UnitCaps caps;
      caps.id = UnitId(i);
      caps.name = "cpu" + std::to_string(i);
      if (setup.accelerators) caps.kind = UnitKind::npu;
      spec.units.push_back(caps);
    }
    spec.phantom = true;
    spec.shuffle = setup.shuffle;
    const Picoseconds compute = setup.compute;
    spec.price = [compute, seen = setup.seen](const UnitCaps& unit, const KernelCall& call) {
      if (seen) seen(unit, call);
      return call.is<ops::Select>() ? Picoseconds(0) : compute;
    };
    if (setup.fault) spec.read_fault = setup.fault;
    const Picoseconds read = setup.read;
    spec.read_price = [read](const ReadRequest& r) {
      return read * static_cast<std::int64_t>((r.from.length + 24 * KiB - 1) / (24 * KiB));
    };
    return spec;
  }
  static Task<void> prefill_layers(ClusterPipeline* pipeline, std::vector<std::vector<Cluster>>* layers, bool read_ahead) {
    for (std::size_t i = 0; i < layers->size(); ++i) {
      if (read_ahead && i == 0) pipeline->read_ahead(&(*layers)[0]);
      if (read_ahead && i + 1 < layers->size()) pipeline->read_ahead(&(*layers)[i + 1]);
      FfnGroup group;
      group.rows = std::make_shared<const std::vector<SeqPos>>(1);
      ClusterCalls calls;
      calls.gate = [group](const Cluster&, Chain& chain) { chain.push_back(call(ops::Matmul{}, group)); };
      calls.rest = [group](const Cluster&, Chain& chain) { chain.push_back(call(ops::Accumulate{}, group)); };
      co_await pipeline->run(&(*layers)[i], std::move(calls), true);
    }
    co_await pipeline->settle();
  }
  static KernelCall call(Op op, const FfnGroup& group) {
    KernelCall call;
    call.op = op;
    call.batch = group.rows;
    return call;
  }

  Scene setup_;
  VirtualMachine machine_;
  CountedMachine counted_;
  Charges charges_;
  std::optional<Machine> charging_;  // the same machine with that clock
  WeightStore weights_;
};

inline std::vector<std::uint32_t> range(std::uint32_t n) {
  std::vector<std::uint32_t> out(n);
  for (std::uint32_t i = 0; i < n; ++i) out[i] = i;
  return out;
}

}  // namespace vitro
