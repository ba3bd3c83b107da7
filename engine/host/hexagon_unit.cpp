#include "engine/host/hexagon_unit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/host/hexagon_rows.hpp"
#include "engine/kernels/common/float_copies.hpp"
#include "engine/kernels/hexagon/stage_layout.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/tile_groups.hpp"

namespace vitro {

HexagonUnit::HexagonUnit(UnitId id, std::size_t index, const HexagonOptions& options, HostExecutor& executor, Function& function,
                         TraceSink& trace, Activity& activity, Memory& memory)
    : index_(index),
      options_(options),
      executor_(executor),
      function_(function),
      trace_(trace),
      activity_(activity),
      track_(trace.track("units", "hexagon")),
      sessions_(std::make_shared<HexagonSessions>(options.transport, options.limits, options.sessions)),
      weights_(*sessions_, memory, options.products),
      worker_(executor, Picoseconds(0), [this](Job job) { execute(std::move(job)); }) {
  attention_.emplace((*sessions_)[0], options.stages);
  caps_.id = id;
  caps_.kind = UnitKind::npu;
  caps_.name = "hexagon";
  caps_.core_class = "npu";
  caps_.static_graphs = true;
  caps_.session_limit = (*sessions_)[0].transport().inbound().size();
  caps_.maps = Placement::npu_mapped;
  caps_.as_stored = {Format::q4_0_tile, Format::f16};
  caps_.in_places = {Format::f16, Format::q8_0, Format::q4_0, Format::q4_nibbles};
}

std::optional<HexagonUnit::Placed> HexagonUnit::placed_at_launch(const KernelCall& call) {
  if (call.row_offsets != nullptr) {
    const Result<Placed> rows = weights_.find_rows(call);
    if (!rows.ok() && first_rows_.empty()) first_rows_ = rows.status().message;
    return rows.ok() ? std::optional(rows.value()) : std::nullopt;
  }
  if (!call.is<ops::Matmul>() || call.in[0].memory.block()->region != Region::fixed) return {};
  const Result<Placed> placed = weights_.place(call);
  return placed.ok() ? std::optional(placed.value()) : std::nullopt;
}

Task<Result<Graph>> HexagonUnit::load(GraphSpec spec) {
  Loaded loaded;
  for (const KernelCall& call : spec.calls) {
    if (!call.in.empty() && call.in[0].slot > 0) {
      loaded.weights.emplace_back();
      continue;
    }
    Result<Placed> weights = weights_.place(call);
    if (!weights.ok() && weights.status().code == Code::unsupported_shape) {
      if (first_refusal_.empty()) first_refusal_ = weights.status().message;
      co_return Status{Code::unsupported_shape, fmt::format("hexagon: {}", weights.status().message)};
    }
    if (!weights.ok()) co_return weights.status();
    loaded.weights.emplace_back(weights.value());
  }
  Graph graph{next_graph_++, spec.calls.size() * sizeof(hexagon::Operator)};
  loaded.spec = std::move(spec);
  graphs_.emplace(graph.id, std::move(loaded));
  co_return Result<Graph>(graph);
}

void HexagonUnit::unload(Graph graph) {
  const std::size_t erased = graphs_.erase(graph.id);
  VITRO_CHECK(erased == 1, "unload of a graph that is not loaded");
}

std::vector<std::string> HexagonUnit::notes() {
  const std::scoped_lock lock(running_);
  std::vector<std::string> notes{
      fmt::format("hexagon: {}, {} operators in {} requests", (*sessions_)[0].transport().name(), operators(), requests()),
      fmt::format("hexagon: {} of weights are read where they lie, {} from copies", format_bytes(weights_.shared()),
                  format_bytes(weights_.copied()))};
  if (sessions_->size() > 1) notes.push_back(fmt::format("hexagon: {} sessions", sessions_->size()));
  for (std::size_t i = 0; i < sessions_->size(); ++i) {
    const std::vector<std::string>& of_session = (*sessions_)[i].notes();
    notes.insert(notes.end(), of_session.begin(), of_session.end());
  }
  if (!first_refusal_.empty()) notes.push_back(fmt::format("hexagon: graphs were refused, the first one since {}", first_refusal_));
  if (lost_ > 0) notes.push_back(fmt::format("hexagon: {} operators ran on the CPU instead", lost_));
  if (lacking_ > 0) notes.push_back(fmt::format("hexagon: {} operators that it lacks ran on the CPU", lacking_));
  if (!first_rows_.empty()) {
    notes.push_back(fmt::format("hexagon: matmuls with row offsets ran on the CPU, the first one because {}", first_rows_));
  }
  return notes;
}

std::vector<PacketCount> HexagonUnit::packets() const {
  const std::scoped_lock lock(running_);
  std::vector<PacketCount> all;
  for (std::size_t i = 0; i < sessions_->size(); ++i) {
    const std::vector<PacketCount> counts = (*sessions_)[i].transport().packets();
    all.insert(all.end(), counts.begin(), counts.end());
  }
  return all;
}

Bytes HexagonUnit::spilled(hexagon::Spill place) const {
  const std::scoped_lock lock(running_);
  Bytes bytes = 0;
  for (std::size_t i = 0; i < sessions_->size(); ++i) {
    bytes += (*sessions_)[i].spilled()[static_cast<std::size_t>(place)] * sizeof(float);
  }
  return bytes;
}

void HexagonUnit::submit(const Chain&, Completion<RunResult>& done) {
  RunResult result;
  result.status = {Code::unsupported_shape, "hexagon has static shapes: it runs loaded graphs only"};
  done.complete(std::move(result));
}

void HexagonUnit::submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) {
  const auto loaded = graphs_.find(graph.id);
  VITRO_CHECK(loaded != graphs_.end(), "launch of a graph that is not loaded");
  worker_.post({std::make_unique<Chain>(bind(loaded->second.spec, bindings)), &loaded->second, &done});
}

void HexagonUnit::execute(Job job) {
  RunResult result;
  const Picoseconds begin = executor_.now();
  try {
    const std::scoped_lock lock(running_);
    run(*job.chain, *job.graph, result.outcomes);
  } catch (...) {
    result.error = std::current_exception();
  }
  const Picoseconds end = executor_.now();
  if (trace_.enabled()) trace_.span(track_, begin, end, job.graph->spec.name, describe(job.chain->front()));
  activity_.unit_busy(index_, begin, end);
  job.chain.reset();  // its leases go before the waiter may look at the budget
  job.done->complete(std::move(result));
}

void HexagonUnit::run(const Chain& chain, const Loaded& graph, std::vector<Outcome>& outcomes) {
  std::vector<std::optional<Placed>> weights = graph.weights;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    if (!weights[i]) weights[i] = placed_at_launch(chain[i]);
  }
  for (std::size_t next = 0; next < chain.size();) {
    const bool mine = weights[next].has_value();
    const std::size_t done = mine && (*sessions_)[weights[next]->session].usable() ? run_request(chain, weights, next) : 0;
    next += done;
    if (done > 0) continue;
    const bool attends = hexagon::Attention::takes(chain[next]);
    if (attends && (*sessions_)[0].usable() && attention_->run(chain[next])) {
      ++next;
      continue;
    }
    Outcome outcome = function_.execute(chain[next++]);
    if (outcome.index() != 0) outcomes.push_back(std::move(outcome));
    ++(mine || attends ? lost_ : lacking_);
  }
}

// None when the request has no room for the call.
std::optional<hexagon::Operator> HexagonUnit::make_operator(HexagonSession& session, const KernelCall& call, const Placed& weights,
                                                            Inputs& inputs) {
  const View &w = call.in[0], &x = call.in[1];
  const hexagon::MatmulForm& form = weights.form;
  const bool adds = form.kind == hexagon::Kind::add_rows;
  hexagon::Operator op{};
  op.kind = weights.in_rows ? hexagon::in_places(form.kind) : form.kind;
  op.rows = hexagon::rows_of(call);
  op.columns = columns(w);
  op.batch = x.shape[0];
  op.out_bytes = static_cast<std::uint32_t>(Bytes{op.batch} * (adds ? op.columns : op.rows) * sizeof(float));
  op.bits = form.planes.bits;
  op.group = form.planes.group;
  op.tile = form.planes.tile;
  op.zero = form.planes.zero;
  op.zeros = form.planes.zeros;
  op.scales = form.planes.scales;
  op.spill = options_.spill;
  if (hexagon::is_staged(op.kind)) {
    op.stages = hexagon::plan_stages(op, row_bytes(w.format, op.columns, stored_layout(w.format)), options_.stages);
  }
  op.in[0] = weights.at;
  if (adds) {
    const Result<std::uint32_t> h = hexagon::place_row_weights(session, call);
    if (!h.ok()) return {};
    op.in[1] = h.value();
  } else {
    const std::tuple key{x.data(), op.batch, op.columns, hexagon::encoding(form)};
    if (!inputs.contains(key)) {
      const Result<PlacedInput> at = place_activations(session, form, x);
      if (!at.ok()) return {};
      inputs[key] = at.value();
    }
    op.in[1] = inputs[key].first;
    op.in[2] = inputs[key].second;
  }
  if (weights.in_rows) {
    const Result<std::uint32_t> places = hexagon::place_rows(session, call, weights.at);
    if (!places.ok()) return {};
    op.in[3] = places.value();
  }
  return op;
}

// Runs as many calls as one request holds, from `first` on, and says how many; 0 when the worker has none of them done.
std::size_t HexagonUnit::run_request(const Chain& chain, const std::vector<std::optional<Placed>>& weights_of, std::size_t first) {
  HexagonSession& session = (*sessions_)[weights_of[first]->session];
  session.clear_scratch();
  std::vector<hexagon::Operator> operators;
  Inputs inputs;
  Bytes results = 0;
  for (std::size_t i = first; i < chain.size() && operators.size() < hexagon::kMostOperators; ++i) {
    const KernelCall& call = chain[i];
    if (!weights_of[i] || weights_of[i]->session != weights_of[first]->session) break;
    const auto depends = [&](const KernelCall& earlier) { return overlap(earlier.out[0], call.in[1]); };
    if (std::any_of(chain.begin() + static_cast<std::ptrdiff_t>(first), chain.begin() + static_cast<std::ptrdiff_t>(i), depends)) break;
    const bool adds = weights_of[i]->form.kind == hexagon::Kind::add_rows;
    const Bytes out_bytes = Bytes{call.in[1].shape[0]} * (adds ? columns(call.in[0]) : hexagon::rows_of(call)) * sizeof(float);
    results += round_up(out_bytes, hexagon::kVectorBytes);
    if (results > session.most_results()) break;
    const std::optional<hexagon::Operator> op = make_operator(session, call, *weights_of[i], inputs);
    if (!op) break;
    operators.push_back(*op);
  }
  if (operators.empty()) return 0;
  ++requests_;
  const Result<std::vector<std::vector<std::uint32_t>>> answers = session.run(operators);
  if (!answers.ok()) return 0;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    if (hexagon::is_staged(operators[i].kind)) overlap_ += hexagon::overlap_of(operators[i], static_cast<std::uint32_t>(i), session.log());
    hexagon::store_results(chain[first + i], reinterpret_cast<const float*>(answers.value()[i].data()));
  }
  operators_ += operators.size();
  return operators.size();
}

// Once for all products of a request that have the same input.
Result<HexagonUnit::PlacedInput> HexagonUnit::place_activations(HexagonSession& session, const hexagon::MatmulForm& form, const View& x) {
  const hexagon::ActivationBytes size = hexagon::activations_bytes(form, x.shape[0], columns(x));
  const Result<std::uint32_t> first = session.scratch(size.first), second = session.scratch(size.second);
  if (!first.ok()) return first.status();
  if (!second.ok()) return second.status();
  hexagon::write_activations(form, in_f32(x), session.at(first.value()), session.at(second.value()));
  session.written(first.value(), size.first);
  session.written(second.value(), size.second);
  return PlacedInput{first.value(), second.value()};
}

}  // namespace vitro
