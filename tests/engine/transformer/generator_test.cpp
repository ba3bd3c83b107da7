// Generation: what comes out depends on the request, not on how the work is cut into steps.
#include "engine/transformer/generator.hpp"

#include <cmath>
#include <set>

#include "tests/engine/transformer/model_kit.hpp"

namespace vitro {
namespace {

using Tokens = std::vector<std::vector<std::int32_t>>;

GenerationRequest request_of(std::uint64_t seed, std::uint32_t output_tokens, std::uint32_t sequences = 1) {
  Rng rng(seed);
  GenerationRequest request;
  request.prompt = random_tokens(rng, 11, tiny_dense().vocab);
  request.output_tokens = output_tokens;
  request.sequences = sequences;
  request.prefill_chunk = 16;
  return request;
}

GenerationResult generate_with(TestDecoder& decoder, GenerationRequest request) {
  return decoder.run(generate(&decoder.machine(), &decoder.model(), std::move(request)));
}
// From a model that has not decoded before: draws know sequences by their numbers.
GenerationResult generate_anew(GenerationRequest request, std::uint64_t timing = 1) {
  DecoderSetup setup;
  setup.timing = timing;
  TestDecoder decoder(setup);
  return generate_with(decoder, std::move(request));
}

Sampling random_sampling() { return {2.5f, 0, 1}; }

TEST(Generator, chunks_of_any_size_give_the_same_tokens) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const bool sampled : {false, true}) {
      GenerationRequest request = request_of(seed, 8, 3);
      if (sampled) request.sampling = random_sampling();
      const Tokens expected = generate_anew(request).tokens;
      for (const std::uint32_t chunk : {1u, 2u, 5u, 10u, 11u, 12u, 16u}) {
        request.prefill_chunk = chunk;
        EXPECT_EQ(generate_anew(request, chunk).tokens, expected) << "chunks of " << chunk;
      }
      EXPECT_EQ(expected[0] != expected[1], sampled) << "samples differ, greedy choices do not";
    }
  }
}

TEST(Generator, a_prompt_of_one_token_is_enough) {
  GenerationRequest request = request_of(1, 4);
  request.prompt.resize(1);
  EXPECT_EQ(generate_anew(request).tokens.at(0).size(), 4u);
}

TEST(Generator, tokens_are_those_of_steps_by_hand) {
  TestDecoder decoder(DecoderSetup{});
  const GenerationRequest request = request_of(4, 6);
  const std::vector<std::int32_t> got = generate_with(decoder, request).tokens.at(0);
  std::vector<std::int32_t> expected, text = request.prompt;
  while (expected.size() < 6) {
    const std::uint32_t sequence = decoder.model().kv().create();
    StepInput input = TestDecoder::appending(decoder.model(), sequence, text);
    input.sampled = {static_cast<std::uint32_t>(text.size() - 1)};
    expected.push_back(decoder.step(input).at(0));
    text.push_back(expected.back());
    decoder.model().kv().release(sequence);
  }
  EXPECT_EQ(got, expected);
}

TEST(Generator, sequences_have_the_lengths_that_are_asked_for) {
  GenerationRequest request = request_of(2, 9, 4);
  request.sampling = random_sampling();
  const Tokens full = generate_anew(request).tokens;
  for (const std::vector<std::int32_t>& tokens : full) EXPECT_EQ(tokens.size(), 9u);
  request.lengths = {3, 9, 1, 5};
  const GenerationResult result = generate_anew(request);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(result.tokens[i], std::vector<std::int32_t>(full[i].begin(), full[i].begin() + request.lengths[i])) << "sequence " << i;
  }
  EXPECT_EQ(result.step_tokens, (std::vector<std::uint32_t>{3, 3, 2, 2, 1, 1, 1, 1}));
  EXPECT_EQ(result.decoded, 2u + 8 + 0 + 4) << "the first token of each is the prompt's";
  EXPECT_EQ(result.step_times.size(), 8u);
}

TEST(Generator, a_stop_token_ends_its_sequence_and_is_not_part_of_it) {
  GenerationRequest request = request_of(3, 10, 4);
  request.sampling = random_sampling();
  const Tokens full = generate_anew(request).tokens;
  for (const std::int32_t stop : {full[0][4], full[2][0], full[3][9]}) {
    request.stop_token = stop;
    const Tokens cut = generate_anew(request).tokens;
    for (std::size_t i = 0; i < full.size(); ++i) {
      const std::vector<std::int32_t> expected(full[i].begin(), std::ranges::find(full[i], stop));
      EXPECT_EQ(cut[i], expected) << "sequence " << i << ", stop " << stop;
    }
  }
  request.stop_token = -1;
  EXPECT_EQ(generate_anew(request).tokens, full) << "a token that never comes";
}

TEST(Generator, keys_and_values_return_when_sequences_end) {
  TestDecoder decoder(DecoderSetup{});
  GenerationRequest request = request_of(1, 8, 3);
  request.lengths = {8, 2, 4};
  const Bytes before = decoder.machine().memory.budget(Placement::dram).used;
  generate_with(decoder, request);
  EXPECT_EQ(decoder.model().kv().live_blocks(), 0u);
  EXPECT_EQ(decoder.machine().memory.budget(Placement::dram).used, before);
}

TEST(Generator, several_sequences_are_as_many_single_ones) {
  GenerationRequest request = request_of(5, 7, 4);
  request.sampling = random_sampling();
  const Tokens together = generate_anew(request).tokens;
  request.sequences = 1;
  for (std::uint32_t i = 0; i < 4; ++i) {
    TestDecoder decoder(DecoderSetup{});
    for (std::uint32_t skipped = 0; skipped < i; ++skipped) decoder.model().kv().release(decoder.model().kv().create());
    EXPECT_EQ(generate_with(decoder, request).tokens.at(0), together[i]) << "the draws of sequence " << i;
  }
}

TEST(Generator, tells_of_the_first_token_once_and_of_every_step_after_it) {
  for (const std::uint32_t chunk : {3u, 16u}) {
    TestDecoder decoder(DecoderSetup{});
    GenerationRequest request = request_of(1, 5, 2);
    request.prefill_chunk = chunk;
    int first = 0;
    Picoseconds when{};
    std::vector<std::pair<std::uint64_t, std::uint64_t>> steps;
    request.on_first_token = [&] {
      ++first;
      when = decoder.machine().clock.now();
      EXPECT_TRUE(steps.empty());
    };
    request.on_step = [&](std::uint64_t done, std::uint64_t total) { steps.emplace_back(done, total); };
    const GenerationResult result = generate_with(decoder, request);
    EXPECT_EQ(first, 1);
    EXPECT_EQ(when, result.first_token);
    EXPECT_EQ(steps, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{1, 4}, {2, 4}, {3, 4}, {4, 4}}));
    EXPECT_LT(result.begin, result.first_token);
    Picoseconds sum = result.first_token;
    for (const Picoseconds time : result.step_times) sum += time;
    EXPECT_EQ(sum, result.end) << "steps follow each other without a gap";
  }
}

// What searches build on: a sequence may rest, keeps its place in the cache, and decodes on later.
TEST(Generator, each_choice_comes_with_its_logits_and_a_sequence_may_rest) {
  TestDecoder decoder(DecoderSetup{});
  GenerationRequest request = request_of(7, 9, 3);
  request.sampling = random_sampling();
  std::set<std::vector<float>> seen;
  std::vector<std::vector<std::int32_t>> chosen(3);
  const std::uint32_t vocab = decoder.model().vocab();
  bool pause = true;
  const OnChoice on_choice = [&](std::size_t index, std::int32_t token, const float* logits) {
    const bool first = chosen[index].empty();  // all have the prompt's
    EXPECT_TRUE(first || seen.emplace(logits, logits + vocab).second) << "another text has other logits";
    chosen[index].push_back(token);
    if (chosen[index].size() == 6) return Next::end;
    return pause && index == 1 && chosen[index].size() == 3 ? Next::rest : Next::go_on;
  };
  GenerationResult times;
  std::vector<ActiveSequence> resting,
      live = decoder.run(begin_sequences(&decoder.machine(), &decoder.model(), &request, &on_choice, &times, &resting));
  decoder.run(decode_sequences(&decoder.machine(), &decoder.model(), live, &request, &on_choice, &times, &resting));
  ASSERT_EQ(resting.size(), 1u);
  EXPECT_EQ(resting[0].index, 1u);
  EXPECT_EQ(resting[0].last, chosen[1].back());
  EXPECT_GT(decoder.model().kv().live_blocks(), 0u);
  pause = false;
  decoder.run(decode_sequences(&decoder.machine(), &decoder.model(), std::exchange(resting, {}), &request, &on_choice, &times, &resting));
  request.output_tokens = 6;
  EXPECT_EQ(chosen, generate_anew(request).tokens);
  EXPECT_EQ(decoder.model().kv().live_blocks(), 0u);
}

TEST(Generator, one_output_token_takes_no_step_of_its_own) {
  const GenerationResult result = generate_anew(request_of(1, 1, 2));
  EXPECT_EQ(result.tokens, (Tokens{{result.tokens[0][0]}, {result.tokens[0][0]}}));
  EXPECT_TRUE(result.step_times.empty());
  EXPECT_EQ(result.decoded, 0u);
  EXPECT_EQ(result.end, result.first_token);
}

TEST(Generator, log_probabilities_are_those_of_a_distribution) {
  Rng rng(1);
  std::vector<float> logits(50);
  for (float& x : logits) x = 30 * static_cast<float>(rng.normal());
  double sum = 0;
  for (std::int32_t t = 0; t < 50; ++t) sum += std::exp(log_probability(logits.data(), 50, t));
  EXPECT_NEAR(sum, 1, 1e-12);
  const std::vector<float> two{1000, 1000};
  EXPECT_NEAR(log_probability(two.data(), 2, 1), -std::log(2), 1e-12) << "large logits do not overflow";
}

TEST(Generator, a_score_adds_what_each_token_costs_whatever_the_steps) {
  TestDecoder decoder(DecoderSetup{});
  Rng rng(6);
  const std::uint32_t vocab = decoder.model().vocab();
  const std::vector<std::int32_t> text = random_tokens(rng, 20, vocab);
  for (const std::optional<std::int32_t> bos : {std::optional<std::int32_t>{}, std::optional<std::int32_t>{1}}) {
    double expected = 0;
    std::uint64_t count = 0;
    for (std::size_t begin = 0; begin < text.size(); begin += 8) {
      std::vector<std::int32_t> chunk(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                      text.begin() + static_cast<std::ptrdiff_t>(std::min(begin + 8, text.size())));
      if (bos) chunk.insert(chunk.begin(), *bos);
      const auto logits = decoder.append(decoder.model().kv().create(), chunk);
      for (std::size_t i = 0; i + 1 < chunk.size(); ++i, ++count) expected -= log_probability(logits[i].data(), vocab, chunk[i + 1]);
    }
    const std::uint32_t live = decoder.model().kv().live_blocks();
    for (const std::uint32_t rows : {1u, 3u, 16u}) {
      const Likelihood likelihood = decoder.run(score(&decoder.model(), text, bos, 8, rows, vocab));
      EXPECT_EQ(likelihood.tokens, count);
      EXPECT_NEAR(likelihood.nll, expected / static_cast<double>(count), 1e-9);
      ASSERT_EQ(likelihood.chunks.size(), 3u);
      EXPECT_EQ(likelihood.chunks[2].tokens, bos ? 4u : 3u);
      EXPECT_EQ(decoder.model().kv().live_blocks(), live);
    }
  }
}

}  // namespace
}  // namespace vitro
