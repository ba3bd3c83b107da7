// Whole runs on a GPU: the tokens of a core in the same contract, and no token at all when the device is lost.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/app/session.hpp"
#include "engine/host/host_machine.hpp"
#include "tests/engine/host/gpu_fakes.hpp"
#include "tests/source_path.hpp"

namespace vitro::test {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

constexpr std::uint64_t kAlways = 1000;

class GpuRun : public testing::Test {
 protected:
  GpuRun() : cache_(std::filesystem::temp_directory_path() / ("vitro_gpu_" + std::to_string(::getpid()))) {}
  ~GpuRun() override { std::filesystem::remove_all(cache_); }

  // `answers`: requests until the device is lost.
  Json run(Json engine, const std::string& model, std::uint64_t answers = kAlways) {
    const Json root = {{"experiment", "e"},
                       {"machine", "host"},
                       {"model", {{"gguf", test::source_path("configs/models/embedded/stories-reglu-3m." + model + ".gguf")}}},
                       {"engine", std::move(engine)},
                       {"workload", {{"prompt", "Once upon a time"}, {"output_tokens", 8}}}};
    const MachineFactory machines = [&](const MachineRequest& request, Function& function, TraceSink& trace) {
      HostOptions options;
      options.units = 1;
      options.spin = {};
      if (std::ranges::count(request.units, "gpu") > 0) {
        options.gpu = {"gpu", [&, answers] { return std::make_unique<LostDevice>(std::make_unique<PanelDevice>(log_), answers); }};
      }
      return make_host_machine(options, function, trace);
    };
    return run_experiment(read_experiment(parse_json(root.dump(), "e.json")), {"", cache_.string(), nullptr}, machines);
  }

  std::filesystem::path cache_;
  GpuLog log_;
};

TEST_F(GpuRun, has_the_tokens_of_a_core_in_the_same_contract) {
  for (const char* model : {"q8_0", "q4_0"}) {
    const Json cpu = run({{"units", "cpu0"}, {"activations", "a16"}}, model), gpu = run({{"units", "gpu"}}, model);
    ASSERT_EQ(cpu["tokens"].size(), 8u);
    EXPECT_EQ(gpu["tokens"], cpu["tokens"]) << model;
    // 7 products in each of 4 layers, for the prompt and each token but the last; the output matrix of the q4_0 model is q6_k.
    const int head = model == std::string("q8_0") ? 1 : 0;
    EXPECT_EQ(gpu["counts"]["gpu_products"], 8 * (4 * 7 + head)) << model;
    EXPECT_EQ(gpu["counts"]["gpu_requests"], 8 * (4 * 4 + head)) << model;  // q k v, output, gate up, down
  }
}

TEST_F(GpuRun, shares_phases_with_a_core) {
  const Json cpu = run({{"units", "cpu0"}, {"activations", "a16"}}, "q4_0"), both = run({{"units", {"cpu0", "gpu"}}}, "q4_0");
  EXPECT_EQ(both["tokens"], cpu["tokens"]);
  EXPECT_EQ(both["counts"]["gpu_products"], 8 * 4 * 7);
}

TEST_F(GpuRun, keeps_weights_in_the_memory_objects_that_the_engine_asks_for) {
  run({{"units", "gpu"}, {"products", {{"decode", "image"}, {"prefill", "buffer"}}}}, "q4_0");
  EXPECT_EQ(std::ranges::count(log_.placed, true), std::ranges::count(log_.placed, false));
  EXPECT_EQ(log_.placed.size(), 2u * 4 * 7);
}

TEST_F(GpuRun, a_device_that_is_lost_in_mid_run_is_named_and_there_is_no_result) {
  for (const std::uint64_t answers : {0u, 3u, 60u}) {
    try {
      run({{"units", "gpu"}}, "q4_0", answers);
      FAIL() << "lost after " << answers;
    } catch (const RunError& error) {
      EXPECT_THAT(error.what(), HasSubstr("gpu: the device was lost: Panel GPU: clFinish: CL_OUT_OF_RESOURCES (-5)"));
    }
  }
}

}  // namespace
}  // namespace vitro::test
