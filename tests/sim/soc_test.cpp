#include "sim/soc.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/sim/simulation.hpp"
#include "tests/source_path.hpp"

namespace vitro::sim {
namespace {

using testing::HasSubstr;

std::string message_of(const std::vector<std::string>& overrides) {
  try {
    summarise_device(round_device(overrides));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(Soc, wrong_device_files_end_in_one_clear_message) {
  EXPECT_THAT(message_of({"dram="}), HasSubstr("dram: is missing"));
  EXPECT_THAT(message_of({"ufs="}), HasSubstr("ufs: is missing"));
  EXPECT_THAT(message_of({"ufs.model=nvme"}), AllOf(HasSubstr("nvme.flow"), HasSubstr("expected one of: ufs.detailed, ufs.flow")));
  EXPECT_THAT(message_of({"npu.fidelity=exact"}), HasSubstr("npu.fidelity: \"exact\" (expected one of: flow, detailed)"));
  EXPECT_THAT(message_of({"npu.transport=pigeon"}), AllOf(HasSubstr("npu.transport"), HasSubstr("mailbox, batched, remote_call")));
  EXPECT_THAT(message_of({"npu.kernels={hxm: {dma: {float: {f16: {bits: 16}}}}}"}),
              HasSubstr("expected a name that starts with hmx or hvx"));
  EXPECT_THAT(message_of({"dram.bandwidth=20"}), AllOf(HasSubstr("dram.bandwidth"), HasSubstr("has no unit")));
  EXPECT_THAT(message_of({"ufs.queue_dept=4"}), HasSubstr("did you mean \"queue_depth\"?"));
  EXPECT_THAT(message_of({"tpu={model: edge}"}), HasSubstr("tpu: unknown key"));
  EXPECT_THAT(message_of({"core.cores=0"}), HasSubstr("cpu.big.cores"));
  EXPECT_THAT(message_of({"core.elementwise_per_cycle=0"}), HasSubstr("cpu.big.elementwise_per_cycle: is 0"));
  EXPECT_THAT(message_of({"core.clock=0 GHz"}), HasSubstr("cpu.big.clock: is 0"));
  EXPECT_THAT(message_of({"cpu.bandwidth=0 GB/s"}), HasSubstr("cpu.bandwidth: is 0"));
  EXPECT_EQ(message_of({"npu="}), "(no error)");
}

TEST(SimMachine, its_report_names_the_model_of_each_block_with_its_fidelity) {
  const auto notes = [](const std::vector<std::string>& overrides) {
    Simulation simulation(round_options(overrides));
    return simulation.host().report(Picoseconds(0), simulation.now()).notes;
  };
  EXPECT_THAT(notes({}), testing::Contains(HasSubstr("dram lpddr.flow, cpu core.flow, npu hexagon.flow, ufs ufs.flow")));
  EXPECT_THAT(notes({"npu.fidelity=detailed"}), testing::Contains(HasSubstr("cpu core.flow, npu hexagon.detailed, ufs ufs.flow")));
}

// A device file states what either fidelity reads; what a user puts over it, and nobody reads, is told.
TEST(SimMachine, a_parameter_that_the_user_set_and_no_model_reads_is_told) {
  const auto told = [](const std::string& key, const std::string& value, const std::string& file, const std::string& fidelity) {
    SimOptions options = round_options({"ufs.fidelity=" + fidelity});
    options.device.set_path(key, parse_yaml(value, file));
    options.experiment_file = "exp.yaml";
    Simulation simulation(options);
    std::string lines;
    for (const std::string& note : simulation.host().report(Picoseconds(0), simulation.now()).notes) lines += note + "\n";
    return lines;
  };
  for (const char* file : {"exp.yaml", "--set device.ufs.latency_random"}) {
    EXPECT_THAT(told("ufs.read_time", "60 us", file, "flow"),
                AllOf(HasSubstr(fmt::format("device.ufs.read_time ({}:1) does nothing here", file)), HasSubstr("ufs ufs.flow")));
    EXPECT_THAT(told("ufs.latency_random", "60 us", file, "flow"), testing::Not(HasSubstr("does nothing")));
  }
  EXPECT_THAT(told("ufs.read_time", "60 us", "phone.yaml", "flow"), testing::Not(HasSubstr("does nothing")));
}

// Models see numbers and names; the file and the line of what they refuse are added for all of them.
TEST(Soc, what_a_model_refuses_is_named_with_its_line) {
  const auto message = [](const std::string& block, const std::string& text) -> std::string {
    Node device = round_device();
    device.set_path(block, parse_yaml(text, "part.yaml"));
    try {
      summarise_device(device);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "(no error)";
  };
  EXPECT_THAT(message("npu.kernels", "hmx:\n  dma:\n    float: {f16: {bits: 16}}\n    int8:\n      q4_0: {bits: 12}\n"),
              HasSubstr("part.yaml:5: npu.kernels.hmx.dma.int8.q4_0.bits: is not known"));
  EXPECT_THAT(message("npu.kernels", "hxm:\n  dma: {float: {f16: {bits: 16}}}\n"), HasSubstr("part.yaml:2: npu.kernels.hxm.dma"));
  EXPECT_THAT(message("ufs.max_transfer", "1 KiB"), HasSubstr("part.yaml:1: ufs.max_transfer: must be"));
  EXPECT_THAT(message("dram.available", "2 GB"), HasSubstr("part.yaml:1: dram.available: is above the capacity"));
}

TEST(Soc, clusters_come_fastest_first) {
  Node device = round_device();
  Node fast = device.find_path("cpu.clusters")->items()[0];
  fast.set("clock", Node::scalar("2 GHz"));
  device.set_path("cpu.clusters", Node::list({device.find_path("cpu.clusters")->items()[0], fast}));
  EXPECT_THROW(summarise_device(device), ConfigError);
}

TEST(Soc, a_machine_refuses_units_that_the_device_lacks) {
  const auto message = [](auto change) -> std::string {
    SimOptions options = round_options();
    change(options);
    try {
      Simulation simulation(options);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "(no error)";
  };
  EXPECT_THAT(message([](SimOptions& o) { o.unit_names = {"cpu9"}; }), HasSubstr("expected one of: cpu0, cpu1, npu"));
  EXPECT_THAT(message([](SimOptions& o) { o.unit_names = {"cpu0", "cpu0"}; }), HasSubstr("twice"));
  EXPECT_THAT(message([](SimOptions& o) { o.threads = 3; }), HasSubstr("3 CPU cores"));
  EXPECT_THAT(message([](SimOptions& o) { o.policy_core = "npu"; }), HasSubstr("is not a CPU core"));
}

TEST(Soc, a_block_of_an_accelerator_may_stand_for_several_units) {
  const std::string engines = "cores: 16, tflops: 16, bandwidth: 10 GB/s, stream_bandwidth: 10 GB/s, graph_limit: 1 GB}";
  EXPECT_EQ(summarise_device(round_device({"ane={units: 2, " + engines})).processors.back(), (std::pair<std::string, int>("ane", 2)));
  SimOptions options = round_options({"ane={units: 2, " + engines});
  Simulation simulation(options);
  EXPECT_EQ(simulation.machine().units[3]->caps().name, "ane0");
  EXPECT_EQ(simulation.machine().units[4]->caps().core_class, "ane");
  EXPECT_THAT(message_of({"ane={units: 0, " + engines}), HasSubstr("ane.units"));
  EXPECT_THAT(message_of({"ane={model: ane, cores: 16}"}), HasSubstr("ane.tflops: is missing"));
  EXPECT_THAT(message_of({"gpu={bandwidth: 10 GB/s}"}), HasSubstr("gpu.macs_per_second_otherwise: is missing"));
}

TEST(Soc, devices_of_this_project_name_a_source_for_every_number) {
  for (const std::string device : {"oneplus12", "m2_max", "m2_ultra"}) {
    const DeviceSummary summary = summarise_device(load_yaml(test::source_path("configs/devices/" + std::string(device) + ".yaml")));
    EXPECT_EQ(summary.name, device);
    for (const auto& [kind, count] : summary.parameters_by_kind) EXPECT_NE(kind, "default") << device;
  }
}

TEST(Soc, a_summary_counts_processors_and_parameters_by_provenance) {
  const DeviceSummary summary = summarise_device(load_yaml(test::source_path("configs/devices/oneplus12.yaml")));
  EXPECT_EQ(summary.name, "oneplus12");
  EXPECT_EQ(summary.processors, (std::vector<std::pair<std::string, int>>{{"big", 1}, {"mid", 5}, {"little", 2}, {"npu", 1}, {"gpu", 1}}));
  EXPECT_EQ(summary.dram_capacity, 24'000'000'000u);
  EXPECT_EQ(summary.dram_available, 19'000'000'000u);
  std::map<std::string, int> kinds(summary.parameters_by_kind.begin(), summary.parameters_by_kind.end());
  EXPECT_GT(kinds["measured"], 0);
  EXPECT_GT(kinds["derived"], 0);
  EXPECT_EQ(kinds.count("default"), 0u);  // our own device file states everything
}

}  // namespace
}  // namespace vitro::sim
