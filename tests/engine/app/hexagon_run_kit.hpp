// Whole runs on one core and an emulated Hexagon, whose worker may be struck at chosen requests.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/app/session.hpp"
#include "engine/host/host_machine.hpp"
#include "engine/model/quantize.hpp"
#include "tests/effort.hpp"
#include "tests/engine/host/hexagon_faults.hpp"
#include "tests/engine/host/worker_ways.hpp"
#include "tests/engine/kernels/hexagon/worker.hpp"
#include "tests/source_path.hpp"

namespace vitro::test {

using Json = nlohmann::ordered_json;
inline const unsigned kTokens = all_or_few(4u, 2u);  // the emulator takes most of the time
constexpr std::uint32_t kStruck = 20;                // a request within the second token: each has 16

struct QuantisedModels {
  QuantisedModels() { std::filesystem::create_directories(folder); }
  ~QuantisedModels() { std::filesystem::remove_all(folder); }
  std::filesystem::path folder = std::filesystem::temp_directory_path() / ("vitro_hexagon_models_" + std::to_string(::getpid()));
};

class HexagonRun : public testing::Test {
 protected:
  HexagonRun() : cache_(std::filesystem::temp_directory_path() / ("vitro_hexagon_" + std::to_string(::getpid()))) {}
  ~HexagonRun() override { std::filesystem::remove_all(cache_); }

  // Faults by the number of the request; a token of this model makes 16.
  Json run(const std::string& units, const std::string& model, std::map<std::uint32_t, Fault> faults = {},
           const std::string& activations = "int8") {
    return run_engine({{"units", units}, {"activations", activations}}, model, std::move(faults));
  }
  // `model`: of the embedded files, or the path of another one.
  Json run_engine(Json engine, const std::string& model, std::map<std::uint32_t, Fault> faults = {}, const std::string& budget = "4 GiB") {
    Json root = {{"experiment", "e"},
                 {"machine", "host"},
                 {"model", {{"gguf", test::source_path("configs/models/embedded/stories-reglu-3m." + model + ".gguf")}}},
                 {"engine", std::move(engine)},
                 {"memory", {{"budget", budget}}},
                 {"workload", {{"prompt", "Once upon a time"}, {"output_tokens", kTokens}}}};
    if (model.front() == '/') root["model"]["gguf"] = model;
    const MachineFactory machines = [&](const MachineRequest& request, Function& function, TraceSink& trace) {
      HostOptions options;
      options.units = 1;
      options.spin = {};
      options.memory_limits = {request.dram_budget.value_or(GiB), 0, 0, 0};
      if (std::ranges::count(request.units, "hexagon") > 0) {
        options.hexagon.transport = [&] {
          return std::make_unique<FaultyTransport>(make_worker(way_, session_, 64 * MiB, !in_matrix(faults)), faults);
        };
        options.hexagon.products = request.code_products;
        options.hexagon.stages.threads = request.hvx_threads;
        options.hexagon.stages.buffers = request.stage_buffers;
        options.hexagon.spill = request.spill;
        const auto hang = [](const auto& fault) {
          return fault.second == Fault::hang || fault.second == Fault::hang_in_vector || fault.second == Fault::hang_in_matrix;
        };
        const bool hangs = std::any_of(faults.begin(), faults.end(), hang);
        if (hangs) options.hexagon.limits.progress = std::chrono::milliseconds(2000);
      }
      return make_host_machine(options, function, trace);
    };
    return run_experiment(read_experiment(parse_json(root.dump(), "e.json")), {"", cache_.string(), nullptr}, machines);
  }
  // Written once for all tests of the program.
  static std::string quantised(const std::string& scheme) {
    static const QuantisedModels models;
    const std::string path = (models.folder / (scheme + ".gguf")).string();
    if (!std::filesystem::exists(path)) quantize(test::source_path("configs/models/embedded/stories-reglu-3m.f16.gguf"), path, scheme);
    return path;
  }
  std::filesystem::path cache_;
  Way way_ = Way::qemu;
  Bytes session_ = GiB;  // of memory that a worker maps
};

}  // namespace vitro::test
