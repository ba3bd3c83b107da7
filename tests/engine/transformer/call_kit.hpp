// Calls of a model without bytes: they are built, and none runs.
#pragma once
#include "engine/graph/operator_graph.hpp"
#include "engine/transformer/call_builder.hpp"
#include "tests/engine/transformer/model_kit.hpp"

namespace vitro {

// All weights are there; an item has as many bytes as the test says.
class Resident final : public DenseResidency {
 public:
  using DenseResidency::DenseResidency;
  Bytes item_bytes() const override { return bytes; }
  Bytes bytes = ~Bytes{0};
};

struct Call {
  std::size_t unit = 0;
  KernelCall call;
};

class CallBuilderTest : public testing::Test {
 protected:
  void start(const ModelConfig& config, std::uint32_t rows, std::size_t units, CallOptions options = {variant::kFloat},
             Format matrices = Format::f16, Layout layout = Layout::rows, std::uint32_t pool_heads = 0) {
    builder_.reset(), kv_.reset(), buffers_.reset(), residency_.reset(), host_.reset();
    VirtualMachineSpec spec = machine_spec(units_of(3));
    spec.phantom = true;
    spec.memory_limits[0] = 8 * GiB;  // nothing of it is touched
    host_ = std::make_unique<VirtualMachine>(std::move(spec), function_, trace_);
    Machine& machine = host_->machine();
    config_ = config;
    graph_ = build_graph(config_);
    weights_ = phantom_weights(config_, matrices, machine.storage.open_phantom(GiB).value_or_throw(), {}, layout);
    residency_ = std::make_unique<Resident>(machine, weights_);
    host_->run(residency_->load());
    const std::uint32_t heads = pool_heads > 0 ? pool_heads : config_.kv_heads;
    kv_ = std::make_unique<KvCache>(machine.memory, KvShape{config_.layers, heads, config_.head_dim}, 64, 8);
    const BufferLimits limits{.rows = rows, .sampled = rows, .routed = rows * config_.experts_used, .table_width = 4};
    buffers_ = std::make_unique<Buffers>(machine.memory, graph_, config_, limits, units);
    step_ = {};
    std::vector<SeqPos> batch;
    std::vector<ExpertChoice> choices;
    for (std::uint32_t i = 0; i < rows; ++i) {
      batch.push_back({0, i});
      if (config_.experts > 0)
        choices.push_back({{static_cast<std::uint16_t>(i % 4), static_cast<std::uint16_t>(i % 4 + 1)}, {0.5f, 0.5f}});
    }
    step_.rows = std::make_shared<const std::vector<SeqPos>>(batch);
    step_.sampled = std::make_shared<const std::vector<SeqPos>>(batch.end() - (rows + 1) / 2, batch.end());
    step_.experts = make_expert_plan(choices, config_.experts);
    phases_ = lower(graph_, config_, units);
    shares_ = Shares(units, 1.0);
    builder_ = std::make_unique<CallBuilder>(graph_, config_, weights_, *residency_, *buffers_, *kv_, std::move(options));
  }

  std::vector<UnitQueues> queues() const {
    std::vector<UnitQueues> out;
    for (const Phase& phase : phases_) out.push_back(builder_->build(phase, step_, shares_));
    return out;
  }
  std::vector<Call> calls() const {
    std::vector<Call> out;
    for (const UnitQueues& phase : queues()) {
      for (std::size_t unit = 0; unit < phase.size(); ++unit) {
        for (const WorkItem& item : phase[unit]) {
          for (const KernelCall& call : item.calls) out.push_back({unit, call});
        }
      }
    }
    return out;
  }

  ComputeFunction function_;
  NullTrace trace_;
  ModelConfig config_;
  OperatorGraph graph_;
  WeightStore weights_;
  std::unique_ptr<VirtualMachine> host_;
  std::unique_ptr<Resident> residency_;
  std::unique_ptr<KvCache> kv_;
  std::unique_ptr<Buffers> buffers_;
  std::unique_ptr<CallBuilder> builder_;
  StepContext step_;
  std::vector<Phase> phases_;
  Shares shares_;
};

inline std::vector<ModelConfig> families() {
  std::vector<ModelConfig> all{tiny_dense(), tiny_mixture(), tiny_dense(), tiny_dense(), tiny_full_mixture()};
  all[1].ffn = 96;
  all[2].qkv_bias = all[2].rope_factors = true;
  all[2].qk_norm = QkNorm::heads;
  all[3].sub_norms = all[3].tied_embedding = true;
  return all;
}

}  // namespace vitro
