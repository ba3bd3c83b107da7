#include "engine/app/operator_run.hpp"

#include <algorithm>

#include "engine/ops/product_contract.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/tile_groups.hpp"
#include "engine/quant/tiles.hpp"
#include "engine/transformer/call_builder.hpp"

namespace vitro {
namespace {

View leased(Machine& machine, std::array<std::uint32_t, 3> shape, Format format, Region region, Layout layout = Layout::rows) {
  View view;
  view.shape = shape;
  view.format = format;
  view.layout = layout;
  Result<Lease> lease = machine.memory.lease(shape[0] * row_bytes(format, shape[1], layout), Placement::dram, region);
  if (!lease.ok()) throw ConfigError("workload: no memory for the operands: " + lease.status().message);
  view.memory = std::move(lease).value();
  return view;
}

KernelCall product(Machine& machine, const EngineConfig& engine, const MatmulWorkload& work, const MatmulWorkload::Shape& shape) {
  std::vector<SeqPos> rows;
  for (std::uint32_t r = 0; r < work.rows; ++r) rows.push_back({0, r});
  KernelCall call;
  call.op = ops::Matmul{};
  call.layer = 0;
  call.batch = std::make_shared<const std::vector<SeqPos>>(std::move(rows));
  const bool tiled = engine.products.matmul == variant::kInt8 && can_tile(work.format, shape.columns);
  const Layout layout = tiled ? Layout::tiled : stored_layout(work.format);
  call.in = {leased(machine, {shape.columns, shape.depth, 0}, work.format, Region::fixed, layout),
             leased(machine, {work.rows, shape.depth, 0}, Format::f32, Region::activation)};
  call.out = {leased(machine, {work.rows, shape.columns, 0}, Format::f32, Region::activation)};
  return call;
}

VariantId contract_of(const EngineConfig& engine, const KernelCall& call, bool accelerated) {
  const AskedContracts asked{engine.products.matmul, engine.products.prefill_matmul, engine.placement.activations};
  const bool prompt = call.batch->size() > engine.products.methods.decode_rows;
  return product_contract(asked, {.prompt = prompt, .accelerator = accelerated}, call.in[0].format, call.in[0].layout);
}

Task<void> share(GraphCache* graphs, ComputeUnit* unit, KernelCall call, std::uint32_t repeat) {
  Chain chain(repeat, call);
  const RunResult result = co_await graphs->run(unit, std::move(chain));
  result.status.or_throw();
}

Task<void> run_all(Machine* machine, GraphCache* graphs, const EngineConfig* engine, const KernelCall* whole, std::uint32_t repeat) {
  TaskScope scope(machine->executor);
  for (std::size_t u = 0; u < machine->units.size(); ++u) {
    KernelCall call = *whole;
    call.slice = share_of(call.in[0].shape[0], std::max(kTileRows, group_rows(call.in[0].layout)), u, machine->units.size());
    if (call.slice.count == 0) continue;
    const Method method = engine->products.methods.of(call.batch->size());
    const bool accelerated = machine->units[u]->caps().static_graphs;
    if (accelerated && applies(method, call.in[0].format)) call.method = method;
    call.variant = contract_of(*engine, call, accelerated);
    scope.spawn(share(graphs, machine->units[u], std::move(call), repeat));
  }
  co_await scope.join();
}

}  // namespace

Task<void> run_matmuls(Machine* machine, const EngineConfig* engine, const MatmulWorkload* work, MatmulTimes* times) {
  GraphCache graphs(*machine);
  std::vector<KernelCall> calls;
  for (const MatmulWorkload::Shape& shape : work->shapes) calls.push_back(product(*machine, *engine, *work, shape));
  for (const KernelCall& call : calls) co_await run_all(machine, &graphs, engine, &call, work->repeat);
  times->begin = machine->clock.now();
  for (const KernelCall& call : calls) {
    const Picoseconds before = machine->clock.now();
    co_await run_all(machine, &graphs, engine, &call, work->repeat);
    times->each.push_back((machine->clock.now() - before) / work->repeat);
  }
  times->end = machine->clock.now();
}

Task<void> run_softmax(Machine* machine, const SoftmaxWorkload* work, MatmulTimes* times) {
  GraphCache graphs(*machine);
  KernelCall call;
  call.op = ops::Softmax{work->exponential, work->repeat};
  call.layer = 0;
  call.batch = std::make_shared<const std::vector<SeqPos>>(work->rows);
  ComputeUnit* unit = machine->units.back();
  call.in = {leased(*machine, {work->rows, work->columns, 0}, Format::f32, Region::activation)};
  call.out = {call.in[0]};
  co_await share(&graphs, unit, call, 1);
  times->begin = machine->clock.now();
  co_await share(&graphs, unit, call, 1);
  times->end = machine->clock.now();
  times->each.push_back((times->end - times->begin) / work->repeat);
}

}  // namespace vitro
