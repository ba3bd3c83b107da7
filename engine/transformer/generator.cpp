#include "engine/transformer/generator.hpp"

#include <algorithm>
#include <cmath>

namespace vitro {
namespace {

// Indices of the request's sequences by their adapter, in the order in which adapters first come.
std::vector<std::pair<std::uint32_t, std::vector<std::size_t>>> by_adapter(const GenerationRequest& request) {
  std::vector<std::pair<std::uint32_t, std::vector<std::size_t>>> groups;
  for (std::size_t i = 0; i < request.sequences; ++i) {
    const std::uint32_t adapter = request.adapters.empty() ? 0 : request.adapters.at(i);
    auto group = std::ranges::find(groups, adapter, [](const auto& g) { return g.first; });
    if (group == groups.end()) group = groups.insert(groups.end(), {adapter, {}});
    group->second.push_back(i);
  }
  return groups;
}

// Sizes that the step after a chunk of a prompt may have: the next chunk's, or those of decoding.
std::vector<StepSize> after_chunk(const GenerationRequest& request, std::uint32_t left, std::uint32_t sequences) {
  if (left > 0) {
    const std::uint32_t rows = std::min(request.prefill_chunk, left);
    return {{rows, rows == left ? sequences : 0, 1}};
  }
  std::vector<StepSize> next;
  for (std::uint32_t batch = sequences; batch > 0; --batch) next.push_back(StepSize::decode(batch, batch == sequences));
  return next;
}

// Likewise after a decode step, the one after so many tokens of each. Any sequence may end with any token; some will by their lengths.
std::vector<StepSize> after_decode(const GenerationRequest& request, const std::vector<ActiveSequence>& live, std::size_t tokens) {
  const auto goes_on = [&](const ActiveSequence& s) {
    return (request.lengths.empty() ? request.output_tokens : request.lengths.at(s.index)) > tokens + 1;
  };
  const auto expected = static_cast<std::uint32_t>(std::ranges::count_if(live, goes_on));
  std::vector<StepSize> next;
  if (expected > 0 && expected < live.size()) next.push_back(StepSize::decode(expected, true));
  for (auto batch = static_cast<std::uint32_t>(live.size()) - 1; batch > 0; --batch) next.push_back(StepSize::decode(batch, false));
  return next;
}

// Computes the prompt's rows of one sequence, chunk by chunk, or layer by layer as many as may go together; the last one chooses a next
// token for each sequence to come.
Task<std::vector<std::int32_t>> prefill(Transformer* model, const GenerationRequest* request, std::vector<std::int32_t> prompt,
                                        std::uint32_t sequence, std::uint32_t sequences) {
  const auto total = static_cast<std::uint32_t>(prompt.size());
  const std::uint32_t before = model->kv().length(sequence);
  std::vector<std::int32_t> chosen;
  for (std::uint32_t done = 0; done < total;) {
    const std::uint32_t count = std::min(std::max(request->prefill_chunk, model->span()), total - done);
    StepInput step;
    if (count > request->prefill_chunk) step.chunk_rows = request->prefill_chunk;
    step.sampling = request->sampling;
    step.rows.reserve(count);
    step.tokens.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      step.rows.push_back({sequence, before + done + i});
      step.tokens.push_back(prompt[done + i]);
    }
    done += count;
    if (model->span() == 0 || done == total) step.next = after_chunk(*request, total - done, sequences);
    for (std::uint32_t i = 0; done == total && i < sequences; ++i) {
      step.sampled.push_back(count - 1);
      step.sampled_as.push_back({sequence + i, before + total - 1});
    }
    chosen = co_await model->step(std::move(step));
  }
  co_return chosen;
}

// Tells of each choice, and sorts the sequences by what becomes of them. Requires: chosen from the step that ran last.
std::vector<ActiveSequence> settle(Transformer& model, const std::vector<ActiveSequence>& served, const std::vector<std::int32_t>& chosen,
                                   const OnChoice& on_choice, std::vector<ActiveSequence>& resting) {
  const float* logits = model.logits();
  std::vector<ActiveSequence> live;
  for (std::size_t i = 0; i < served.size(); ++i) {
    ActiveSequence active = served[i];
    active.last = chosen.at(i);
    switch (on_choice(active.index, active.last, logits == nullptr ? nullptr : logits + i * model.vocab())) {
      case Next::go_on:
        live.push_back(active);
        break;
      case Next::rest:
        resting.push_back(active);
        break;
      case Next::end:
        model.kv().release(active.sequence);
    }
  }
  return live;
}

}  // namespace

double log_probability(const float* logits, std::uint32_t vocab, std::int32_t token) {
  const double top = *std::max_element(logits, logits + vocab);
  double sum = 0;
  for (std::uint32_t i = 0; i < vocab; ++i) sum += std::exp(logits[i] - top);
  return logits[token] - (top + std::log(sum));
}

Task<std::vector<ActiveSequence>> begin_sequences(Machine* machine, Transformer* model, const GenerationRequest* request,
                                                  const OnChoice* on_choice, GenerationResult* times,
                                                  std::vector<ActiveSequence>* resting) {
  times->begin = machine->clock.now();
  times->prefill_rows = times->kept_rows = 0;
  times->restoring = Picoseconds(0);
  std::vector<ActiveSequence> live;
  const auto groups = by_adapter(*request);
  for (const auto& [adapter, members] : groups) {
    const Picoseconds before = machine->clock.now();
    std::vector<std::int32_t> prompt = request->prompt;
    std::uint32_t first = 0;  // forks get the numbers after it
    if (request->goes_on.empty()) {
      first = model->kv().create(adapter);
      if (request->restored != nullptr) co_await restore_sequence(machine, model, first, request->restored);
    } else {
      const KeptSequence kept = co_await request->kept->resume(request->goes_on, request->replaces());
      first = kept.sequence;
      prompt.insert(prompt.begin(), kept.next);
    }
    times->restoring += machine->clock.now() - before;
    times->kept_rows += model->kv().length(first);
    times->prefill_rows += static_cast<std::uint32_t>(prompt.size());
    const std::vector<std::int32_t> chosen =
        co_await prefill(model, request, std::move(prompt), first, static_cast<std::uint32_t>(members.size()));
    times->first_token = times->end = machine->clock.now();
    if (request->on_first_token && members == groups.back().second) request->on_first_token();
    std::vector<ActiveSequence> all{{members.front(), first, 0}};
    for (std::size_t i = 1; i < members.size(); ++i) all.push_back({members[i], model->kv().fork(first), 0});
    for (const ActiveSequence& active : settle(*model, all, chosen, *on_choice, *resting)) live.push_back(active);
  }
  co_return live;
}

std::uint32_t prompts_of(const GenerationRequest& request) { return static_cast<std::uint32_t>(by_adapter(request).size()); }

Task<void> decode_sequences(Machine* machine, Transformer* model, std::vector<ActiveSequence> live, const GenerationRequest* request,
                            const OnChoice* on_choice, GenerationResult* times, std::vector<ActiveSequence>* resting) {
  Picoseconds before = machine->clock.now();
  while (!live.empty()) {
    StepInput step;
    step.decodes = true;
    step.sampling = request->sampling;
    for (const ActiveSequence& s : live) {
      step.sampled.push_back(static_cast<std::uint32_t>(step.rows.size()));
      step.rows.push_back({s.sequence, model->kv().length(s.sequence)});
      step.tokens.push_back(s.last);
    }
    step.next = after_decode(*request, live, times->step_times.size() + 1);
    const std::vector<std::int32_t> chosen = co_await model->step(std::move(step));
    const Picoseconds now = machine->clock.now();
    times->step_times.push_back(now - before);
    before = now;
    times->step_tokens.push_back(static_cast<std::uint32_t>(live.size()));
    times->decoded += live.size();
    if (request->on_step) request->on_step(times->step_times.size(), request->output_tokens - 1);
    live = settle(*model, live, chosen, *on_choice, *resting);
  }
  times->end = machine->clock.now();
}

Task<GenerationResult> generate(Machine* machine, Transformer* model, GenerationRequest request) {
  GenerationResult result;
  result.tokens.resize(request.sequences);
  const OnChoice on_choice = [&](std::size_t index, std::int32_t token, const float*) {
    const Next ended = request.save_to.empty() && request.keep_as.empty() ? Next::end : Next::rest;
    if (request.stop_token && token == *request.stop_token) return ended;
    result.tokens[index].push_back(token);
    const std::uint32_t length = request.lengths.empty() ? request.output_tokens : request.lengths.at(index);
    return result.tokens[index].size() >= length ? ended : Next::go_on;
  };
  std::vector<ActiveSequence> rest;
  std::vector<ActiveSequence> live = co_await begin_sequences(machine, model, &request, &on_choice, &result, &rest);
  co_await decode_sequences(machine, model, std::move(live), &request, &on_choice, &result, &rest);
  for (const ActiveSequence& ended : rest) {
    if (!request.save_to.empty()) {
      std::vector<std::int32_t> tokens;
      if (request.restored != nullptr) tokens.assign(request.restored->tokens.begin(), request.restored->tokens.end() - 1);
      tokens.insert(tokens.end(), request.prompt.begin(), request.prompt.end());
      tokens.insert(tokens.end(), result.tokens[ended.index].begin(), result.tokens[ended.index].end());
      if (tokens.size() == model->kv().length(ended.sequence)) tokens.push_back(ended.last);  // a stop token
      co_await save_sequence(model, ended.sequence, std::move(tokens), request.origin, request.save_to);
    }
    if (request.keep_as.empty()) {
      model->kv().release(ended.sequence);
    } else {
      co_await request.kept->keep(request.keep_as, {ended.sequence, ended.last}, request.replaces());
      result.keeping = machine->clock.now() - result.end;
    }
  }
  co_return result;
}

Task<Likelihood> score(Transformer* model, std::vector<std::int32_t> tokens, std::optional<std::int32_t> bos, std::uint32_t chunk,
                       std::uint32_t step_rows, std::uint32_t vocab, std::uint32_t adapter) {
  Likelihood out;
  for (std::size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const std::size_t end = std::min(tokens.size(), begin + chunk);
    const std::uint32_t sequence = model->kv().create(adapter);
    std::vector<std::int32_t> given;
    if (bos) given.push_back(*bos);
    given.insert(given.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.begin() + static_cast<std::ptrdiff_t>(end - 1));
    const std::size_t first = bos ? begin : begin + 1;
    Likelihood::Chunk& scored = out.chunks.emplace_back();
    for (std::uint32_t done = 0; done < given.size();) {
      const std::uint32_t rows = std::min(step_rows, static_cast<std::uint32_t>(given.size()) - done);
      StepInput step;
      step.choose = false;
      for (std::uint32_t r = 0; r < rows; ++r) {
        step.rows.push_back({sequence, done + r});
        step.tokens.push_back(given[done + r]);
        step.sampled.push_back(r);
      }
      co_await model->step(std::move(step));
      const float* logits = model->logits();
      for (std::uint32_t r = 0; r < rows; ++r) {
        const double nll = -log_probability(logits + std::size_t(r) * vocab, vocab, tokens[first + done + r]);
        out.nll += nll;
        ++out.tokens;
        scored.nll += nll;
        ++scored.tokens;
      }
      done += rows;
    }
    model->kv().release(sequence);
  }
  if (out.tokens > 0) out.nll /= static_cast<double>(out.tokens);
  co_return out;
}

}  // namespace vitro
