// One product on the matrix unit: the NPU model prices its plan of stages and simulates it, the worker runs the same plan. Prints both as
// JSON: the plan, the price of each stage, the worker's log, and the simulated spans. tools/hexagon/timeline.py draws them.
//
//   hexagon-timeline DEVICE FORMAT ROWS COLUMNS DEPTH [BUFFERS]
//
// FORMAT: f16, q8_0 or q4_0; BUFFERS: of the plan, in place of the device's.
//
// Weights and activations are zero: no stage branches on data.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "engine/host/hexagon_qemu.hpp"
#include "engine/host/hexagon_session.hpp"
#include "engine/kernels/hexagon/stage_layout.hpp"
#include "engine/quant/blocks.hpp"
#include "hw_models/npu/probe.hpp"

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kStageNames[] = {"in", "vector", "matrix", "out", "activations"};

struct Strips {
  std::string_view name;
  Format format;
  hexagon::Kind kind;
};
const Strips* strips_of(std::string_view name) {
  static const Strips all[] = {{"f16", Format::f16, hexagon::Kind::matmul_hmx_f16},
                               {"q8_0", Format::q8_0, hexagon::Kind::matmul_hmx_q8},
                               {"q4_0", Format::q4_0, hexagon::Kind::matmul_hmx}};
  const auto found = std::ranges::find(all, name, &Strips::name);
  return found == std::end(all) ? nullptr : found;
}

struct Question {
  std::string device, format;
  std::uint32_t rows = 0, columns = 0, depth = 0;
  std::string buffers;
};

std::uint32_t number(const std::string& text, const char* what, std::uint32_t most, std::uint32_t multiple) {
  std::size_t end = 0;
  unsigned long value = 0;
  try {
    value = std::stoul(text, &end);
  } catch (const std::exception&) {}
  if (text.empty() || end != text.size() || value == 0 || value > most || value % multiple != 0) {
    throw ConfigError(fmt::format("{}: {} (expected a multiple of {}, at most {})", what, text, multiple, most));
  }
  return static_cast<std::uint32_t>(value);
}

// The call as the simulator would hand it over.
hw::Work work_of(hw::NpuBench& bench, const Question& q) {
  hw::Work work;
  work.kernel = bench.model().kernel("hmx", q.format).id;
  work.rows = q.rows;
  work.columns = q.columns;
  work.depth = q.depth;
  work.weight_bytes = Bytes{q.columns} * row_bytes(strips_of(q.format)->format, q.depth);
  work.read_bytes = work.weight_bytes + Bytes{4} * q.rows * q.depth;
  work.written_bytes = Bytes{4} * q.rows * q.columns;
  work.macs = std::uint64_t{q.rows} * q.columns * q.depth;
  work.row_runs = 1;
  return work;
}

std::vector<hexagon::StageEvent> log_of(const Question& q, const hexagon::StagePlan& plan) {
  HexagonSession session(make_qemu_hexagon({{}, {}, 512 * MiB, 64 * MiB}));
  hexagon::Operator op{};
  op.kind = strips_of(q.format)->kind;
  op.rows = q.columns;
  op.columns = q.depth;
  op.batch = q.rows;
  op.out_bytes = static_cast<std::uint32_t>(Bytes{4} * q.rows * q.columns);
  op.stages = plan;
  op.in[0] = session.place(Bytes{hexagon::units_of(op, q.columns)} * hexagon::unit_weights(op, q.depth)).value_or_throw();
  op.in[1] = session.place(hexagon::activation_bytes(op, q.rows)).value_or_throw();
  op.in[2] = session.place(hexagon::kVectorBytes).value_or_throw();
  static_cast<void>(session.run({op}).value_or_throw());
  return session.log();
}

int run(const Question& q) {
  Node device = load_yaml(q.device);
  if (!q.buffers.empty()) device.set_path("npu.buffers", Node::scalar(q.buffers));
  hw::NpuBench bench(device, "detailed");
  const hw::Work work = work_of(bench, q);
  const hw::StagePrices prices = bench.prices(work);
  std::vector<hw::EventLoop::Span> spans;
  bench.loop().trace_into(&spans);
  const Picoseconds begin = bench.loop().now(), took = bench.call(work);
  bench.loop().trace_into(nullptr);

  const hexagon::StagePlan& plan = prices.plan;
  Json all = {{"plan", {{"rows", plan.rows}, {"passes", plan.passes}, {"columns", plan.columns}, {"groups", plan.groups},
                        {"buffers", plan.buffers}, {"threads", plan.threads}, {"once", plan.once == 1}}},
              {"seconds", {{"full", prices.full}, {"last", prices.last}, {"activations", prices.activations}, {"prepare", prices.prepare}}},
              {"sim_seconds", to_seconds(took)},
              {"sim", Json::array()},
              {"worker", Json::array()}};
  for (const hw::EventLoop::Span& span : spans) {
    all["sim"].push_back({{"stage", span.name}, {"begin", to_seconds(span.begin - begin)}, {"end", to_seconds(span.end - begin)}});
  }
  for (const hexagon::StageEvent& e : log_of(q, plan)) {
    constexpr const char* kMarks[] = {"issue", "begin", "end"};
    all["worker"].push_back({{"mark", kMarks[e.mark]}, {"stage", kStageNames[e.stage]}, {"thread", hexagon::kThreadNames[e.thread]},
                             {"step", e.step}});
  }
  std::puts(all.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace vitro

int main(int argc, char** argv) {
  using vitro::number;
  try {
    if (argc < 6 || argc > 7) throw vitro::ConfigError("expected DEVICE FORMAT ROWS COLUMNS DEPTH [BUFFERS]");
    const std::string format = argv[2], buffers = argc > 6 ? argv[6] : "";
    if (vitro::strips_of(format) == nullptr) {
      throw vitro::ConfigError(format + ": is no format of strips (expected f16, q8_0 or q4_0)");
    }
    if (!buffers.empty() && buffers != "0" && buffers != "1" && buffers != "2") {
      throw vitro::ConfigError("buffers: " + buffers + " (expected 0, 1 or 2)");
    }
    return vitro::run({argv[1], format, number(argv[3], "rows", 4096, 1), number(argv[4], "columns", 32768, 32),
                       number(argv[5], "depth", 32768, 64), buffers});
  } catch (const vitro::ConfigError& error) {
    std::fprintf(stderr, "hexagon-timeline: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hexagon-timeline: %s\n", error.what());
    return 1;
  }
}
