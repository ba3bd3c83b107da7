// What exp by table, and fp16 attention around it, cost an embedded model: its NLL with the attention of the engine, and with
// lut::flash_attention() in its place.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/base/file.hpp"
#include "engine/experiment/session.hpp"
#include "engine/host/host_machine.hpp"
#include "engine/kernels/lut/flash_attention.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/kernels/operands.hpp"
#include "tests/source_path.hpp"

namespace vitro::test {
namespace {

using Halves = std::vector<std::uint16_t>;

// Computes attention with the oracle of the HVX code, and leaves all other calls to another function.
class LutAttention final : public Function {
 public:
  LutAttention(Function& rest, lut::ExpBy by) : rest_(rest), by_(by) {}

  Outcome execute(const KernelCall& call) override {
    if (call.op != Op::attention) return rest_.execute(call);
    const KvPool pool(call.in[1], call.params[2], call.layer);
    const std::size_t batch = call.batch->size(), dim = pool.dim, heads = elements(call.in[0]) / batch / dim, group = heads / pool.kv_heads;
    const Range slice = sliced(call, pool.kv_heads);
    for (std::size_t b = 0; b < batch; ++b) {
      const Range tokens = visible((*call.batch)[b].position, static_cast<std::uint32_t>(call.params[1]));
      for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
        Halves kv[2], q;
        for (std::uint32_t which = 0; which < 2; ++which) {
          for (std::uint32_t t = tokens.first; t < tokens.end(); ++t) append_token(call, pool, b, h, which, t, kv[which]);
        }
        const std::size_t at = (b * heads + h * group) * dim;
        for (std::size_t i = 0; i < group * dim; ++i) q.push_back(float_to_half(call.in[0].as<float>()[at + i]));
        const Halves out = lut::flash_attention({group, tokens.count, dim, 32, 128}, q, kv[0], kv[1], call.params[0], table_, by_);
        for (std::size_t i = 0; i < out.size(); ++i) call.out[0].as<float>()[at + i] = half_to_float(out[i]);
        ++calls;
      }
    }
    return {};
  }
  std::uint64_t calls = 0;

 private:
  static void append_token(const KernelCall& call, const KvPool& pool, std::size_t b, std::uint32_t head, std::uint32_t which,
                           std::uint32_t token, Halves& out) {
    const std::uint32_t block = call.in[2].as<std::uint32_t>()[b * call.in[2].shape[1] + token / pool.block_tokens];
    const std::byte* from = pool.data + pool.offset(block, which, head) + token % pool.block_tokens * pool.dim * pool.element_bytes();
    ASSERT_EQ(pool.format, Format::f32);
    for (std::uint32_t d = 0; d < pool.dim; ++d) out.push_back(float_to_half(reinterpret_cast<const float*>(from)[d]));
  }

  Function& rest_;
  lut::ExpBy by_;
  const Halves table_ = lut::exp2_table();
};

class LutAttentionNll : public testing::Test {
 protected:
  LutAttentionNll() : cache_(std::filesystem::temp_directory_path() / ("vitro_lut_attention_" + std::to_string(::getpid()))) {}
  ~LutAttentionNll() override { std::filesystem::remove_all(cache_); }

  double nll(std::optional<lut::ExpBy> by) {
    const std::string folder = test::source_path("configs/models/embedded/");
    const std::string text = R"({"experiment": "e", "machine": "host", "model": {"gguf": ")" + folder +
                             R"(stories-reglu-3m.f16.gguf"}, "workload": {"prompt": "x"}})";
    std::unique_ptr<LutAttention> attention;
    const MachineFactory machines = [&](const MachineRequest&, Function& function, TraceSink& trace) {
      HostOptions options;
      options.units = 1;
      options.spin = {};
      if (by) attention = std::make_unique<LutAttention>(function, *by);
      return make_host_machine(options, attention ? static_cast<Function&>(*attention) : function, trace);
    };
    const PerplexityResult result =
        measure_perplexity(read_experiment(parse_json(text, "e.json")), read_text(folder + "eval.txt").substr(0, 6000),
                           {"", cache_.string(), nullptr, "", 0}, machines);
    if (by) {
      EXPECT_GT(attention->calls, result.likelihood.tokens);
    }
    return result.likelihood.nll;
  }
  std::filesystem::path cache_;
};

TEST_F(LutAttentionNll, exp_by_table_costs_less_than_a_thousandth_of_a_nat) {
  const double engine = nll({}), exact = nll(lut::ExpBy::exact), table = nll(lut::ExpBy::table);
  EXPECT_NEAR(table, exact, 1e-3);
  EXPECT_NEAR(table, engine, 1e-3);  // fp16 scores, probabilities and outputs included
  RecordProperty("engine", std::to_string(engine));
  RecordProperty("exact", std::to_string(exact));
  RecordProperty("table", std::to_string(table));
}

}  // namespace
}  // namespace vitro::test
