// What fp16 attention costs an embedded model, with exp by table or by a polynomial: its NLL against that with engine.attention: exact.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/app/session.hpp"
#include "engine/base/file.hpp"
#include "engine/host/host_machine.hpp"
#include "tests/effort.hpp"
#include "tests/source_path.hpp"

namespace vitro::test {
namespace {

class LutAttentionNll : public testing::Test {
 protected:
  LutAttentionNll() : cache_(std::filesystem::temp_directory_path() / ("vitro_lut_attention_" + std::to_string(::getpid()))) {}
  ~LutAttentionNll() override { std::filesystem::remove_all(cache_); }

  double nll(const std::string& engine) {
    const std::string folder = test::source_path("configs/models/embedded/");
    const std::string text = R"({"experiment": "e", "machine": "host", "model": {"gguf": ")" + folder +
                             R"(stories-reglu-3m.f16.gguf"}, "engine": )" + engine + R"(, "workload": {"prompt": "x"}})";
    const MachineFactory machines = [](const MachineRequest&, Function& function, TraceSink& trace) {
      HostOptions options;
      options.units = 1;
      options.spin = {};
      return make_host_machine(options, function, trace);
    };
    return measure_perplexity(read_experiment(parse_json(text, "e.json")), read_text(folder + "eval.txt").substr(0, all_or_few(6000, 400)),
                              {"", cache_.string(), nullptr, "", 0}, machines)
        .likelihood.nll;
  }
  std::filesystem::path cache_;
};

TEST_F(LutAttentionNll, attention_in_fp16_costs_less_than_a_thousandth_of_a_nat) {
  const double exact = nll(R"({"attention": "exact"})"), table = nll(R"({"attention": "lut_exp"})");
  EXPECT_NEAR(table, exact, 1e-3);
  EXPECT_NE(table, exact);  // fp16 scores, probabilities and outputs
  // Keys and values that are fp16 already, and rows one by one: the contract rounds them so, and knows no chunks.
  EXPECT_EQ(nll(R"({"attention": "lut_exp", "kv_format": "f16", "prefill_chunk": 7})"), table);
  for (const char* polynomial : {"exp_f16", "exp_f32"}) {
    const double likelihood = nll(std::string(R"({"attention": ")") + polynomial + R"("})");
    EXPECT_NEAR(likelihood, exact, 1e-3) << polynomial;
    RecordProperty(polynomial, std::to_string(likelihood));
  }
  RecordProperty("exact", std::to_string(exact));
  RecordProperty("table", std::to_string(table));
}

}  // namespace
}  // namespace vitro::test
