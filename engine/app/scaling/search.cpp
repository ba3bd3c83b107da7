#include "engine/app/scaling/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vitro {
namespace {

// A sequence of beam search: what it holds so far, and where it waits in the KV cache unless it has ended.
struct Beam {
  Sample sample;
  std::optional<ActiveSequence> active;
  std::size_t step_tokens = 0;  // of the step at hand
  std::string step_text;
};

class Search {
 public:
  Search(Machine& machine, Transformer& model, ScalingRequest& request) : machine_(machine), model_(model), request_(request) {}

  Task<void> run(ScalingResult* out) {
    if (request_.config.method == ScalingMethod::beam_search) {
      co_await beam_search(out);
    } else {
      co_await sample(out);
    }
    for (const Sample& s : out->samples) out->generation.tokens.push_back(s.tokens);
  }

 private:
  // Adds a chosen token; true when the sample has ended.
  bool append(Sample& sample, std::int32_t token, const float* logits, ScalingResult& out) {
    const GenerationRequest& generation = request_.generation;
    ++out.generated;
    ++sample.chosen;
    if (logits != nullptr && request_.scorer != nullptr && request_.scorer->wants_log_probability()) {
      sample.log_probability = sample.log_probability.value_or(0) + log_probability(logits, model_.vocab(), token);
    }
    if (generation.stop_token && token == *generation.stop_token) return sample.ended = true;
    sample.tokens.push_back(token);
    if (request_.tokenizer != nullptr) sample.text += request_.tokenizer->piece(token);
    return sample.ended = sample.tokens.size() >= generation.output_tokens;
  }

  Task<void> judge(std::vector<Sample*> samples, ScalingResult* out) {
    const Picoseconds begin = machine_.clock.now();
    std::vector<const Sample*> asked(samples.begin(), samples.end());
    const std::vector<double> scores = co_await request_.scorer->score(std::move(asked));
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (std::isnan(scores.at(i))) throw RunError(fmt::format("the score of sample {} is not a number: \"{}\"", i, samples[i]->text));
      samples[i]->score = scores[i];
    }
    ++out->rounds;
    out->generation.end = machine_.clock.now();
    out->scoring += out->generation.end - begin;
    out->scored_rows = request_.scorer->rows();
  }

  Task<void> sample(ScalingResult* out) {
    out->samples.resize(request_.config.samples);
    const OnChoice on_choice = [&](std::size_t index, std::int32_t token, const float* logits) {
      return append(out->samples[index], token, logits, *out) ? Next::end : Next::go_on;
    };
    std::vector<ActiveSequence> none;
    std::vector<ActiveSequence> live =
        co_await begin_sequences(&machine_, &model_, &request_.generation, &on_choice, &out->generation, &none);
    co_await decode_sequences(&machine_, &model_, std::move(live), &request_.generation, &on_choice, &out->generation, &none);
    if (request_.config.answer) {
      vote(*out);
      co_return;
    }
    std::vector<Sample*> all;
    for (Sample& s : out->samples) all.push_back(&s);
    co_await judge(std::move(all), out);
    request_.scorer->keep({});
    const auto best = std::max_element(out->samples.begin(), out->samples.end(),
                                       [](const Sample& a, const Sample& b) { return *a.score < *b.score; });  // the first of equals
    out->chosen = static_cast<std::size_t>(best - out->samples.begin());
  }

  void vote(ScalingResult& out) const {
    for (Sample& s : out.samples) {
      s.answer = request_.config.answer->last_group(s.text);
      if (s.answer) ++out.votes[*s.answer];
    }
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < out.samples.size(); ++i) {
      if (!out.samples[i].answer || out.votes.at(*out.samples[i].answer) <= most) continue;
      most = out.votes.at(*out.samples[i].answer);
      out.chosen = i;
    }
  }

  // All candidates decode until their step ends, the best `width` of them survive, and each that has not ended goes on in as
  // many copies as keep the batch full.
  Task<void> beam_search(ScalingResult* out) {
    const ScalingConfig& config = request_.config;
    std::vector<Beam> beams(config.samples);
    const OnChoice on_choice = [&](std::size_t index, std::int32_t token, const float* logits) {
      Beam& beam = beams[index];
      const std::size_t before = beam.sample.text.size();
      if (append(beam.sample, token, logits, *out)) return Next::end;
      beam.step_text += beam.sample.text.substr(before);
      const bool said = !config.step_until.empty() && beam.step_text.find(config.step_until) != std::string::npos;
      return ++beam.step_tokens >= config.step_tokens || said ? Next::rest : Next::go_on;
    };
    std::vector<ActiveSequence> resting;
    std::vector<ActiveSequence> live =
        co_await begin_sequences(&machine_, &model_, &request_.generation, &on_choice, &out->generation, &resting);
    while (true) {
      co_await decode_sequences(&machine_, &model_, std::move(live), &request_.generation, &on_choice, &out->generation, &resting);
      for (const ActiveSequence& active : resting) beams[active.index].active = active;
      resting.clear();
      std::vector<Sample*> fresh;  // one that has ended keeps the score that it has
      for (Beam& beam : beams) {
        if (!beam.sample.score) fresh.push_back(&beam.sample);
      }
      co_await judge(std::move(fresh), out);
      beams = survivors(std::move(beams));
      std::vector<const Sample*> going_on;
      for (const Beam& beam : beams) {
        if (beam.active) going_on.push_back(&beam.sample);
      }
      request_.scorer->keep(going_on);
      if (going_on.empty()) break;
      live = expand(beams);
    }
    for (Beam& beam : beams) out->samples.push_back(std::move(beam.sample));
  }

  // The best `width`, best first; the others' blocks return.
  std::vector<Beam> survivors(std::vector<Beam> beams) {
    std::stable_sort(beams.begin(), beams.end(), [](const Beam& a, const Beam& b) { return *a.sample.score > *b.sample.score; });
    const std::size_t kept = std::min<std::size_t>(request_.config.width, beams.size());
    for (std::size_t i = kept; i < beams.size(); ++i) {
      if (beams[i].active) model_.kv().release(beams[i].active->sequence);
    }
    beams.resize(kept);
    return beams;
  }

  // Copies of a beam share its blocks, and draw apart because their sequences have numbers of their own.
  std::vector<ActiveSequence> expand(std::vector<Beam>& beams) {
    const std::uint32_t copies = request_.config.samples / request_.config.width;
    std::vector<ActiveSequence> live;
    const std::size_t kept = beams.size();
    for (std::size_t b = 0; b < kept; ++b) {
      if (!beams[b].active) continue;
      const ActiveSequence origin = *beams[b].active;
      beams[b].active.reset();
      beams[b].sample.score.reset();  // it will hold more text, whether it ends or not
      beams[b].step_tokens = 0;
      beams[b].step_text.clear();
      live.push_back({b, origin.sequence, origin.last});
      for (std::uint32_t i = 1; i < copies; ++i) {
        live.push_back({beams.size(), model_.kv().fork(origin.sequence), origin.last});
        beams.push_back(beams[b]);
      }
    }
    return live;
  }

  Machine& machine_;
  Transformer& model_;
  ScalingRequest& request_;
};

}  // namespace

Task<ScalingResult> scale(Machine* machine, Transformer* model, ScalingRequest request) {
  VITRO_CHECK(request.generation.sequences == request.config.samples, "a batch of another size than the configuration");
  ScalingResult result;
  Search search(*machine, *model, request);
  try {
    co_await search.run(&result);
  } catch (...) {
    if (request.scorer != nullptr) request.scorer->keep({});
    throw;
  }
  co_return result;
}

}  // namespace vitro
