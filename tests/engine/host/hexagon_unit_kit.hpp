// A host machine with one core and the emulated Hexagon, and operands for its unit.
#pragma once
#include <gtest/gtest.h>

#include <cstring>

#include "engine/base/rng.hpp"
#include "engine/host/host_machine.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/tile_groups.hpp"
#include "engine/quant/tiles.hpp"
#include "tests/engine/host/worker_ways.hpp"
#include "tests/engine/kernels/hexagon/worker.hpp"

namespace vitro::test {

class HexagonUnitTest : public testing::Test {
 protected:
  explicit HexagonUnitTest(Way way = Way::qemu) : function_(ComputeOptions{"portable"}) {
    if (!have_way(way)) return;
    HostOptions options;
    options.units = 1;
    options.hexagon.transport = [way] { return make_worker(way, 4 * MiB, MiB); };
    options.hexagon.sessions = 2;
    host_ = make_host_machine(options, function_, trace_);
  }

  ComputeUnit& unit() { return *host_->machine().units.back(); }

  View view(std::array<std::uint32_t, 3> shape, Format format, Placement where = Placement::dram) {
    View view;
    view.shape = shape;
    view.format = format;
    view.layout = stored_layout(format);
    view.memory = host_->machine().memory.lease(view_bytes(view), where, Region::fixed).value_or_throw();
    Rng rng(view.memory.id());
    const std::size_t rows = group_rows(view.layout);  // that lie together
    std::vector<float> floats(rows * columns(view));
    for (std::uint64_t r = 0; r < elements(view) / columns(view); r += rows) {
      for (float& x : floats) x = static_cast<float>(rng.normal());
      std::byte* const to = view.data() + r * row_bytes(format, columns(view), view.layout);
      if (view.layout == Layout::strips) {
        quantise_strip(floats.data(), columns(view), to);
      } else {
        quantise_row(format, floats.data(), to, floats.size());
      }
    }
    return view;
  }

  KernelCall product(View weights, View x, VariantId variant = variant::kInt8) {
    KernelCall call;
    call.op = ops::Matmul{};
    call.variant = variant;
    call.layer = 0;
    call.out = {view({x.shape[0], weights.shape[0], 0}, Format::f32)};
    call.in = {std::move(weights), std::move(x)};
    return call;
  }

  // Loads the calls as a graph with everything in it, and launches it.
  static Task<void> run(ComputeUnit* unit, Chain calls, Status* status) {
    GraphSpec spec;
    spec.name = "test";
    spec.calls = std::move(calls);
    const Result<Graph> graph = co_await unit->load(std::move(spec));
    if (!graph.ok()) {
      *status = graph.status();
      co_return;
    }
    Bindings bindings;
    const RunResult result = co_await unit->launch(graph.value(), std::move(bindings));
    *status = result.status;
    unit->unload(graph.value());
  }
  static Task<void> run_chain(ComputeUnit* unit, Chain calls, Status* status) {
    const RunResult result = co_await unit->run(std::move(calls));
    *status = result.status;
  }

  Status launch(Chain calls) {
    Status status;
    host_->run(run(&unit(), std::move(calls), &status));
    return status;
  }

  // What the core computes, in a fresh output.
  std::vector<float> on_the_core(KernelCall call) {
    call.out[0] = view(call.out[0].shape, Format::f32);
    std::memset(call.out[0].data(), 0, view_bytes(call.out[0]));
    function_.execute(call);
    return floats(call.out[0]);
  }
  static std::vector<float> floats(const View& v) { return {v.as<float>(), v.as<float>() + elements(v)}; }

  std::uint64_t counted(const char* name) {
    for (const auto& [counted, value] : host_->report({}, {}).counts) {
      if (counted == name) return value;
    }
    return 0;
  }

  ComputeFunction function_;
  NullTrace trace_;
  std::unique_ptr<MachineHost> host_;
};

}  // namespace vitro::test
