// What calls of a step have in common, and the steps of a prompt that goes through each layer as a whole: keys, values and weights in flash
// are read once, not once for each chunk.
#include <fmt/format.h>

#include <algorithm>

#include "engine/transformer/transformer.hpp"

namespace vitro {

struct Transformer::Chunk {
  StepInput input;
  StepContext context;
};

void Transformer::find_adapters(const StepInput& input, StepContext& context) const {
  std::vector<std::uint32_t> all, sampled;
  for (const SeqPos& row : input.rows) all.push_back(kv_.adapter(row.sequence));
  for (const std::uint32_t row : input.sampled) sampled.push_back(all[row]);
  context.adapters = adapter_runs(all);
  context.sampled_adapters = adapter_runs(sampled);
}

// Places of the rows at hand; those of the step or chunk before are no more.
void Transformer::begin_staging(const std::vector<SeqPos>& rows, const StepContext& context) {
  if (context.staged.count == 0) return;
  const Status status = staging_->begin_step(rows);
  if (status.ok()) return;
  throw RunError(fmt::format("no memory to stage keys and values for {}: {}", units_.back()->caps().name, status.message));
}

StepContext Transformer::context_of(const StepInput& input) const {
  StepContext context;
  context.rows = std::make_shared<const std::vector<SeqPos>>(input.rows);
  context.staged = staged_heads(input.rows.size());
  std::vector<SeqPos> sampled = input.sampled_as;
  if (sampled.empty()) {
    for (const std::uint32_t row : input.sampled) sampled.push_back(input.rows[row]);
  }
  VITRO_CHECK(sampled.size() == input.sampled.size(), "each sampled row needs one identity");
  context.sampled = std::make_shared<const std::vector<SeqPos>>(std::move(sampled));
  context.table_width = kv_.table_width(input.rows);
  context.sampling = input.sampling;
  context.choose = input.choose;
  if (options_.adapters != nullptr) find_adapters(input, context);
  return context;
}

// Made anew for each layer, from the prompt's first row: rows and chunks of a long prompt would take memory that no budget knows of.
Transformer::Chunk Transformer::chunk_at(const StepInput& input, SeqPos front, std::uint32_t first) const {
  const std::uint32_t end = std::min(first + input.chunk_rows, static_cast<std::uint32_t>(input.tokens.size()));
  StepInput part;
  for (std::uint32_t row = first; row < end; ++row) part.rows.push_back({front.sequence, front.position + row});
  part.tokens.assign(input.tokens.begin() + first, input.tokens.begin() + end);
  part.choose = input.choose;
  part.sampling = input.sampling;
  for (std::size_t i = 0; i < input.sampled.size(); ++i) {
    if (input.sampled[i] < first || input.sampled[i] >= end) continue;
    part.sampled.push_back(input.sampled[i] - first);
    if (!input.sampled_as.empty()) part.sampled_as.push_back(input.sampled_as[i]);
  }
  StepContext context = context_of(part);
  context.first_row = first;
  return {std::move(part), std::move(context)};
}

// Stage 0 is before the layers, stage l + 1 is layer l, and the last one is behind them.
Transformer::PhaseList Transformer::stage_of(std::size_t rows, std::size_t stage) const {
  const std::vector<Phase>& all = attends_alone(rows) ? layer_alone_phases_ : layer_phases_;
  const auto in_layers = [](const Phase& phase) { return phase.layer >= 0; };
  auto begin = all.begin(), end = std::ranges::find_if(all, in_layers);
  for (std::size_t s = 0; s < stage; ++s) {
    begin = end;
    end = std::find_if(begin, all.end(), [&](const Phase& phase) { return phase.layer != begin->layer; });
  }
  return {begin, end};
}

Task<std::vector<std::int32_t>> Transformer::compute_by_layer(StepInput* input) {
  if (kv_flash_) {
    std::vector<KvCache::BlockCopy> copies;
    co_await kv_flash_->begin_prompt(&input->rows, &copies);
    co_await run_copies(std::move(copies));
  } else {
    co_await extend(input);
  }
  std::vector<std::int32_t> tokens;
  const auto rows = static_cast<std::uint32_t>(input->rows.size());
  const SeqPos front = input->rows.front();
  VITRO_CHECK(input->rows.back().sequence == front.sequence && input->rows.back().position - front.position + 1 == rows,
              "rows that go through a layer together follow each other in one sequence");
  begin_graphs(*input);
  input->rows = std::vector<SeqPos>();  // gives their memory back
  for (std::size_t stage = 0; stage < config_.layers + 2; ++stage) {
    const bool inside = stage > 0 && stage <= config_.layers;
    const auto layer = static_cast<std::uint32_t>(inside ? stage - 1 : 0);
    for (std::uint32_t first = 0; first < rows; first += input->chunk_rows) {
      Chunk chunk = chunk_at(*input, front, first);
      const std::uint32_t end = chunk.input.rows.back().position + 1;
      if (inside && kv_flash_) co_await kv_flash_->writable(layer, end);
      if (inside) begin_staging(chunk.input.rows, chunk.context);
      write_operands(chunk.input, chunk.context, layer);
      if (stage == 0 && options_.embedding != nullptr) co_await options_.embedding->read(&chunk.input.tokens);
      if (inside) prepare_ffn(static_cast<std::int16_t>(layer), chunk.context);
      const Around around{first == 0, first + input->chunk_rows >= rows, false, rows <= input->chunk_rows};
      const PhaseList phases = stage_of(chunk.input.rows.size(), stage);
      std::vector<std::int32_t> chosen = co_await run_phases(&chunk.context, phases, around);
      if (!chosen.empty()) tokens = std::move(chosen);
      if (inside && kv_flash_) kv_flash_->computed(layer, end);
    }
  }
  co_return tokens;
}

}  // namespace vitro
