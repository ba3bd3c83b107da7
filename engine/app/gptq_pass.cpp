#include "engine/app/gptq_pass.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "engine/app/loaded_model.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/transformer/decoder.hpp"
#include "traces/input_moments.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kLongestWindow = 2048;  // the paper's

using Rounded = std::map<std::string, std::vector<std::byte>, std::less<>>;

bool suits(const QuantizeScheme& scheme) { return can_round_by_gptq(scheme.matrices) && scheme.grain == ScaleGrain::block; }

// What several matrices of a layer read.
struct SharedInput {
  std::vector<Role> readers;  // the first of them is watched
  std::uint32_t expert = 0;
  std::size_t sum = 0;  // in InputMoments
};

std::vector<SharedInput> inputs_of_layer(const ModelConfig& config, std::uint32_t layer) {
  const std::vector<Role> qkv{Role::attn_q, Role::attn_k, Role::attn_v}, gated{Role::ffn_gate, Role::ffn_up};
  std::vector<SharedInput> inputs{{config.joined_qkv ? std::vector{Role::attn_qkv} : qkv}, {{Role::attn_output}}};
  const bool mixture = config.has_experts(static_cast<int>(layer));
  if (mixture && config.shared_ffn > 0) {
    inputs.push_back({{Role::shared_gate, Role::shared_up}});
    inputs.push_back({{Role::shared_down}});
  }
  for (std::uint32_t expert = 0; expert < (mixture ? config.experts : 1); ++expert) {
    inputs.push_back({config.joined_gate_up ? std::vector{Role::ffn_gate_up} : gated, expert});
    inputs.push_back({{Role::ffn_down}, expert});
  }
  return inputs;
}

// One layer, the last of a model, over the whole text.
struct LayerRun {
  Decoder* decoder = nullptr;
  const WeightStore* weights = nullptr;
  int layer = 0;
  const std::vector<std::int32_t>* tokens = nullptr;
  std::optional<std::int32_t> bos;
  std::uint32_t window = 0, step_rows = 0;
  InputMoments* moments = nullptr;
  std::vector<SharedInput>* inputs = nullptr;
};

Task<void> compute_text(const LayerRun* run) {
  co_await run->decoder->load();
  for (SharedInput& input : *run->inputs) {
    const Weight& weight = run->weights->get(input.readers.front(), run->layer);
    input.sum = run->moments->watch(run->decoder->residency->view(weight, input.expert).data(), weight.columns);
  }
  Transformer& transformer = *run->decoder->transformer;
  const std::vector<std::int32_t>& tokens = *run->tokens;
  const std::size_t taken = run->window - (run->bos ? 1 : 0);
  for (std::size_t begin = 0; begin < tokens.size(); begin += taken) {
    std::vector<std::int32_t> given;
    if (run->bos) given.push_back(*run->bos);
    given.insert(given.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                 tokens.begin() + static_cast<std::ptrdiff_t>(std::min(tokens.size(), begin + taken)));
    const std::uint32_t sequence = transformer.kv().create();
    for (std::uint32_t done = 0; done < given.size();) {
      const std::uint32_t rows = std::min(run->step_rows, static_cast<std::uint32_t>(given.size()) - done);
      StepInput step;
      step.choose = false;
      step.sampled = {rows - 1};
      for (std::uint32_t r = 0; r < rows; ++r) {
        step.rows.push_back({sequence, done + r});
        step.tokens.push_back(given[done + r]);
      }
      co_await transformer.step(std::move(step));
      done += rows;
    }
    transformer.kv().release(sequence);
  }
}

class Pass {
 public:
  Pass(const GptqPass& asked, const MachineFactory& machines)
      : asked_(asked), machines_(machines), scheme_(quantize_scheme(asked.scheme)), source_(Gguf::open(asked.source)) {
    std::error_code error;
    if (std::filesystem::equivalent(asked.source, asked.target, error))
      throw ConfigError(fmt::format("{}: input and output are one file", asked.target));
    config_ = config_from_gguf(source_);
    if (config_.predictor_rank > 0 || !config_.firing_thresholds.empty()) {
      throw ConfigError(fmt::format(
          "{}: has predictors of its layers, or thresholds (expected a model without: make them of what GPTQ wrote)", asked.source));
    }
    if (!config_.orders.empty()) {
      const InputOrder& order = config_.orders.front();
      throw ConfigError(fmt::format("{}: {}: columns stand in an order of their own, as GPTQ with act order left them (expected the "
                                    "model that this one was made of)",
                                    asked.source, tensor_name(*order_of(order.product), order.layer, false)));
    }
    check_scheme();
  }

  GptqPassReport run(const std::string& text) {
    const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::from_gguf(source_);
    tokens_ = tokenizer->encode(text);
    bos_ = tokenizer->add_bos() ? tokenizer->bos() : std::nullopt;
    check_text();
    report_.tokens = tokens_.size();
    report_.window = std::min(config_.context == 0 ? kLongestWindow : config_.context, kLongestWindow);
    if (report_.window < 2) throw ConfigError(fmt::format("{}: its context has one position (expected two or more)", asked_.source));
    for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
      round_layer(layer);
      if (asked_.progress) asked_.progress(layer + 1, config_.layers);
    }
    quantize(asked_.source, asked_.target, asked_.scheme, {asked_.vocabulary, &rounded_, std::nullopt});
    return report_;
  }

 private:
  // The format that a matrix of a layer is rounded to; none: it is left to quantize().
  std::optional<Format> code_format(const TensorInfo& tensor) const {
    const Format format = target_format(tensor, scheme_, asked_.vocabulary);
    const bool here = can_round_by_gptq(format) && format != tensor.format;
    return here ? std::optional(format) : std::nullopt;
  }

  void check_scheme() const {
    if (suits(scheme_)) return;
    throw ConfigError(
        fmt::format("--method: gptq chooses codes under scales of blocks or rows, which scheme \"{}\" does not have (expected one of: {})",
                    scheme_.name, fmt::join(gptq_schemes(), ", ")));
  }

  void check_text() const {
    std::uint64_t widest = 0;
    for (const Weight& weight : weights_of(config_)) {
      if (weight.layer < 0 || is_vector(weight.role) || weight.role == Role::router) continue;
      const TensorInfo& tensor = *source_.find_tensor(weight.name);
      if (code_format(tensor)) widest = std::max(widest, tensor.columns());
    }
    if (widest == 0) throw ConfigError(fmt::format("{}: no matrix of its layers gets codes under {}", asked_.source, scheme_.name));
    if (tokens_.size() >= widest) return;
    throw ConfigError(fmt::format("--calibration: {} has {} tokens (expected {} or more, as many as the widest matrix has inputs)",
                                  asked_.text_path, tokens_.size(), widest));
  }

  void round_layer(std::uint32_t layer) {
    const std::string path = fmt::format("{}/{}.gguf", asked_.scratch, layer);
    quantize(asked_.source, path, asked_.scheme, {asked_.vocabulary, &rounded_, layer + 1});
    const Node root = Node::map({{"experiment", Node::scalar("gptq")},
                                 {"machine", Node::scalar("host")},
                                 {"model", Node::map({{"gguf", Node::scalar(path, {}, true)}})},
                                 {"engine", Node::map({{"threads", Node::scalar("1")}})},
                                 {"workload", Node::map({{"prompt_tokens", Node::scalar("1")}})}});
    const Experiment experiment = read_experiment(root);
    const LoadedModel model = load_model(experiment.model, experiment.engine, asked_.scratch);

    ComputeFunction compute(ComputeOptions{experiment.engine.products.isa});
    InputMoments moments(compute);
    NullTrace trace;
    MachineRequest request;
    request.kind = experiment.machine;
    const std::unique_ptr<MachineHost> host = machines_(request, moments, trace);
    Machine& machine = host->machine();
    const WeightStore weights = model.open(machine.storage);
    PolicyLimits limits;
    limits.max_position = report_.window;
    limits.max_rows = std::min(report_.window, experiment.engine.prefill_chunk);
    limits.max_tokens = report_.window + experiment.engine.kv.block_tokens;
    std::vector<SharedInput> inputs = inputs_of_layer(config_, layer);
    {
      Decoder decoder = make_decoder(machine, experiment.engine, experiment.memory, model.config, weights, limits);
      const LayerRun run{&decoder, &weights, static_cast<int>(layer), &tokens_, bos_, report_.window, limits.max_rows, &moments, &inputs};
      host->run(settled(compute_text(&run), &decoder));
    }
    std::filesystem::remove(path);
    std::filesystem::remove(model.packed->path);
    for (const SharedInput& input : inputs) round_readers(input, weights, layer, std::move(moments.sums()[input.sum].moments));
  }

  void round_readers(const SharedInput& input, const WeightStore& weights, std::uint32_t layer, Eigen::MatrixXd moments) {
    std::optional<GptqFactor> factor;
    for (const Role role : input.readers) {
      const Weight& weight = weights.get(role, static_cast<int>(layer));
      const TensorInfo& tensor = *source_.find_tensor(weight.name);
      const std::optional<Format> format = code_format(tensor);
      if (!format) continue;
      if (!factor) factor = gptq_factor(std::move(moments), asked_.options);
      if (!factor) {
        throw ConfigError(
            fmt::format("--damp: {} leaves the moments of what {} reads singular (expected more, such as 0.01, or a longer text)",
                        asked_.options.damp, tensor.name));
      }
      round_matrix(tensor, *format, input.expert, weight.rows, *factor);
    }
  }

  void round_matrix(const TensorInfo& tensor, Format format, std::uint32_t expert, std::uint32_t rows, const GptqFactor& factor) {
    if (expert == 0) source_.check_blocks(tensor);
    const Bytes stride = row_bytes(tensor.format, tensor.columns()), made = row_bytes(format, tensor.columns());
    std::vector<std::byte> bytes(rows * stride);
    source_.read(tensor, expert * bytes.size(), bytes);
    std::vector<float> values(rows * tensor.columns());
    dequantise_row(tensor.format, bytes.data(), values.data(), values.size());
    if (const auto k = first_unholdable(format, values)) {
      throw ConfigError(fmt::format("{}: {}: row {}, element {} is {}, which {} can not hold", asked_.source, tensor.name,
                                    expert * rows + *k / tensor.columns(), *k % tensor.columns(), values[*k], to_string(format)));
    }
    std::vector<std::byte>& out = rounded_[tensor.name];
    out.resize(made * tensor.rows());
    gptq_rows(format, factor, values.data(), rows, out.data() + expert * rows * made);
    ++report_.matrices;
  }

  const GptqPass& asked_;
  const MachineFactory& machines_;
  const QuantizeScheme& scheme_;
  const Gguf source_;
  ModelConfig config_;
  std::vector<std::int32_t> tokens_;
  std::optional<std::int32_t> bos_;
  Rounded rounded_;
  GptqPassReport report_;
};

}  // namespace

std::vector<std::string> gptq_schemes() {
  std::vector<std::string> names;
  for (const QuantizeScheme& scheme : quantize_schemes()) {
    if (suits(scheme)) names.push_back(scheme.name);
  }
  return names;
}

GptqPassReport quantize_by_gptq(const GptqPass& pass, const std::string& text, const MachineFactory& machines) {
  return Pass(pass, machines).run(text);
}

}  // namespace vitro
