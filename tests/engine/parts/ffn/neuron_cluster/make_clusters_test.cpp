// What each kind of weights makes of a model's neurons: how many stay, which go, and who waits for a read.
#include "engine/parts/ffn/neuron_cluster/make_clusters.hpp"

#include <gmock/gmock.h>

#include "engine/parts/ffn/neuron_cluster/neuron_store.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class Nothing final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

class OneCore final : public UnitPlacement {
 public:
  explicit OneCore(const Machine& machine) : units_(machine.units) {}
  const std::vector<ComputeUnit*>& units() const override { return units_; }

 private:
  std::vector<ComputeUnit*> units_;
};

// A model without bytes, its neurons kept as a kind of weights keeps them.
class Kept {
 public:
  explicit Kept(NeuronsIn in, Bytes budget = GiB, std::optional<double> ffn_in_dram = {}, std::uint32_t dense_layers = 0)
      : host_(spec(budget), function_, trace_), placement_(host_.machine()) {
    ModelConfig model;
    model.layers = 2, model.width = 64, model.heads = 4, model.kv_heads = 2, model.head_dim = 16;
    model.ffn = 256, model.vocab = 72, model.context = 64, model.rope.dims = 16;
    if (dense_layers > 0) {
      model.layers = 2 + dense_layers, model.experts = 3, model.experts_used = 2;
      model.dense_layers = dense_layers, model.dense_ffn = 160;
    }
    weights_ = phantom_weights(model, Format::f16, host_.machine().storage.open_phantom(GiB).value_or_throw(), BundleForm::one_read);
    WeightsConfig config;
    config.neurons.eviction = "arc";  // which cached neurons alone have
    config.neurons.staging = 64 * KiB;
    residency_ = make_bundles({host_.machine(), weights_, model, config, placement_, ffn_in_dram, 0}, {}, in);
    host_.run(residency_->load());
  }

  NeuronStore& store() { return *residency_->neurons(); }
  const WeightStore& weights() const { return weights_; }
  NeuronCache& cache() { return store().cache(); }
  Bytes used() { return host_.machine().memory.budget(Placement::dram).used; }
  void read(std::uint32_t block, std::uint32_t slot) { host_.run(read_block(&store(), block, slot)); }

  std::vector<ReadRequest> reads;

 private:
  VirtualMachineSpec spec(Bytes budget) {
    VirtualMachineSpec spec;
    UnitCaps caps;
    caps.name = "cpu0";
    spec.units = {caps};
    spec.phantom = true;
    spec.memory_limits = {budget, 0, 0, 0};
    spec.read_price = [this](const ReadRequest& request) {
      reads.push_back(request);
      return Picoseconds(1000);
    };
    return spec;
  }
  static Task<void> read_block(NeuronStore* store, std::uint32_t block, std::uint32_t slot) {
    (co_await store->read(store->piece_of(block, slot), UnitId{0}, Pattern::random)).status.or_throw();
  }

  Nothing function_;
  NullTrace trace_;
  VirtualMachine host_;
  OneCore placement_;
  WeightStore weights_;
  std::unique_ptr<Residency> residency_;
};

std::string refusal(NeuronsIn in, Bytes budget) {
  try {
    Kept kept(in, budget);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(MakeClusters, weights_in_dram_hold_all_neurons_or_are_refused) {
  Kept plenty(NeuronsIn::dram);
  EXPECT_TRUE(plenty.cache().holds_all());
  const Bytes enough = plenty.used();
  EXPECT_EQ(refusal(NeuronsIn::dram, enough), "");
  EXPECT_THAT(refusal(NeuronsIn::dram, enough - 2 * kPageSize),
              AllOf(StartsWith("memory.budget: all neurons stay in DRAM, "), HasSubstr("engine.weights.kind: bundles")));
  for (const NeuronsIn in : {NeuronsIn::cache, NeuronsIn::pages, NeuronsIn::stream}) {
    EXPECT_EQ(refusal(in, enough - 2 * kPageSize), "") << "others read what does not fit";
    EXPECT_FALSE(Kept(in, enough - 2 * kPageSize).cache().holds_all());
  }
  EXPECT_TRUE(Kept(NeuronsIn::dram, GiB, 0.25).cache().holds_all()) << "whatever share a cache would have";
}

// As after a page fault: the core does nothing else until its neurons are there. What fills the cache ahead of the first token is no fault.
TEST(MakeClusters, a_read_of_paged_neurons_blocks_the_core_that_issues_it) {
  for (const NeuronsIn in : {NeuronsIn::cache, NeuronsIn::pages, NeuronsIn::stream}) {
    Kept kept(in, GiB, 0.25);
    ASSERT_FALSE(kept.reads.empty());
    for (const ReadRequest& request : kept.reads) EXPECT_EQ(request.page_fault, PageFault::none);
    kept.reads.clear();
    kept.read(kept.cache().blocks() - 1, kept.cache().take_slot());
    ASSERT_EQ(kept.reads.size(), 1u);
    EXPECT_EQ(kept.reads[0].page_fault == PageFault::waits, in == NeuronsIn::pages);
    EXPECT_EQ(kept.reads[0].issuer, UnitId{0});
  }
}

TEST(MakeClusters, of_paged_neurons_the_least_recently_used_go) {
  Kept kept(NeuronsIn::pages, GiB, 0.25);
  NeuronCache& cache = kept.cache();
  std::vector<std::uint32_t> used = cache.resident_blocks();
  ASSERT_GT(used.size(), 3u);
  std::swap(used[0], used[2]);
  cache.touch(used);
  cache.touch(used[1]);
  std::vector<std::uint32_t> fresh;
  for (std::uint32_t block = 0; block < cache.blocks(); ++block) {
    if (!cache.resident(block)) fresh.push_back(block);
  }
  cache.unpin_all();
  for (const std::size_t victim : {0u, 2u, 3u}) {
    const NeuronCache::Admission admission = cache.admit(fresh.back(), cache.take_slot());
    fresh.pop_back();
    EXPECT_TRUE(admission.stays);
    EXPECT_EQ(admission.evicted, used[victim]) << "block 1 was used again";
  }
}

// What a mixture begins with is no neurons: a store has those of the layers behind it, by the numbers that the model gives them.
TEST(MakeClusters, dense_layers_before_the_experts_stay_whole) {
  Kept kept(NeuronsIn::cache, GiB, 0.5, 2);
  NeuronStore& store = kept.store();
  EXPECT_EQ(store.first_layer(), 2);
  EXPECT_EQ(store.ffns(), 2u * 3);
  EXPECT_EQ(store.ffn_of(2, 0), 0u);
  EXPECT_EQ(store.ffn_of(3, 2), 5u);
  EXPECT_EQ(store.describe(store.block_of(3, 1, 0)), "layer 3 expert 1 block 0");
  EXPECT_EQ(kept.weights().find(Role::ffn_bundle, 1), nullptr);
  EXPECT_EQ(kept.weights().get(Role::ffn_down, 1).columns, 160u);
  EXPECT_EQ(kept.weights().find(Role::ffn_down, 2), nullptr);
}

}  // namespace
}  // namespace vitro
