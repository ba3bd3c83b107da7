// Laws of a step: what it computes depends neither on how rows are grouped, nor on units, nor on the order of events.
#include "engine/transformer/transformer.hpp"

#include <algorithm>
#include <cmath>

#include "tests/engine/transformer/model_kit.hpp"

namespace vitro {
namespace {

using Logits = std::vector<std::vector<float>>;

// Each in the float contract and, with matrices of int8 blocks, in that of int8.
std::vector<DecoderSetup> models() {
  std::vector<DecoderSetup> all(5);
  all[1].config = all[3].config = tiny_mixture();
  all[4].config = tiny_full_mixture();
  for (DecoderSetup& setup : all) setup.config.qkv_bias = true;
  for (const std::size_t i : {2, 3}) {
    all[i].matrices = Format::q8_0;
    all[i].engine.products.matmul = variant::kInt8;
    all[i].config.qk_norm = QkNorm::heads;
  }
  return all;
}

Logits row_by_row(TestDecoder& decoder, const std::vector<std::int32_t>& tokens) {
  const std::uint32_t sequence = decoder.model().kv().create();
  Logits all;
  for (const std::int32_t token : tokens) all.push_back(decoder.append(sequence, {token}).front());
  return all;
}

TEST(Transformer, rows_of_one_step_get_the_logits_of_rows_one_by_one) {
  for (DecoderSetup setup : models()) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      setup.weights = seed;
      Rng rng(seed);
      TestDecoder decoder(setup);
      const std::vector<std::int32_t> tokens = random_tokens(rng, 16, setup.config.vocab);
      const Logits expected = row_by_row(decoder, tokens);
      const std::uint32_t sequence = decoder.model().kv().create();
      Logits grouped;
      while (grouped.size() < tokens.size()) {
        const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(grouped.size());
        const auto count = static_cast<std::ptrdiff_t>(1 + rng.below(tokens.size() - grouped.size()));
        for (auto& row : decoder.append(sequence, {begin, begin + count})) grouped.push_back(std::move(row));
      }
      EXPECT_EQ(grouped, expected) << "seed " << seed;
    }
  }
}

TEST(Transformer, several_sequences_in_one_step_get_the_logits_of_each_alone) {
  for (DecoderSetup setup : models()) {
    Rng rng(setup.config.experts);
    TestDecoder decoder(setup);
    std::vector<std::vector<std::int32_t>> texts;
    Logits expected;
    StepInput mixed;
    for (const std::size_t length : {3u, 1u, 5u}) {
      texts.push_back(random_tokens(rng, length, setup.config.vocab));
      expected.push_back(row_by_row(decoder, texts.back()).back());
    }
    for (const std::vector<std::int32_t>& text : texts) {
      const StepInput one = TestDecoder::appending(decoder.model(), decoder.model().kv().create(), text);
      mixed.rows.insert(mixed.rows.end(), one.rows.begin(), one.rows.end());
      mixed.tokens.insert(mixed.tokens.end(), one.tokens.begin(), one.tokens.end());
      mixed.sampled.push_back(static_cast<std::uint32_t>(mixed.rows.size() - 1));
    }
    decoder.step(mixed);
    EXPECT_EQ(decoder.logits(3), expected);
  }
}

TEST(Transformer, any_number_of_units_at_any_times_gives_the_same_logits) {
  for (DecoderSetup setup : models()) {
    Rng rng(5);
    const std::vector<std::int32_t> tokens = random_tokens(rng, 7, setup.config.vocab);
    Logits expected;
    for (std::uint32_t units = 1; units <= 3; ++units) {
      for (std::uint64_t timing = 1; timing <= 3; ++timing) {
        setup.engine.placement.threads = units;
        setup.timing = timing;
        TestDecoder decoder(setup);
        const std::uint32_t sequence = decoder.model().kv().create();
        Logits got = decoder.append(sequence, tokens);
        got.push_back(decoder.append(sequence, {tokens[0]}).front());
        if (expected.empty()) expected = got;
        EXPECT_EQ(got, expected) << units << " units, timing " << timing;
      }
    }
  }
}

TEST(Transformer, where_weights_lie_does_not_matter) {
  Rng rng(8);
  const std::vector<std::int32_t> tokens = random_tokens(rng, 6, tiny_dense().vocab);
  const auto logits = [&](const std::string& policy, bool embedding, std::optional<double> share) {
    DecoderSetup setup;
    setup.engine = engine_of(policy, 2);
    setup.engine.weights.embedding_in_flash = embedding;
    setup.engine.weights.read_ahead = 2 * kPageSize;
    setup.memory.ffn_in_dram = share;
    TestDecoder decoder(setup);
    return decoder.append(decoder.model().kv().create(), tokens);
  };
  const Logits expected = logits("dense", false, {});
  EXPECT_EQ(logits("dense", true, {}), expected);
  EXPECT_EQ(logits("mmap", false, {}), expected);
  EXPECT_EQ(logits("mmap", false, 0.4), expected);
}

TEST(Transformer, other_weights_and_other_tokens_give_other_logits) {
  DecoderSetup setup;
  TestDecoder one(setup);
  setup.weights = 2;
  TestDecoder two(setup);
  EXPECT_NE(row_by_row(one, {1, 2}), row_by_row(two, {1, 2}));
  EXPECT_NE(row_by_row(one, {1, 2}).back(), row_by_row(one, {3, 2}).back()) << "attention sees the token before";
}

TEST(Transformer, forks_share_their_prompt_and_go_their_own_way) {
  for (const DecoderSetup& setup : models()) {
    TestDecoder decoder(setup);
    KvCache& kv = decoder.model().kv();
    Rng rng(9);
    const std::vector<std::int32_t> prompt = random_tokens(rng, 10, setup.config.vocab);
    const std::uint32_t first = kv.create();
    decoder.append(first, prompt);
    const std::uint32_t blocks = kv.live_blocks();
    const std::uint32_t second = kv.fork(first);
    EXPECT_EQ(kv.live_blocks(), blocks) << "a fork alone takes no memory";
    const Logits a = decoder.append(first, {1, 2}), b = decoder.append(second, {3, 2});
    EXPECT_GT(kv.live_blocks(), blocks);
    EXPECT_NE(a, b);
    const auto alone = [&](std::vector<std::int32_t> continuation) {
      std::vector<std::int32_t> all = prompt;
      all.insert(all.end(), continuation.begin(), continuation.end());
      const Logits rows = row_by_row(decoder, all);
      return Logits(rows.end() - 2, rows.end());
    };
    EXPECT_EQ(a, alone({1, 2}));
    EXPECT_EQ(b, alone({3, 2}));
  }
}

TEST(Transformer, greedy_choices_are_the_largest_logits) {
  for (const DecoderSetup& setup : models()) {
    TestDecoder decoder(setup);
    Rng rng(3);
    StepInput input = TestDecoder::appending(decoder.model(), decoder.model().kv().create(), random_tokens(rng, 9, setup.config.vocab));
    input.sampled = {1, 4, 8};
    const std::vector<std::int32_t> tokens = decoder.step(input);
    ASSERT_EQ(tokens.size(), 3u);
    const Logits logits = decoder.logits(3);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(tokens[i], std::max_element(logits[i].begin(), logits[i].end()) - logits[i].begin());
  }
}

TEST(Transformer, a_step_that_chooses_nothing_has_the_same_logits_and_no_tokens) {
  TestDecoder decoder(DecoderSetup{});
  const Logits expected = decoder.append(decoder.model().kv().create(), {4, 5, 6});
  StepInput input = TestDecoder::appending(decoder.model(), decoder.model().kv().create(), {4, 5, 6});
  input.choose = false;
  EXPECT_TRUE(decoder.step(input).empty());
  EXPECT_EQ(decoder.logits(3), expected);
  StepInput silent = TestDecoder::appending(decoder.model(), decoder.model().kv().create(), {4, 5, 6});
  silent.sampled.clear();
  EXPECT_TRUE(decoder.step(silent).empty()) << "no row is sampled";
}

// A draw belongs to an identity, not to a place in a batch.
TEST(Transformer, draws_follow_the_seed_and_who_they_are_for) {
  DecoderSetup setup;
  const auto draws = [&](std::vector<SeqPos> identities) {
    TestDecoder decoder(setup);
    StepInput input = TestDecoder::appending(decoder.model(), decoder.model().kv().create(), {7});
    input.sampled.assign(identities.size(), 0);
    input.sampled_as = std::move(identities);
    input.sampling.temperature = 3;
    return decoder.step(input);
  };
  const std::vector<SeqPos> many{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}};
  const std::vector<std::int32_t> all = draws(many);
  EXPECT_GT(std::count_if(all.begin(), all.end(), [&](std::int32_t token) { return token != all[0]; }), 0) << "eight draws of 72 tokens";
  EXPECT_EQ(draws({many[5], many[2]}), (std::vector<std::int32_t>{all[5], all[2]}));
  setup.seed = 2;
  EXPECT_NE(draws(many), all);
}

// One token at position 0 attends to itself alone and is not rotated, so that a layer is a few sums.
std::vector<double> by_hand(const WeightStore& weights, const std::function<std::vector<float>(const Weight&, std::uint32_t)>& values,
                            const ModelConfig& config, std::int32_t token) {
  using Vector = std::vector<double>;
  const auto times = [&](Role role, int layer, const Vector& x, std::uint32_t expert = 0) {
    const Weight& w = weights.get(role, layer);
    const std::vector<float> m = values(w, expert);
    Vector y(w.rows);
    for (std::size_t r = 0; r < w.rows; ++r) {
      for (std::size_t k = 0; k < w.columns; ++k) y[r] += double{m[r * w.columns + k]} * x[k];
    }
    return y;
  };
  const auto norm = [&](Role role, int layer, Vector x) {
    const std::vector<float> scale = values(weights.get(role, layer), 0);
    double squares = 0;
    for (const double v : x) squares += v * v;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= scale[i] / std::sqrt(squares / static_cast<double>(x.size()) + config.norm_eps);
    return x;
  };
  const auto add = [](Vector& x, const Vector& y, double by) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += by * y[i];
  };
  const std::vector<float> table = values(weights.get(Role::token_embedding), 0);
  Vector x(table.begin() + token * static_cast<std::ptrdiff_t>(config.width),
           table.begin() + (token + 1) * static_cast<std::ptrdiff_t>(config.width));
  for (int layer = 0; layer < static_cast<int>(config.layers); ++layer) {
    const Vector v = times(Role::attn_v, layer, norm(Role::attn_norm, layer, x));
    Vector attended;
    for (std::uint32_t head = 0; head < config.heads; ++head) {
      const auto begin = v.begin() + static_cast<std::ptrdiff_t>(head * config.kv_heads / config.heads * config.head_dim);
      attended.insert(attended.end(), begin, begin + config.head_dim);
    }
    add(x, times(Role::attn_output, layer, attended), 1);
    const Vector normed = norm(Role::ffn_norm, layer, x), scores = times(Role::router, layer, normed);
    std::vector<std::uint32_t> order(config.experts);
    for (std::uint32_t e = 0; e < config.experts; ++e) order[e] = e;
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return scores[a] > scores[b]; });
    double sum = 0;
    for (std::uint32_t i = 0; i < config.experts_used; ++i) sum += std::exp(scores[order[i]]);
    for (std::uint32_t i = 0; i < config.experts; ++i) {  // all of them; those that are not chosen have no weight
      Vector hidden = times(Role::ffn_gate, layer, normed, order[i]);
      const Vector up = times(Role::ffn_up, layer, normed, order[i]);
      for (std::size_t n = 0; n < hidden.size(); ++n) hidden[n] *= up[n] / (1 + std::exp(-hidden[n]));
      add(x, times(Role::ffn_down, layer, hidden, order[i]), i < config.experts_used ? std::exp(scores[order[i]]) / sum : 0);
    }
  }
  return times(Role::output, -1, norm(Role::output_norm, -1, x));
}

TEST(Transformer, a_mixture_adds_the_chosen_experts_by_their_weights) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    DecoderSetup setup;
    setup.config = tiny_mixture();
    setup.weights = seed;
    setup.engine.placement.threads = 2;
    TestDecoder decoder(setup);
    const auto values = [&](const Weight& weight, std::uint32_t expert) {
      const View view = decoder.parts.residency->view(weight, expert);
      std::vector<float> out(std::size_t{weight.rows} * weight.columns);
      dequantise_row(weight.format, view.data(), out.data(), out.size());
      return out;
    };
    StepInput input;  // rows that choose different experts side by side
    for (std::uint32_t i = 0; i < 8; ++i) {
      input.rows.push_back({decoder.model().kv().create(), 0});
      input.tokens.push_back(static_cast<std::int32_t>(9 * i));
      input.sampled.push_back(i);
    }
    decoder.step(input);
    const Logits got = decoder.logits(8);
    for (std::size_t i = 0; i < 8; ++i) {
      const std::vector<double> expected = by_hand(decoder.weights(), values, setup.config, input.tokens[i]);
      for (std::size_t t = 0; t < expected.size(); ++t) ASSERT_NEAR(got[i][t], expected[t], 1e-3) << "seed " << seed << ", row " << i;
    }
  }
}

}  // namespace
}  // namespace vitro
