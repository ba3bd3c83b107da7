// Tiny models with random weights on the virtual machine, ready to decode: what the tests of this folder share.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "engine/app/old_engine_keys.hpp"
#include "engine/app/read_engine.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/ops/variants.hpp"
#include "engine/virtual/virtual_machine.hpp"
#include "engine/transformer/decoder.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {

// Widths that are no multiple of each other, and a last tile of rows that is not full.
inline ModelConfig tiny_dense() {
  ModelConfig config;
  config.family = "llama";
  config.layers = 2, config.width = 64, config.heads = 4, config.kv_heads = 2, config.head_dim = 16;
  config.ffn = 96, config.vocab = 72, config.context = 64, config.rope.dims = 16;
  return config;
}

inline ModelConfig tiny_mixture() {
  ModelConfig config = tiny_dense();
  config.experts = 5, config.experts_used = 2, config.ffn = 32;
  return config;
}

// With what else a mixture may have.
inline ModelConfig tiny_full_mixture() {
  ModelConfig config = tiny_mixture();
  config.layers = 3, config.dense_layers = 1, config.dense_ffn = 96, config.shared_ffn = 64, config.shared_gate = true;
  config.norm = Norm::layer, config.qk_norm = QkNorm::whole, config.router = ops::Scores::sparse_mixer;
  config.renormalise_experts = false, config.expert_scale = 1.5f;
  config.attn_output_bias = config.output_bias = config.rope_factors_by_length = true;
  config.rope.original_context = 16, config.rope.attention_factor = 1.25f;
  return config;
}

// Cores "cpu0", "cpu1", ..., and accelerators with static graphs behind them.
inline std::vector<UnitCaps> units_of(std::uint32_t cores, const std::vector<std::string>& accelerators = {}) {
  std::vector<UnitCaps> units;
  for (std::uint32_t i = 0; i < cores + accelerators.size(); ++i) {
    UnitCaps caps;
    caps.id = UnitId(i);
    caps.kind = i < cores ? UnitKind::core : UnitKind::npu;
    caps.static_graphs = i >= cores;
    caps.name = i < cores ? "cpu" + std::to_string(i) : accelerators[i - cores];
    units.push_back(caps);
  }
  return units;
}

// Units and storage take random times: each seed is another order of events.
inline VirtualMachineSpec machine_spec(std::vector<UnitCaps> units, std::uint64_t timing = 1) {
  auto rng = std::make_shared<Rng>(timing);
  VirtualMachineSpec spec;
  spec.units = std::move(units);
  spec.shuffle = timing;
  spec.price = [rng](const UnitCaps&, const KernelCall&) { return Picoseconds(1 + static_cast<std::int64_t>(rng->below(1000))); };
  spec.read_price = [rng](const ReadRequest&) { return Picoseconds(1 + static_cast<std::int64_t>(rng->below(5000))); };
  return spec;
}

// Random weights of `config` in a file that `storage` has opened. One seed, one model.
inline WeightStore random_weights(Storage& storage, const ModelConfig& config, Format matrices, std::uint64_t seed) {
  const auto laid_out = [&](FileId file) { return phantom_weights(config, matrices, file, {}, Layout::rows); };
  Rng rng(seed);
  std::string bytes;
  const WeightStore shapes = laid_out(FileId{});
  for (const Weight& weight : shapes.all()) {
    bytes.resize(round_up(weight.extent.offset + weight.extent.length, kPageSize));
    std::vector<float> row(weight.columns);
    const Bytes row_size = weight.matrix_bytes() / weight.rows;
    for (std::uint32_t r = 0; r < weight.rows * weight.experts; ++r) {
      const float middle = is_vector(weight.role) ? 1 : 0;  // norms
      for (float& x : row) x = middle + 0.25f * static_cast<float>(rng.normal());
      quantise_row(weight.format, row.data(), reinterpret_cast<std::byte*>(bytes.data()) + weight.extent.offset + r * row_size, row.size());
    }
  }
  const ScratchFolder folder;
  write_file(folder / "weights", bytes);
  return laid_out(storage.open(folder / "weights").value_or_throw());
}

// Random adapters of these shapes, each in a file of its own that `storage` has opened.
inline std::vector<LoraAdapter> random_adapters(Storage& storage, const ModelConfig& config, const std::vector<LoraShape>& shapes,
                                                std::uint64_t seed) {
  std::vector<LoraAdapter> adapters;
  const ScratchFolder folder;
  for (const LoraShape& shape : shapes) {
    LoraAdapter adapter = phantom_adapter("adapter" + std::to_string(adapters.size() + 1), 1, shape, config);
    std::string bytes(adapter.extent().length, 0);
    Rng rng(seed + adapters.size());
    for (const auto& [key, pair] : adapter.matrices) {
      for (const Weight* matrix : {&pair.a, &pair.b}) {
        std::vector<float> values(std::size_t{matrix->rows} * matrix->columns);
        for (float& x : values) x = 0.25f * static_cast<float>(rng.normal());
        quantise_row(matrix->format, values.data(), reinterpret_cast<std::byte*>(bytes.data()) + matrix->extent.offset, values.size());
      }
    }
    write_file(folder / adapter.name, bytes);
    adapter.set_file(storage.open(folder / adapter.name).value_or_throw());
    adapters.push_back(std::move(adapter));
  }
  return adapters;
}

// Computes, after it has shown each call to `before`, which may throw.
class WatchedFunction final : public Function {
 public:
  Outcome execute(const KernelCall& call) override {
    if (before) before(call);
    return compute_.execute(call);
  }
  std::function<void(const KernelCall&)> before;

 private:
  ComputeFunction compute_;
};

// What `engine:` says, given as JSON in today's spelling or an old one, over the composition that it names.
inline EngineConfig read_engine_text(const std::string& json) {
  DrawProfile profile;
  const Node engine = over_policy(canonical_engine(parse_json(json, "e.json")));
  return read_engine(Reader(engine, "engine"), profile, false);
}
inline EngineConfig engine_of(const std::string& policy = "dense", std::uint32_t threads = 1) {
  EngineConfig engine = read_engine_text(R"({"policy": ")" + policy + R"("})");
  engine.placement.threads = threads;
  return engine;
}

struct DecoderSetup {
  ModelConfig config = tiny_dense();
  EngineConfig engine = engine_of();
  MemoryConfig memory = {};
  Format matrices = Format::f16;
  std::uint64_t weights = 1, timing = 1, seed = 1;
  PolicyLimits limits{16, 16, 128, 48, 8};
  std::vector<LoraShape> adapters = {};
};

// A model that a decoder runs on three cores; calls run to their end one by one.
class TestDecoder {
 public:
  explicit TestDecoder(const DecoderSetup& setup) : TestDecoder(setup, machine_spec(units_of(3), setup.timing)) {}
  TestDecoder(const DecoderSetup& setup, VirtualMachineSpec spec) : host_(std::move(spec), function, trace_), config_(setup.config) {
    machine().seed = setup.seed;
    weights_ = random_weights(machine().storage, config_, setup.matrices, setup.weights);
    const DecoderAdapters adapters{random_adapters(machine().storage, config_, setup.adapters, 100 * setup.weights), nullptr};
    parts = make_decoder(machine(), setup.engine, setup.memory, config_, weights_, setup.limits, nullptr, adapters);
    host_.run(parts.load());
  }

  Machine& machine() { return host_.machine(); }
  Transformer& model() { return *parts.transformer; }
  const WeightStore& weights() const { return weights_; }

  template <class T>
  T run(Task<T> task) {
    std::optional<T> out;
    host_.run(keep(std::move(task), &out));
    return std::move(*out);
  }
  void run(Task<void> task) { host_.run(std::move(task)); }

  std::vector<std::int32_t> step(StepInput input) { return run(model().step(std::move(input))); }
  // The logits of each sampled row of the last step.
  std::vector<std::vector<float>> logits(std::size_t rows) {
    const float* first = model().logits();
    std::vector<std::vector<float>> out;
    for (std::size_t r = 0; r < rows; ++r) out.emplace_back(first + r * model().vocab(), first + (r + 1) * model().vocab());
    return out;
  }
  // Appends tokens to a sequence in one step, all of them sampled, and returns their logits.
  std::vector<std::vector<float>> append(std::uint32_t sequence, const std::vector<std::int32_t>& tokens) {
    step(appending(model(), sequence, tokens));
    return logits(tokens.size());
  }
  static StepInput appending(Transformer& model, std::uint32_t sequence, const std::vector<std::int32_t>& tokens) {
    StepInput input;
    for (const std::int32_t token : tokens) {
      const auto row = static_cast<std::uint32_t>(input.rows.size());
      input.rows.push_back({sequence, model.kv().length(sequence) + row});
      input.tokens.push_back(token);
      input.sampled.push_back(row);
    }
    return input;
  }

  WatchedFunction function;

 private:
  template <class T>
  static Task<void> keep(Task<T> task, std::optional<T>* out) {
    *out = co_await std::move(task);
  }

  NullTrace trace_;
  VirtualMachine host_;
  ModelConfig config_;
  WeightStore weights_;

 public:
  Decoder parts;  // dies before the machine
};

inline std::vector<std::int32_t> random_tokens(Rng& rng, std::size_t count, std::uint32_t vocab) {
  std::vector<std::int32_t> tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(rng.below(vocab));
  return tokens;
}

}  // namespace vitro
