#include "engine/app/scaling/search.hpp"

#include "tests/effort.hpp"
#include "tests/engine/app/scaling/bench.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kOutput = 24;

ScalingConfig read(const std::string& json) {
  const Node node = parse_json(json, "exp.json");
  return read_scaling(Reader(node, ""), true);
}

struct Case {
  std::uint64_t seed = 1, shuffle = 1;
  std::uint32_t threads = 1;
  std::string prompt = "Once upon a time";
  std::uint32_t output_tokens = kOutput;
};

Task<void> drive(Bench* bench, Scorer* scorer, ScalingRequest request, ScalingResult* out) {
  co_await bench->decoder.load();
  request.scorer = scorer;
  *out = co_await scale(&bench->host.machine(), &bench->transformer(), std::move(request));
}

struct Outcome {
  ScalingResult result;
  Bytes kv_peak = 0, kv_block = 0;
  std::uint32_t block_tokens = 0;
  std::size_t prompt = 0;
};

Outcome run(const std::string& json, const Case& setup = {}) {
  ScalingRequest request;
  request.config = read(json);
  const std::uint32_t samples = request.config.samples;
  Bench bench(limits_of(samples, 128), setup.seed, setup.threads, setup.shuffle);
  request.generation.prompt = bench.encode(setup.prompt);
  request.generation.output_tokens = setup.output_tokens;
  request.generation.sequences = samples;
  request.generation.prefill_chunk = 32;
  request.generation.sampling.temperature = 1;
  request.generation.stop_token = bench.model.tokenizer->eos();
  request.tokenizer = bench.model.tokenizer.get();
  const auto scorer = request.config.answer ? nullptr : make_scorer(request.config.scorer, {}, setup.seed);
  Outcome out;
  out.prompt = request.generation.prompt.size();
  bench.host.run(drive(&bench, scorer.get(), std::move(request), &out.result));
  EXPECT_EQ(bench.transformer().kv().live_blocks(), 0u) << "blocks stayed behind";
  out.kv_peak = bench.host.machine().memory.budget(Placement::dram).region_peak[static_cast<std::size_t>(Region::kv)];
  out.kv_block = bench.transformer().kv().block_bytes();
  out.block_tokens = bench.transformer().kv().shape().block_tokens;
  return out;
}

std::vector<std::vector<std::int32_t>> tokens_of(const ScalingResult& result) {
  std::vector<std::vector<std::int32_t>> all;
  for (const Sample& sample : result.samples) all.push_back(sample.tokens);
  return all;
}

TEST(BestOfN, more_samples_keep_the_ones_before) {
  const auto two = tokens_of(run(R"({"method": "best_of_n", "samples": 2})").result);
  const auto eight = tokens_of(run(R"({"method": "best_of_n", "samples": 8})").result);
  ASSERT_EQ(eight.size(), 8u);
  EXPECT_EQ(two, std::vector(eight.begin(), eight.begin() + 2));
  EXPECT_NE(eight[0], eight[1]);
  EXPECT_NE(eight, tokens_of(run(R"({"method": "best_of_n", "samples": 8})", {.seed = 2}).result));
}

TEST(BestOfN, the_highest_score_is_chosen_and_the_first_of_equals) {
  const ScalingResult result = run(R"({"method": "best_of_n", "samples": 8})").result;
  for (const Sample& sample : result.samples) {
    ASSERT_TRUE(sample.log_probability.has_value());
    EXPECT_LT(*sample.log_probability, 0);
    EXPECT_LE(*sample.score, *result.samples[result.chosen].score);
  }
  const ScalingResult equal = run(R"({"method": "best_of_n", "samples": 4, "scorer": {"kind": "regex", "patterns": ["#"]}})").result;
  EXPECT_EQ(equal.chosen, 0u);
  EXPECT_EQ(equal.samples[0].score, 0);
}

// Whatever ended when, and whatever the timing: blocks of the prompt count once, and each sample owns its tail.
TEST(BestOfN, memory_counts_the_blocks_of_the_prompt_once) {
  Case setup;
  while (true) {  // a prompt of two whole blocks and a part of a third
    const Bench bench(limits_of(1, 128));
    if (bench.encode(setup.prompt).size() >= 40) break;
    setup.prompt += " there was a little girl who liked to play";
  }
  setup.output_tokens = 4;
  for (const std::uint32_t samples : {1u, 4u, 8u}) {
    const Outcome out = run(R"({"method": "best_of_n", "samples": )" + std::to_string(samples) + "}", setup);
    ASSERT_EQ(out.block_tokens, 16u);
    const std::size_t shared = out.prompt / 16, longest = out.prompt + setup.output_tokens - 1;  // the last token is never fed back
    ASSERT_GT(out.prompt % 16, 0u);
    const std::size_t own = (longest + 15) / 16 - shared;
    EXPECT_EQ(out.kv_peak, (shared + samples * own) * out.kv_block) << samples;
  }
}

TEST(SelfConsistency, the_answer_that_most_samples_give_wins_and_silence_does_not_vote) {
  const ScalingResult result =
      run(R"({"method": "self_consistency", "samples": 16, "answer": "named (\\w+)\\b"})", {.prompt = "Once upon a time, there was a girl"})
          .result;
  std::map<std::string, std::uint32_t> votes;
  std::size_t silent = 0;
  for (const Sample& sample : result.samples) {
    EXPECT_FALSE(sample.score.has_value());
    silent += !sample.answer;
    if (sample.answer) ++votes[*sample.answer];
  }
  EXPECT_EQ(result.votes, votes);
  ASSERT_FALSE(votes.empty()) << "no sample names the girl: the test needs another prompt";
  std::uint32_t most = 0;
  for (const auto& [answer, count] : votes) most = std::max(most, count);
  EXPECT_EQ(votes.at(*result.samples[result.chosen].answer), most);
  for (std::size_t i = 0; i < result.chosen; ++i) {
    if (result.samples[i].answer) {
      EXPECT_LT(votes.at(*result.samples[i].answer), most) << "an earlier one had as many";
    }
  }
}

const std::string kBeams = R"({"method": "beam_search", "samples": 8, "width": 2, "step": {"until": ".", "max_tokens": 8},
                               "scorer": {"kind": "log_probability"}})";

TEST(BeamSearch, survivors_are_as_many_as_the_width_and_the_best_comes_first) {
  const ScalingResult result = run(kBeams).result;
  ASSERT_EQ(result.samples.size(), 2u);
  EXPECT_GE(*result.samples[0].score, *result.samples[1].score);
  EXPECT_EQ(result.chosen, 0u);
  EXPECT_GE(result.rounds, 3u);  // 24 tokens in steps of 8
  EXPECT_GT(result.generated, 2 * kOutput);
  for (const Sample& sample : result.samples) {
    EXPECT_TRUE(sample.ended);
    EXPECT_DOUBLE_EQ(*sample.score, *sample.log_probability / sample.chosen) << "the score of an earlier step";
  }
}

// Survivors of a step by likelihood: their mean is above that of samples that nobody chose among.
TEST(BeamSearch, finds_more_likely_texts_than_as_many_samples) {
  double beams = 0, samples = 0;
  for (std::uint64_t seed = 1; seed <= test::all_or_few<std::uint64_t>(5, 1); ++seed) {
    const ScalingResult found = run(kBeams, {.seed = seed}).result,
                        all = run(R"({"method": "best_of_n", "samples": 8})", {.seed = seed}).result;
    beams += *found.samples[0].score;
    samples += *all.samples[all.chosen].score;
  }
  EXPECT_GT(beams, samples);
}

TEST(BeamSearch, timing_and_units_change_nothing) {
  const auto expected = tokens_of(run(kBeams).result);
  EXPECT_EQ(tokens_of(run(kBeams, {.shuffle = 7}).result), expected);
  EXPECT_EQ(tokens_of(run(kBeams, {.shuffle = 9, .threads = 2}).result), expected);
  EXPECT_NE(tokens_of(run(kBeams, {.seed = 2}).result), expected);
}

TEST(BeamSearch, a_single_beam_is_plain_sampling) {
  const auto beam = tokens_of(run(R"({"method": "beam_search", "samples": 1, "step": {"max_tokens": 5}})").result);
  EXPECT_EQ(beam, tokens_of(run(R"({"method": "best_of_n", "samples": 1})").result));
}

// Steps of one token: every candidate but the best is given up after each, and the copies share all that was said.
TEST(BeamSearch, copies_share_their_common_past) {
  const Outcome out = run(R"({"method": "beam_search", "samples": 8, "width": 1, "step": {"max_tokens": 1}})");
  const std::size_t longest = out.prompt + kOutput - 1, blocks = (longest + 15) / 16;
  EXPECT_LE(out.kv_peak, (blocks + 7) * out.kv_block);  // a tail of their own for 8, not 8 whole sequences
}

// Judges one round, and fails in the next.
class FailsLater final : public Scorer {
 public:
  Task<std::vector<double>> score(std::vector<const Sample*> samples) override {
    if (rounds++ > 0) throw RunError("no score any more");
    co_return std::vector<double>(samples.size(), 1.0);
  }
  void keep(const std::vector<const Sample*>& samples) override { kept.push_back(samples.size()); }
  int rounds = 0;
  std::vector<std::size_t> kept;
};

TEST(BeamSearch, that_fails_leaves_its_judge_nothing_to_keep) {
  ScalingRequest request;
  request.config = read(kBeams);
  Bench bench(limits_of(8, 128));
  request.generation.prompt = bench.encode("Once upon a time");
  request.generation.output_tokens = kOutput;
  request.generation.sequences = 8;
  request.generation.prefill_chunk = 32;
  FailsLater scorer;
  ScalingResult out;
  EXPECT_THROW(bench.host.run(drive(&bench, &scorer, std::move(request), &out)), RunError);
  EXPECT_EQ(scorer.kept, (std::vector<std::size_t>{2, 0}));
}

}  // namespace
}  // namespace vitro
