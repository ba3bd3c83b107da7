#include "engine/decode/generator.hpp"

#include <algorithm>
#include <cmath>

namespace vitro {
namespace {

// Computes rows [0, prompt) of one sequence in chunks; the last chunk chooses a next token for each sequence to come.
Task<std::vector<std::int32_t>> prefill(Transformer* model, const GenerationRequest* request, std::uint32_t sequence) {
  const auto total = static_cast<std::uint32_t>(request->prompt.size());
  std::vector<std::int32_t> chosen;
  for (std::uint32_t done = 0; done < total;) {
    const std::uint32_t count = std::min(request->prefill_chunk, total - done);
    StepInput step;
    step.sampling = request->sampling;
    for (std::uint32_t i = 0; i < count; ++i) {
      step.rows.push_back({sequence, done + i});
      step.tokens.push_back(request->prompt[done + i]);
    }
    done += count;
    for (std::uint32_t i = 0; done == total && i < request->sequences; ++i) {
      step.sampled.push_back(count - 1);
      step.sampled_as.push_back({sequence + i, total - 1});
    }
    chosen = co_await model->step(std::move(step));
  }
  co_return chosen;
}

double log_sum_exp(const float* logits, std::uint32_t n) {
  const double top = *std::max_element(logits, logits + n);
  double sum = 0;
  for (std::uint32_t i = 0; i < n; ++i) sum += std::exp(logits[i] - top);
  return top + std::log(sum);
}

}  // namespace

Task<GenerationResult> generate(Machine* machine, Transformer* model, GenerationRequest request) {
  struct Live {
    std::size_t index;
    std::uint32_t sequence;
    std::int32_t last;
  };
  GenerationResult result;
  result.tokens.resize(request.sequences);
  result.begin = machine->clock.now();

  const std::uint32_t first = model->kv().create();  // forks get the numbers after it
  std::vector<std::int32_t> chosen = co_await prefill(model, &request, first);
  result.first_token = machine->clock.now();
  if (request.on_first_token) request.on_first_token();

  std::vector<Live> live;
  const auto keep = [&](Live next, std::int32_t token) {
    if (request.stop_token && token == *request.stop_token) return model->kv().release(next.sequence);
    result.tokens[next.index].push_back(token);
    if (result.tokens[next.index].size() >= request.output_tokens) return model->kv().release(next.sequence);
    next.last = token;
    live.push_back(next);
  };
  std::vector<std::uint32_t> forks{first};
  for (std::uint32_t i = 1; i < request.sequences; ++i) forks.push_back(model->kv().fork(first));
  for (std::uint32_t i = 0; i < request.sequences; ++i) keep({i, forks[i], 0}, chosen.at(i));

  Picoseconds before = result.first_token;
  while (!live.empty()) {
    StepInput step;
    step.sampling = request.sampling;
    for (const Live& s : live) {
      step.sampled.push_back(static_cast<std::uint32_t>(step.rows.size()));
      step.rows.push_back({s.sequence, model->kv().length(s.sequence)});
      step.tokens.push_back(s.last);
    }
    chosen = co_await model->step(std::move(step));
    const Picoseconds now = machine->clock.now();
    result.step_times.push_back(now - before);
    before = now;
    result.decoded += live.size();
    if (request.on_step) request.on_step(result.step_times.size(), request.output_tokens - 1);
    const std::vector<Live> served = std::exchange(live, {});
    for (std::size_t i = 0; i < served.size(); ++i) keep(served[i], chosen.at(i));
  }
  result.end = machine->clock.now();
  co_return result;
}

Task<Likelihood> score(Transformer* model, std::vector<std::int32_t> tokens, std::optional<std::int32_t> bos, std::uint32_t chunk,
                       std::uint32_t step_rows, std::uint32_t vocab) {
  Likelihood out;
  for (std::size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const std::size_t end = std::min(tokens.size(), begin + chunk);
    const std::uint32_t sequence = model->kv().create();
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
        const float* row = logits + std::size_t(r) * vocab;
        const double nll = log_sum_exp(row, vocab) - row[tokens[first + done + r]];
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
