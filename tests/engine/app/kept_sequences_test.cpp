// Conversations: requests of one process that go on from the keys and values of earlier ones give the tokens of the same text computed
// anew, wherever those were meanwhile, and compute only what is new.
#include <gtest/gtest.h>

#include "engine/base/file.hpp"
#include "engine/model/gguf_extend.hpp"
#include "engine/model/tokenizer.hpp"
#include "engine/quant/kv_rows.hpp"
#include "tests/effort.hpp"
#include "tests/engine/app/session_kit.hpp"

namespace vitro {
namespace {

using test::faulty_machines;
using test::Json;
using test::kDense;
using test::kModels;

struct Turn {
  std::string goes_on, keep_as, text;
};

// Two conversations whose turns alternate, and one that branches off and is told twice.
const std::vector<Turn> kChat{{"", "a", "Once upon a time there was a dog"}, {"", "b", "The girl went to the park"},
                              {"a", "a", "Then the cat said"},               {"b", "b", "Her mother was"},
                              {"b", "", "The boy ran"},                      {"b", "c", "The boy ran"},
                              {"a", "a", "They were"},                       {"c", "a", "In the end"}};
constexpr int kOutputs = 9;

Json entry(const Turn& turn) {
  Json out{{"prompt", turn.text}};
  if (!turn.goes_on.empty()) out["continue"] = turn.goes_on;
  if (!turn.keep_as.empty()) out["keep_as"] = turn.keep_as;
  return out;
}

class KeptSequencesTest : public test::Sessions {
 protected:
  static Node experiment(const Json& engine, const Json& requests, const Json& extra = Json::object()) {
    Json all = {{"kv", {{"block_tokens", 8}}}, {"prefill_chunk", 5}};
    all.merge_patch(engine);
    Json more = {{"workload.output_tokens", kOutputs}, {"workload.prompt", nullptr}, {"workload.stop_at_eos", false}};
    if (!requests.is_null()) more["workload.requests"] = requests;
    more.update(extra);
    return Sessions::experiment(kDense, all.dump(), more.dump());
  }
  static Json entries(const std::vector<Turn>& turns) {
    Json out = Json::array();
    for (const Turn& turn : turns) out.push_back(entry(turn));
    return out;
  }
  static Node chat(const Json& engine, const std::string& kept_in, const Json& extra = Json::object()) {
    Json more{{"workload.kept_in", kept_in}};
    more.update(extra);
    return experiment(engine, entries(kChat), more);
  }
  // What each turn says when all that was said before is its prompt; and how many rows that has.
  struct Anew {
    Json tokens = Json::array(), rows = Json::array();
  };
  Anew anew(const Json& engine) const {
    const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::from_gguf(Gguf::open(kModels + kDense));
    struct Said {
      std::string text;
      std::vector<std::int32_t> tokens;
    };
    std::map<std::string, Said> said;
    Anew out;
    for (const Turn& turn : kChat) {
      Said whole = turn.goes_on.empty() ? Said{"", {}} : said.at(turn.goes_on);
      whole.text += (turn.goes_on.empty() ? "" : " ") + turn.text;
      for (const std::int32_t token : tokenizer->encode(turn.text)) whole.tokens.push_back(token);
      EXPECT_EQ(tokenizer->encode(whole.text), whole.tokens) << whole.text << ": the text alone has other tokens than its parts";
      const Json result = run(experiment(engine, nullptr, {{"workload.prompt", whole.text}}), faulty_machines(1));
      out.tokens.push_back(result["tokens"]);
      out.rows.push_back(whole.tokens.size() + 1);  // BOS
      whole.text += result["text"].get<std::string>();
      for (const Json& token : result["tokens"]) whole.tokens.push_back(token);
      if (!turn.keep_as.empty()) said[turn.keep_as] = whole;
    }
    return out;
  }
  static Json tokens_of(const Json& result) {
    Json all = Json::array();
    for (const Json& request : result["requests"]) all.push_back(request["sequences"][0]);
    return all;
  }
  std::string refusal(const Node& root, const MachineFactory& machines = faulty_machines(1)) const {
    try {
      run(root, machines);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }
};

Json spilled(const std::string& keep, int dram_tokens, const std::string& order) {
  return {{"kv", {{"keep", keep}, {"dram_tokens", dram_tokens}}}, {"prefill_order", order}};
}

TEST_F(KeptSequencesTest, each_turn_says_what_it_says_after_the_whole_text_and_computes_what_is_new) {
  const Anew expected = anew(Json::object());
  std::vector<Json> engines{Json::object(), spilled("first", 0, "layers"), spilled("recent", 16, "chunks"), spilled("sinks", 16, "layers")};
  engines.resize(test::all_or_few<std::size_t>(4, 2));
  std::uint64_t seed = 0;
  for (const Json& engine : engines) {
    for (const char* kept_in : {"dram", "flash"}) {
      for (const bool host : {false, true}) {
        const std::string at = engine.dump() + kept_in + (host ? " host" : " virtual");
        const Json result = run(chat(engine, kept_in), host ? MachineFactory(make_host) : faulty_machines(++seed));
        EXPECT_EQ(tokens_of(result), expected.tokens) << at;
        for (std::size_t i = 0; i < kChat.size(); ++i) {
          const Json& request = result["requests"][i];
          const std::uint64_t rows = request["prefill_rows"], kept = request["kept_rows"];
          EXPECT_EQ(rows + kept, expected.rows[i]) << at << i;
          EXPECT_EQ(kept > 0, !kChat[i].goes_on.empty()) << at << i;
          EXPECT_EQ(request["restore_ms"].is_null(), kept == 0) << at << i;
        }
        EXPECT_EQ(result["requests"][2]["prefill_rows"], 5) << "four words, and the token that had no position";
      }
    }
  }
}

TEST_F(KeptSequencesTest, every_format_of_keys_and_values_is_kept) {
  for (std::size_t i = 0; i < std::size(kKvFormats); i += test::all_or_few(1, 3)) {
    const Format format = kKvFormats[i];
    const Json engine{{"kv", {{"block_tokens", 8}, {"format", std::string(to_string(format))}}}};
    const Json expected = anew(engine).tokens;
    for (const char* kept_in : {"dram", "flash"}) {
      EXPECT_EQ(tokens_of(run(chat(engine, kept_in), faulty_machines(3))), expected) << to_string(format) << kept_in;
      Json in_flash = engine;
      in_flash["kv"]["dram_tokens"] = 8;
      if (test::all_or_few(true, false)) {
        EXPECT_EQ(tokens_of(run(chat(in_flash, kept_in), faulty_machines(4))), expected) << to_string(format) << kept_in;
      }
    }
  }
}

// Blocks of 8 positions: what is kept in DRAM is there beside each later request, once, and what is kept in flash is not.
TEST_F(KeptSequencesTest, a_kept_sequence_costs_its_blocks_in_dram_or_none) {
  const auto peak = [&](const Json& requests, const char* kept_in) {
    return run(experiment(Json::object(), requests, {{"workload.kept_in", kept_in}}), faulty_machines(2))["peak_memory"]["kv"].get<Bytes>();
  };
  const std::string text = kChat[0].text;
  const Bytes one = peak(entries({{"", "", text}}), "dram");
  const Json three = entries({{"", "a", text}, {"", "b", text}, {"", "", text}});
  EXPECT_EQ(peak(three, "dram"), 3 * one);
  EXPECT_EQ(peak(three, "flash"), one);
  const Bytes longer = peak(entries({{"", "", text + ". The dog ran and ran, and the cat was"}}), "dram");
  const Json goes_on = entries({{"", "a", text}, {"a", "a", "The dog"}}), branches = entries({{"", "a", text}, {"a", "", "The dog"}});
  EXPECT_EQ(peak(goes_on, "dram"), peak(goes_on, "flash")) << "it is itself what goes on";
  EXPECT_GT(longer, one);
  const Bytes both = peak(branches, "dram"), alone = peak(branches, "flash");
  EXPECT_GT(both, alone) << "a copy has a tail of its own";
  EXPECT_LT(both, alone + one) << "and shares the rest";
}

TEST_F(KeptSequencesTest, what_does_not_fit_is_named_and_fits_in_a_file) {
  Json requests = Json::array();
  for (int i = 0; i < 24; ++i) requests.push_back(entry({"", "talk " + std::to_string(i), kChat[0].text}));
  const Json one = run(experiment(Json::object(), Json::array({requests[0]})), faulty_machines(1));
  const Bytes budget = one["metrics"]["peak_memory_bytes"].get<Bytes>() + 2 * one["peak_memory"]["kv"].get<Bytes>() + MiB / 2;
  const auto with = [&](const char* kept_in) {
    return experiment(Json::object(), requests, {{"memory.budget", std::to_string(budget) + " B"}, {"workload.kept_in", kept_in}});
  };
  const std::string message = refusal(with("dram"));
  EXPECT_NE(message.find("KV cache of sequence"), std::string::npos) << message;
  EXPECT_NE(message.find("kept sequences, \"talk 0\" of "), std::string::npos) << message;
  EXPECT_NE(message.find("expected a larger memory.budget, or workload.kept_in: flash"), std::string::npos) << message;
  const Json fits = run(with("flash"), faulty_machines(1));
  EXPECT_EQ(fits["requests"].size(), requests.size());
  EXPECT_LE(fits["metrics"]["peak_memory_bytes"].get<Bytes>(), one["metrics"]["peak_memory_bytes"].get<Bytes>() + MiB / 4)
      << "the file takes all but the one at work";
}

// A step gives up what has left the window, and keeping a sequence in a file is one: lengths over a whole block.
TEST_F(KeptSequencesTest, what_left_a_sliding_window_is_not_kept) {
  const std::string model = (folder_ / "window.gguf").string();
  extend_gguf(kModels + kDense, model, {{"llama.attention.sliding_window", GgufValue{std::uint64_t{24}}}}, {});
  std::string text;
  for (const Turn& turn : kChat) text += turn.text + ". ";
  const Json requests = entries({{"", "a", text}, {"a", "", "The dog"}});
  for (int outputs = 1; outputs <= 9; outputs += test::all_or_few(1, 3)) {
    const auto with = [&](const char* kept_in) {
      const Json engine{{"kv", {{"block_tokens", 8}, {"keep", "recent"}, {"dram_tokens", 16}}}};
      const Json more{{"workload.output_tokens", outputs}, {"workload.prompt", nullptr}, {"workload.stop_at_eos", false},
                      {"workload.requests", requests},     {"workload.kept_in", kept_in}};
      return tokens_of(run(Sessions::experiment(model, engine.dump(), more.dump()), faulty_machines(1)));
    };
    EXPECT_EQ(with("flash"), with("dram")) << outputs;
  }
}

// Full blocks of what goes on under its name do not change in the file.
TEST_F(KeptSequencesTest, what_the_file_has_is_not_written_again) {
  const auto written = [&](const Json& requests) {
    const Json result = run(experiment(Json::object(), requests, {{"workload.kept_in", "flash"}}), faulty_machines(1));
    return result["metrics"]["flash_writes"]["bytes"].get<Bytes>();
  };
  const std::string text = kChat[0].text;  // with BOS and its answer three blocks, one of them partly filled
  const Bytes first = written(entries({{"", "a", text}})), both = written(entries({{"", "a", text}, {"a", "a", "They"}}));
  const Bytes copied = written(entries({{"", "a", text}, {"a", "b", "They"}}));
  EXPECT_LT(both - first, copied - first);
  EXPECT_LT(both, 2 * first);
}

TEST_F(KeptSequencesTest, an_error_of_its_file_ends_the_run_with_its_cause) {
  const auto spoiled_write = [](const WriteRequest&, std::uint64_t n) {
    return n == 1 ? IoFault{Picoseconds(7), {Code::no_space, "no space left in the folder"}, 0} : IoFault{};
  };
  const std::string wrote = refusal(chat(Json::object(), "flash"), faulty_machines(1, {}, spoiled_write));
  EXPECT_NE(wrote.find("writing keys and values of a sequence: no space left in the folder"), std::string::npos) << wrote;
  const Json weights = run(experiment(Json::object(), Json::array({entry(kChat[0])})), faulty_machines(1));
  const FileId kept_file{1};  // the model's is the first one
  const auto spoiled_read = [=](const ReadRequest& request, std::uint64_t) {
    return request.from.file == kept_file ? IoFault{Picoseconds(7), {Code::io_error, "the device does not answer"}, 0} : IoFault{};
  };
  const std::string read = refusal(chat(Json::object(), "flash"), faulty_machines(1, spoiled_read));
  EXPECT_NE(read.find("reading keys and values of a sequence back: the device does not answer"), std::string::npos) << read;
}

TEST_F(KeptSequencesTest, a_sequence_without_a_prompt_goes_on_where_it_ended) {
  const Json all_at_once{{"workload.prompt", kChat[0].text}, {"workload.output_tokens", 3 * kOutputs}};
  const Json whole = run(experiment(Json::object(), nullptr, all_at_once), faulty_machines(1))["tokens"];
  const Json three =
      Json::array({Json{{"prompt", kChat[0].text}, {"keep_as", "a"}}, Json{{"continue", "a"}, {"keep_as", "a"}}, Json{{"continue", "a"}}});
  Json parts = Json::array();
  const Json result = run(experiment(Json::object(), three), faulty_machines(5));
  for (const Json& request : result["requests"]) {
    for (const Json& token : request["sequences"][0]) parts.push_back(token);
  }
  EXPECT_EQ(parts, whole);
}

TEST_F(KeptSequencesTest, decisions_are_equal_on_machines_with_other_timing) {
  const auto log = [&](const std::string& name, std::uint64_t seed) {
    Json engine = spilled("recent", 16, "layers");
    engine["threads"] = 2;
    run(chat(engine, "flash"), faulty_machines(seed), (folder_ / name).string());
    return read_text((folder_ / name / "decisions.jsonl").string());
  };
  EXPECT_EQ(log("a", 1), log("b", 2));
}

TEST_F(KeptSequencesTest, names_that_nobody_kept_and_what_exceeds_the_context_are_refused) {
  const auto refused = [&](const Json& requests) { return refusal(experiment(Json::object(), requests)); };
  const Json first{{"prompt", "a"}, {"keep_as", "x"}};
  const std::string other = refused(Json::array({first, Json{{"continue", "y"}}}));
  EXPECT_NE(other.find("workload.requests.continue: \"y\" is kept by no request before it"), std::string::npos) << other;
  const Json itself{{"prompt", "a"}, {"continue", "x"}, {"keep_as", "x"}};
  EXPECT_NE(refused(Json::array({itself})).find("is kept by no request before it"), std::string::npos);
  EXPECT_NE(refused(Json::array({Json{{"keep_as", "x"}}})).find("exactly one of prompt"), std::string::npos);
  EXPECT_NE(refusal(experiment(Json::object(), Json::array({first}), {{"workload.batch", 2}})).find("keep_as: is for one sequence"),
            std::string::npos);
  for (const char* key : {"continue", "keep_as"}) {
    const std::string empty = refused(Json::array({first, Json{{"prompt", "a"}, {key, ""}}}));
    EXPECT_NE(empty.find(std::string(key) + ": is empty (expected the name of a kept sequence)"), std::string::npos) << empty;
  }
  Json many = Json::array({first});
  for (int i = 0; i < 40; ++i) many.push_back(Json{{"continue", "x"}, {"keep_as", "x"}});
  const std::string full = refused(many);
  EXPECT_NE(full.find("positions of \"x\", "), std::string::npos) << full;
  EXPECT_NE(full.find("exceed the model's context of"), std::string::npos) << full;
  EXPECT_NE(refusal(chat(Json::object(), "disk")).find("workload.kept_in: \"disk\" (expected one of: dram, flash)"), std::string::npos);
}

}  // namespace
}  // namespace vitro
