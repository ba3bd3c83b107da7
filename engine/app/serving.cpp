#include "engine/app/serving.hpp"

#include <fmt/format.h>

#include "engine/base/over_budget.hpp"

namespace vitro {
namespace {

Task<void> serve(Serving serving, GenerationRequest request, ServingWatch* watch) {
  Decoder* const decoder = serving.decoder;
  request.on_first_token = [decoder, watch] {
    watch->prompt_ended();
    decoder->residency->decode_begins();
    watch->decoding();
  };
  request.on_step = [watch](std::uint64_t done, std::uint64_t total) { watch->step(done, total); };
  watch->begins();
  if (serving.sample_scorer != nullptr) {
    ScalingRequest scaling{std::move(request), *serving.experiment->workload.scaling, serving.model->tokenizer.get(),
                           serving.sample_scorer->scorer()};
    ScalingResult result = co_await scale(serving.machine, decoder->transformer.get(), std::move(scaling));
    GenerationResult generation = result.generation;
    watch->served(std::move(generation), &result);
    co_return;
  }
  const KeptSequences& kept = *request.kept;
  try {
    GenerationResult result = co_await generate(serving.machine, decoder->transformer.get(), std::move(request));
    watch->served(std::move(result), nullptr);
  } catch (const OverBudget& error) {
    const std::string held = kept.in_dram();
    if (held.empty()) throw;
    throw OverBudget(
        fmt::format("{}; DRAM has {} beside it (expected a larger memory.budget, or workload.kept_in: flash)", error.what(), held));
  }
}

}  // namespace

std::optional<std::string> prompt_text(const Experiment& experiment, const LoadedModel& model, const GenerationRequest& request) {
  if (experiment.workload.prompt) return *experiment.workload.prompt;
  if (!model.tokenizer) return std::nullopt;
  return model.tokenizer->decode(request.prompt);
}

Task<void> serve_all(Serving serving, std::vector<GenerationRequest> requests, ServingWatch* watch) {
  // The reward model's weights stay in DRAM. They load first, since a cache of the model's weights takes all room that is left.
  if (serving.sample_scorer != nullptr && serving.sample_scorer->scorer() != nullptr) co_await serving.sample_scorer->scorer()->load();
  co_await serving.decoder->load();
  watch->loaded();
  FfnStage* const ffn = serving.decoder->ffn.stage();
  for (GenerationRequest& request : requests) {
    if (ffn != nullptr && &request != &requests.front()) co_await ffn->between_requests();
    co_await serve(serving, std::move(request), watch);
  }
}

}  // namespace vitro
