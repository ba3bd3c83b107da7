#include "engine/transformer/transformer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "engine/base/over_budget.hpp"
#include "engine/base/rng.hpp"
#include "engine/graph/operator_graph.hpp"
#include "engine/ops/variants.hpp"
#include "engine/parts/placement/charge_dispatch.hpp"
#include "engine/quant/float16.hpp"
#include "engine/transformer/check_answers.hpp"
#include "engine/transformer/step_spans.hpp"

namespace vitro {
namespace {

constexpr std::uint64_t kSampleStream = 0x73616d706c65;  // keeps sampling draws apart from other draws of the same seed

}  // namespace

Task<void> Transformer::extend(const StepInput* input) {
  std::vector<KvCache::BlockCopy> copies;
  for (std::size_t i = 0; i < input->rows.size(); ++i) {
    const SeqPos& row = input->rows[i];
    VITRO_CHECK(kv_.length(row.sequence) == row.position, "rows must continue their sequence");
    Status status = kv_.extend(row.sequence, 1, copies);
    if (!status.ok()) fail(status, fmt::format("KV cache of sequence {} at position {}", row.sequence, row.position));
  }
  co_await run_copies(std::move(copies));
}

Task<void> Transformer::run_copies(std::vector<KvCache::BlockCopy> copies) {
  if (copies.empty()) co_return;
  Chain chain;
  for (KvCache::BlockCopy& copy : copies) {
    KernelCall call;
    call.op = ops::Copy{};
    call.variant = variant::kFloat;
    call.in = {std::move(copy.from)};
    call.out = {std::move(copy.to)};
    chain.push_back(std::move(call));
  }
  co_await run_alone(std::move(chain));
}

// Work of the first unit that no phase has; built and handed over like that of any other chain.
Task<void> Transformer::run_alone(Chain chain) {
  charge_dispatch(machine_.clock, chain);
  const RunResult result = co_await graphs_.run(units_.front(), std::move(chain));
  result.status.or_throw();
}

void Transformer::write_operands(const StepInput& input, const StepContext& context, std::optional<std::uint32_t> layer) {
  if (buffers_.host_data<std::uint32_t>("token_ids") == nullptr) return;
  std::int32_t* ids = buffers_.host_data<std::int32_t>("token_ids");
  if (options_.embedding == nullptr) {
    std::copy(input.tokens.begin(), input.tokens.end(), ids);
  } else {
    std::iota(ids, ids + input.tokens.size(), 0);  // rows of the table that is read for the step
  }
  for (std::uint32_t table = 0; table < kv_.tables(); ++table) {
    if (layer && kv_.tables() > 1 && table != *layer) continue;
    kv_.fill_table(input.rows, context.table_width, buffers_.view("block_table", 0, 1, table).as<std::uint32_t>(), table);
  }
  if (context.staged.count > 0) {
    for (std::uint32_t table = 0; table < kv_.tables(); ++table) {
      if (layer && kv_.tables() > 1 && table != *layer) continue;
      staging_->fill_sources(table, buffers_.view("staged_sources", 0, 1, table).as<std::uint32_t>());
    }
    staging_->fill_table(input.rows, context.table_width, buffers_.host_data<std::uint32_t>("staged_table"));
  }
  std::copy(input.sampled.begin(), input.sampled.end(), buffers_.host_data<std::uint32_t>("sampled_rows"));
  float* uniforms = buffers_.host_data<float>("uniforms");
  for (const SeqPos& row : *context.sampled) {
    *uniforms++ = static_cast<float>(mix(machine_.seed, {kSampleStream, row.sequence, row.position}) >> 40) * 0x1.0p-24f;
  }
}

namespace {

// A phase may have begun in the layer before.
std::int16_t layer_of_router(const Phase& phase, const OperatorGraph& graph) {
  for (const OperatorGroup& group : phase.groups) {
    for (const OperatorId id : group.operators) {
      if (graph[id].is<ops::Route>()) return graph[id].layer;
    }
  }
  VITRO_CHECK(false, "experts were chosen in a phase without a router");
  return -1;
}

}  // namespace

// The last layer whose attention ran is the one at hand.
std::vector<float> Transformer::attention_norms(std::uint32_t rows) const {
  OperatorId sum = 0;
  while (!graph_[sum].name.ends_with("attn_residual")) ++sum;
  const std::string& tensor = graph_[inputs_of(graph_, sum).at(1)].output;
  const View view = buffers_.view(tensor, 0, rows);
  if (view.as<std::byte>() == nullptr) return {};
  const std::uint32_t width = buffers_.width(tensor);
  std::vector<float> norms(rows);
  for (std::uint32_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (std::size_t i = std::size_t{row} * width; i < std::size_t{row + 1} * width; ++i) {
      const double x = view.format == Format::f16 ? half_to_float(view.as<std::uint16_t>()[i]) : view.as<float>()[i];
      squares += x * x;
    }
    norms[row] = static_cast<float>(std::sqrt(squares));
  }
  return norms;
}

bool Transformer::take_routing(const std::vector<Outcome>& outcomes, const Phase& phase, StepContext& context) {
  RoutedFfn* const routed = ffn_.routed.get();
  for (const Outcome& outcome : outcomes) {
    const auto* choices = std::get_if<std::vector<ExpertChoice>>(&outcome);
    if (choices == nullptr) continue;
    const std::int16_t layer = layer_of_router(phase, graph_);
    check_choices(*choices, context.rows->size(), config_, layer);
    residency_.chose(layer, *choices);
    const auto norms = [&] { return attention_norms(static_cast<std::uint32_t>(choices->size())); };
    context.experts =
        routed != nullptr ? routed->admit(layer, *choices, norms) : make_expert_plan(*choices, config_.experts);
    if (buffers_.host_data<std::uint32_t>("expert_rows") == nullptr) return true;
    std::copy(context.experts.rows.begin(), context.experts.rows.end(), buffers_.host_data<std::uint32_t>("expert_rows"));
    std::copy(context.experts.sources.begin(), context.experts.sources.end(), buffers_.host_data<std::uint32_t>("expert_sources"));
    std::copy(context.experts.weights.begin(), context.experts.weights.end(), buffers_.host_data<float>("expert_weights"));
    return true;
  }
  return false;
}

// Before the experts of this layer are planned: they are wanted first all the same.
Task<void> Transformer::look_ahead(const Phase* phase, const StepContext* context) {
  const auto next = static_cast<std::int16_t>(layer_of_router(*phase, graph_) + 1);
  if (!look_ahead_ || !look_ahead_->can_ask(next) || !residency_.looks_ahead(context->rows->size())) co_return;
  const std::vector<ExpertChoice> guess = co_await look_ahead_->ask(units_.front(), next, context->rows, context->first_row);
  if (!guess.empty()) check_choices(guess, context->rows->size(), config_, next);
  residency_.foresee(next, guess);
}

Task<void> Transformer::run_routed(const Phase* phase, const StepContext* context) {
  const OperatorId id = phase->groups.front().operators.front();
  const std::string& input = graph_[inputs_of(graph_, id).front()].output;
  const auto pool = static_cast<std::uint32_t>(context->experts.rows.size());
  RoutedStep step;
  step.rows = context->rows;
  step.x = buffers_.view(input, 0, static_cast<std::uint32_t>(context->rows->size()));
  step.chosen = buffers_.view("expert_rows", 0, pool);
  step.chosen.shape = {pool, 0, 0};
  step.packed = buffers_.view("expert_x", 0, pool);
  step.out = buffers_.view(graph_[id].output, 0, pool);
  co_await ffn_.routed->run(phase->layer, std::move(step));
}

// One group per FFN that the step's rows meet: the layer's, or one per chosen expert with the rows that chose it.
Task<void> Transformer::run_ffn(const Phase* phase, const StepContext* context) {
  const Operator& op = graph_[phase->groups.front().operators.front()];
  const std::string& input = graph_[inputs_of(graph_, phase->groups.front().operators.front()).front()].output;
  const auto rows = static_cast<std::uint32_t>(context->rows->size());
  const bool prompt = rows > options_.products.decode_rows;
  std::vector<FfnGroup> groups;
  if (!phase->routed) {
    groups.push_back({-1, context->rows, buffers_.view(input, 0, rows), buffers_.view(op.output, 0, rows), context->adapters, prompt});
    co_return co_await ffn_.block->run(phase->layer, std::move(groups));
  }
  if (ffn_.routed != nullptr) co_return co_await run_routed(phase, context);
  Chain gathers;
  for (const ExpertPlan::Group& expert : context->experts.groups) {
    std::vector<SeqPos> members;
    for (std::uint32_t i = 0; i < expert.count; ++i) members.push_back((*context->rows)[context->experts.rows[expert.first + i]]);
    FfnGroup group;
    group.expert = static_cast<std::int16_t>(expert.expert);
    group.rows = std::make_shared<const std::vector<SeqPos>>(std::move(members));
    group.x = rows == 1 ? buffers_.view(input, 0, 1) : buffers_.view("expert_x", expert.first, expert.count);
    group.out = buffers_.view(op.output, expert.first, expert.count);
    group.prompt = prompt;
    if (rows > 1) {
      KernelCall gather;
      gather.op = ops::Gather{};
      gather.layer = phase->layer;
      gather.expert = group.expert;
      gather.variant = variant::kFloat;
      gather.batch = context->rows;
      View which = buffers_.view("expert_rows", expert.first, expert.count);
      which.shape = {expert.count, 0, 0};
      gather.in = {buffers_.view(input, 0, rows), std::move(which)};
      gather.out = {group.x};
      gathers.push_back(std::move(gather));
    }
    groups.push_back(std::move(group));
  }
  if (!gathers.empty()) co_await run_alone(std::move(gathers));
  co_await ffn_.block->run(phase->layer, std::move(groups));
}

// What the FFN of a layer needs beside its input can come while the attention before it runs.
void Transformer::prepare_ffn(std::int16_t layer, const StepContext& context) {
  if (ffn_.stage() == nullptr || layer >= static_cast<std::int16_t>(config_.layers)) return;
  if (!config_.has_neurons(layer)) return;  // operators
  std::set<std::uint32_t> sequences;
  for (const SeqPos& row : *context.rows) sequences.insert(row.sequence);
  ffn_.stage()->prepare(layer, static_cast<std::uint32_t>(context.rows->size()), static_cast<std::uint32_t>(sequences.size()));
}

namespace {

// What a phase costs its planner: it builds each call anew for every step.
std::uint32_t calls_in(const UnitQueues& queues) {
  std::size_t calls = 0;
  for (const std::vector<WorkItem>& queue : queues) {
    for (const WorkItem& item : queue) calls += item.calls.size();
  }
  return static_cast<std::uint32_t>(calls);
}

}  // namespace

Task<std::vector<std::int32_t>> Transformer::step(StepInput input) {
  const std::uint32_t most = input.chunk_rows == 0 ? options_.max_rows : options_.span;
  VITRO_CHECK(input.rows.size() <= most && input.sampled.size() <= options_.max_sampled, "a step beyond its limits");
  std::vector<std::int32_t> tokens;
  std::exception_ptr error;
  const StepSpan span(machine_, input.decodes ? "decode" : "prompt", "", described(machine_, input.rows));
  try {
    if (input.chunk_rows > 0) {
      tokens = co_await compute_by_layer(&input);
    } else {
      tokens = co_await compute(&input);
    }
  } catch (...) {
    error = std::current_exception();
  }
  if (ffn_.stage() != nullptr) co_await ffn_.stage()->settle();
  if (kv_flash_) co_await kv_flash_->end_step(error != nullptr);
  if (error) std::rethrow_exception(error);
  co_return tokens;
}

Task<void> Transformer::settle() {
  co_await loads_.join();
  co_await residency_.settle();
  if (kv_flash_) co_await kv_flash_->settle();
  if (ffn_.stage() != nullptr) co_await ffn_.stage()->finish();
}

Task<std::vector<std::int32_t>> Transformer::compute(const StepInput* input) {
  if (kv_flash_) co_await kv_flash_->begin_step(&input->rows);
  begin_graphs(*input);
  co_await extend(input);
  StepContext context = context_of(*input);
  begin_staging(input->rows, context);
  write_operands(*input, context, {});
  if (options_.embedding != nullptr) co_await options_.embedding->read(&input->tokens);
  prepare_ffn(config_.experts > 0 ? static_cast<std::int16_t>(config_.dense_layers) : 0, context);
  const PhaseList phases = phases_of(input->rows.size());
  const Around around;
  co_return co_await run_phases(&context, phases, around);
}

Task<std::vector<std::int32_t>> Transformer::run_phases(StepContext* context, PhaseList phases, Around around) {
  std::vector<std::int32_t> tokens;
  LayerSpans layers(machine_);
  for (const Phase& phase : phases) {
    const Part part = part_of(phase, graph_);
    layers.enter(phase.layer);
    const StepSpan span(machine_, "part", kPartNames[static_cast<std::size_t>(part)]);
    const PartTimer timer(machine_.clock, part_times_, part_windows_, part);
    if (phase.whole_ffn) {
      if (around.prepares_next) prepare_ffn(static_cast<std::int16_t>(phase.layer + 1), *context);
      co_await run_ffn(&phase, context);
      continue;
    }
    const Shares shares = shares_of(phase, context->rows->size());
    UnitQueues queues = phase_calls_.of(phase, *context, shares);
    if (std::all_of(queues.begin(), queues.end(), [](const auto& queue) { return queue.empty(); })) continue;
    machine_.clock.charge(PolicyWork::plan_step, calls_in(queues));
    if (options_.adapters != nullptr) count_bypasses(queues, bypass_counts_);
    if (options_.fuse != Fuse::all) count_moves(queues, move_counts_);
    const bool reads_kv = kv_flash_ && (phase.attends || phase.stages_kv);
    if (reads_kv && around.lands) co_await kv_flash_->landed(static_cast<std::uint32_t>(phase.layer));
    const std::vector<Outcome> outcomes = co_await runner_.run(std::move(queues), units_);
    if (reads_kv && phase.attends && around.frees) kv_flash_->attended(static_cast<std::uint32_t>(phase.layer));
    if (take_routing(outcomes, phase, *context) && around.alone) co_await look_ahead(&phase, context);
    for (const Outcome& outcome : outcomes) {
      const auto* choice = std::get_if<TokenChoice>(&outcome);
      if (choice == nullptr) continue;
      check_tokens(*choice, context->sampled->size(), config_);
      tokens = choice->tokens;
    }
  }
  co_return tokens;
}

}  // namespace vitro
