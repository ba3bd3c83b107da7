#include "engine/transformer/call_builder.hpp"

#include <algorithm>

#include "engine/graph/operator_graph.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/product_contract.hpp"
#include "engine/parts/placement/placement.hpp"
#include "engine/quant/group_formats.hpp"

namespace vitro {

View rows_of_part(View view, const Slice& part) {
  if (part == Slice{}) return view;
  view.offset += part.first * (view.shape[1] == 0 ? view.format.block_bytes() : row_bytes(view.format, view.shape[1], view.layout));
  view.shape[0] = std::min(part.count, view.shape[0] - part.first);
  return view;
}

CallBuilder::CallBuilder(const OperatorGraph& graph, const ModelConfig& config, const WeightStore& weights, const Residency& residency,
                         const Buffers& buffers, const KvCache& kv, CallOptions options)
    : graph_(graph), config_(config), weights_(weights), residency_(residency), buffers_(buffers), kv_(kv), options_(options) {}

UnitQueues CallBuilder::build(const Phase& phase, const StepContext& step, const Shares& shares) const {
  UnitQueues queues(shares.size());
  for (std::size_t unit = 0; unit < shares.size(); ++unit) {
    Site site{unit, &phase, &step, nullptr};
    if (!has_own_work(site, shares)) continue;
    for (const OperatorGroup& group : phase.groups) {
      if (group.rows == RowSet::sampled && step.sampled->empty()) continue;
      if (!step.choose && graph_[group.operators.front()].is<ops::Sample>()) continue;
      if (group.rows != RowSet::routed) {
        append_group(group, site, shares, queues[unit]);
        continue;
      }
      const std::vector<ExpertPlan::Group>& experts = step.experts.groups;
      for (std::size_t i = 0; i < 2 * experts.size(); ++i) {  // what is there is computed while the rest comes
        site.expert = &experts[i % experts.size()];
        const bool first = residency_.here(phase.layer, site.expert->expert);
        if (first == (i < experts.size())) append_group(group, site, shares_of_expert(group, site, shares), queues[unit]);
      }
      site.expert = nullptr;
    }
  }
  return queues;
}

// A unit without a slice of its own need not replicate anything, but for the first one: it does what is not shared out, and its copy
// of a replicated tensor is the one that later phases read.
bool CallBuilder::has_own_work(const Site& site, const Shares& shares) const {
  bool needed = false;
  for (const OperatorGroup& group : site.phase->groups) {
    const bool cut = group.split == Split::rows || group.split == Split::kv_heads;
    if (cut && share_of_group(group, site, shares).count > 0) return true;
    if (cut && group.rows == RowSet::routed) {
      for (const ExpertPlan::Group& expert : site.step->experts.groups) {
        const Site there{site.unit, site.phase, site.step, &expert};
        if (share_of_group(group, there, shares_of_expert(group, there, shares)).count > 0) return true;
      }
    }
    needed = needed || group.split == Split::single;
    for (const OperatorId id : group.operators) {
      const auto [first, last] = boost::out_edges(id, graph_);
      needed = needed ||
               (!cut && std::any_of(first, last, [&](const auto& edge) { return !in_phase(boost::target(edge, graph_), *site.phase); }));
    }
  }
  return site.unit == 0 && needed;
}

// Of the heads that are staged for somebody else, the units share the conversion; what follows other slices is cut as they are.
Slice CallBuilder::share_of_group(const OperatorGroup& group, const Site& site, const Shares& shares) const {
  if (!graph_[group.operators.front()].is<ops::KvStage>()) return share_of(group.extent, group.grain, site.unit, shares);
  const Slice staged = site.step->staged, part = share_of(staged.count, group.grain, site.unit, shares);
  return {staged.first + part.first, part.count};
}

// Gate and Up have a row for each neuron. The rows of Down are summed over the experts, by who made them: all have the phase's shares.
Shares CallBuilder::shares_of_expert(const OperatorGroup& group, const Site& site, const Shares& shares) const {
  const auto of_neurons = [&](OperatorId id) { return graph_[id].weight == Role::ffn_gate || graph_[id].weight == Role::ffn_up; };
  if (options_.placement == nullptr || std::ranges::none_of(group.operators, of_neurons)) return shares;
  const auto rows = static_cast<std::uint32_t>(site.step->rows->size());
  return options_.placement->shares_of_expert(site.phase->layer, site.expert->expert, rows).value_or(shares);
}

const Weight& CallBuilder::weight_for(const Operator& op, Role role, const Site& site) const {
  if (options_.copy.weights != nullptr && options_.copy.unit == site.unit) {
    if (const Weight* other = options_.copy.weights->find(role, op.layer)) return *other;
  }
  return weights_.get(role, op.layer);
}

bool applies(Method method, Format format) {
  const bool few_bits = has_look_ups(format) || format == Format::q4_0;
  if (method == Method::automatic) return true;
  if (method == Method::native) return format.family != Format::Family::plain;
  if (method == Method::two_level) return has_look_ups(format);  // of bit planes
  if (method == Method::lut || method == Method::fused || method == Method::scaled_tables) return few_bits;
  return few_bits || format == Format::q8_0;
}

VariantId CallBuilder::contract_of(const Operator& op, const Weight& weight, const Site& site) const {
  const OwnContract own = site.unit < options_.own.size() ? options_.own[site.unit] : OwnContract::none;
  const bool theirs = own == OwnContract::of_all || (own == OwnContract::of_layers && op.layer >= 0);
  return product_contract({options_.matmul, options_.prefill_matmul, options_.accelerator_matmul},
                          {.prompt = site.step->rows->size() > options_.products.decode_rows, .accelerator = theirs}, weight.format,
                          weight.layout);
}

Method CallBuilder::method_of(const Operator& op, const Site& site) const {
  if (site.unit >= options_.accelerators.size() || !options_.accelerators[site.unit]) return Method::automatic;
  const Method method = options_.products.of(batch_of(op, site)->size());
  return applies(method, weight_for(op, *op.weight, site).format) ? method : Method::automatic;
}

void CallBuilder::append_group(const OperatorGroup& group, const Site& site, const Shares& shares, std::vector<WorkItem>& queue) const {
  switch (group.split) {
    case Split::single:
      if (site.unit == 0) append_slices(group, site, {}, queue);
      return;
    case Split::replicated:
      return append_slices(group, site, {}, queue);
    case Split::rows:
    case Split::kv_heads: {
      const Slice share = share_of_group(group, site, shares);
      if (share.count > 0) append_slices(group, site, share, queue);
    }
  }
}

void CallBuilder::append_slices(const OperatorGroup& group, const Site& site, Slice share, std::vector<WorkItem>& queue) const {
  const bool whole = share.count == ~0u;
  const std::uint32_t step = whole ? ~0u : slice_step(group);
  for (std::uint32_t done = 0; done < share.count; done += std::min(step, share.count - done)) {
    const Slice slice = whole ? share : Slice{share.first + done, std::min(step, share.count - done)};
    WorkItem item;
    for (const OperatorId id : group.operators) append_call(id, slice, site, item);
    if (!item.calls.empty()) queue.push_back(std::move(item));
    if (whole) return;
  }
}

// Columns per item such that its weights stay within what the residency wants to wait for at once.
std::uint32_t CallBuilder::slice_step(const OperatorGroup& group) const {
  Bytes per_column = 0;
  for (const OperatorId id : group.operators) {
    if (!graph_[id].weight) continue;
    const Weight& weight = weights_.get(*graph_[id].weight, graph_[id].layer);
    per_column += weight.matrix_bytes() / weight.rows;
  }
  if (per_column == 0) return group.extent;
  const Bytes columns = residency_.item_bytes() / per_column / group.grain * group.grain;
  return static_cast<std::uint32_t>(std::clamp<Bytes>(columns, group.grain, group.extent));
}

Slice CallBuilder::in_heads(Slice share, std::uint32_t heads) const {
  const std::uint32_t group = heads / config_.kv_heads;
  return share.count == ~0u ? share : Slice{share.first * group, share.count * group};
}

std::pair<std::uint32_t, std::uint32_t> CallBuilder::rows_of(const Operator& op, const Site& site) const {
  switch (op.rows) {
    case RowSet::all:
      return {0, static_cast<std::uint32_t>(site.step->rows->size())};
    case RowSet::sampled:
      return {0, static_cast<std::uint32_t>(site.step->sampled->size())};
    case RowSet::routed:
      // Seen from outside the experts (expert_sum), the partial sums of all of them.
      if (site.expert == nullptr) return {0, static_cast<std::uint32_t>(site.step->experts.rows.size())};
      return {site.expert->first, site.expert->count};
  }
  return {};
}

View CallBuilder::tensor(const Operator& op, const Site& site, std::size_t copy) const {
  const auto [first, count] = rows_of(op, site);
  const std::uint32_t before = op.rows == RowSet::all ? site.step->first_row : 0;
  const std::uint32_t chunk = before > 0 && buffers_.crosses_layers(op.output) ? before : 0;
  return buffers_.view(op.output, chunk + first, count, copy);
}

bool CallBuilder::in_phase(OperatorId id, const Phase& phase) const {
  for (const OperatorGroup& group : phase.groups) {
    if (std::find(group.operators.begin(), group.operators.end(), id) != group.operators.end()) return true;
  }
  return false;
}

// A replicated tensor of this phase is the unit's own copy; of an earlier phase, the first unit's, which always has one.
View CallBuilder::input(OperatorId consumer, OperatorId producer, const Site& site) const {
  const Operator& from = graph_[producer];
  if (graph_[consumer].rows == RowSet::routed && from.rows == RowSet::all) {
    // One row for one expert needs no regrouping; otherwise the rows of this expert have been gathered.
    if (site.step->rows->size() == 1) return buffers_.view(from.output, 0, 1, 0);
    return buffers_.view("expert_x", site.expert->first, site.expert->count, site.unit);
  }
  return tensor(from, site, in_phase(producer, *site.phase) ? site.unit : 0);
}

void CallBuilder::add_weight(const Operator& op, Role role, Slice slice, const Site& site, KernelCall& call, WorkItem& item) const {
  const Weight& weight = weight_for(op, role, site);
  const std::uint32_t expert = site.expert != nullptr ? site.expert->expert : 0;
  const bool copied = options_.copy.weights != nullptr && options_.copy.weights->find(role, op.layer) == &weight;
  View view = (copied ? *options_.copy.residency : residency_).view(weight, expert);
  const bool vector = weight.rows == 1 && role != Role::value_head;
  if (vector) view.shape = {weight.columns, 0, 0};
  call.in.push_back(rows_of_part(std::move(view), op.part));
  if (copied) return;  // is there for good
  const Bytes matrix = expert * weight.matrix_bytes();
  if (op.is<ops::Matmul>()) {
    const std::uint32_t rows = vector ? weight.columns : weight.rows;
    const std::uint32_t own = std::min(op.part.count, rows - op.part.first);
    const Bytes row = weight.matrix_bytes() / rows;
    item.uses.push_back({&weight, matrix + (op.part.first + slice.first) * row, std::min(slice.count, own - slice.first) * row});
  } else {
    item.uses.push_back({&weight, matrix, weight.matrix_bytes()});
  }
}

void CallBuilder::append_call(OperatorId id, Slice slice, const Site& site, WorkItem& item) const {
  const Operator& op = graph_[id];
  const StepContext& step = *site.step;
  const std::vector<OperatorId> inputs = inputs_of(graph_, id);
  const auto rows = static_cast<std::uint32_t>(step.rows->size());
  const auto in = [&](std::size_t i) { return input(id, inputs[i], site); };

  KernelCall call;
  call.op = op.op;
  call.layer = op.layer;
  call.slice = slice;
  call.batch = batch_of(op, site);
  call.variant = options_.matmul == variant::kReference ? variant::kReference : variant::kFloat;
  if (site.expert != nullptr) call.expert = static_cast<std::int16_t>(site.expert->expert);

  if (call.is<ops::AddProduct>()) return append_bypass(id, site, call, item);
  if (keeps_or_reads_kv(call)) {
    make_attention(id, site, call);
    item.calls.push_back(std::move(call));
    return;
  }
  if (call.is<ops::Precompute>() && method_of(op, site) != Method::lut) return;  // another way to the same products: no tables
  std::visit(Overloaded{
                 [&](const ops::Embed&) {
                   if (options_.embedding != nullptr) {
                     call.in = {options_.embedding->table(rows), reshaped(buffers_.view("token_ids", 0, rows), rows, 0)};
                     return;
                   }
                   const Weight& weight = weights_.get(*op.weight, op.layer);
                   call.in = {residency_.view(weight), reshaped(buffers_.view("token_ids", 0, rows), rows, 0)};
                   const Bytes row = weight.matrix_bytes() / weight.rows;
                   if (const std::uint32_t* ids = buffers_.host_data<std::uint32_t>("token_ids")) {
                     for (std::uint32_t r = 0; r < rows; ++r) item.uses.push_back({&weight, ids[r] * row, row});
                   } else {
                     item.uses.push_back({&weight, 0, rows * row});
                   }
                 },
                 [&](const ops::RmsNorm&) {
                   call.in = {in(0)};
                   if (op.split == Split::kv_heads) {  // each head by itself
                     const std::uint32_t heads = op.width / config_.head_dim;
                     call.slice = in_heads(slice, heads);
                     call.in = {reshaped(in(0), rows, heads, config_.head_dim)};
                     call.out = {reshaped(tensor(op, site, 0), rows, heads, config_.head_dim)};
                   }
                   add_weight(op, *op.weight, slice, site, call, item);
                 },
                 [&](const ops::Move&) {
                   call.in = {in(0)};
                   make_move(op, rows, call);
                 },
                 [&](ops::Matmul& product) {
                   call.variant = contract_of(op, weight_for(op, *op.weight, site), site);
                   call.method = method_of(op, site);
                   product.precomputed = call.method == Method::lut && inputs.size() > 1;
                   // Rows of one expert have to stand together before its matrices see them; each unit gathers its own copy.
                   const bool gathers =
                       site.expert != nullptr && rows > 1 && graph_[inputs[0]].rows == RowSet::all && *op.weight == Role::ffn_gate;
                   if (gathers) item.calls.push_back(gather_of_expert(graph_[inputs[0]], call, site));
                   add_weight(op, *op.weight, slice, site, call, item);
                   call.in.push_back(in(0));
                   if (op.bias) add_weight(op, *op.bias, slice, site, call, item);
                 },
                 [&](ops::Precompute& tables) {
                   call.method = Method::lut;
                   const Weight& weight = weight_for(op, *op.weight, site);
                   tables.weights = weight.format;
                   const VariantId contract = contract_of(op, weight, site);  // some make other tables
                   if (contract == variant::kInt8Tables || contract == variant::kInt16Tables) call.variant = contract;
                   call.in = {in(0)};
                 },
                 [&](const ops::Rope&) {
                   const std::uint32_t heads = op.width / config_.head_dim;
                   call.slice = in_heads(slice, heads);
                   call.in = {reshaped(in(0), rows, heads, config_.head_dim)};
                   if (const Weight* factors = weights_.find(options_.rope_factors)) {
                     View view = residency_.view(*factors);
                     view.shape = {factors->columns, 0, 0};
                     call.in.push_back(std::move(view));
                     item.uses.push_back({factors, 0, factors->extent.length});
                   }
                   call.out = {reshaped(tensor(op, site, 0), rows, heads, config_.head_dim)};
                 },
                 [&](ops::Glu& glu) {
                   // Neurons are told apart by layer and expert: those beside experts, and of a first dense layer, have no numbers.
                   const Operator& gate = graph_[inputs[0]];
                   const bool numbered = config_.experts == 0 || (config_.has_experts(op.layer) &&
                                                                  (gate.adapts ? gate.adapts : gate.weight) == Role::ffn_gate);
                   glu.report_active = options_.report_active && numbered;
                   call.in = {in(0), in(1)};
                 },
                 [&](const ops::Gather& gather) {
                   if (gather.columns) {
                     call.in = {in(0)};
                     return add_weight(op, *op.weight, slice, site, call, item);
                   }
                   const auto count = static_cast<std::uint32_t>(step.sampled->size());
                   call.in = {in(0), reshaped(buffers_.view("sampled_rows", 0, count), count, 0)};
                 },
                 [&](const ops::ExpertSum&) {
                   call.in = {in(0), buffers_.view("expert_sources", 0, rows), buffers_.view("expert_weights", 0, rows)};
                 },
                 [&](ops::Sample& sample) {
                   const auto count = static_cast<std::uint32_t>(step.sampled->size());
                   sample = {step.sampling.temperature, step.sampling.top_k, step.sampling.top_p};
                   call.in = {in(0), reshaped(buffers_.view("uniforms", 0, count), count, 0)};
                 },
                 [&](const auto&) {
                   for (std::size_t i = 0; i < inputs.size(); ++i) call.in.push_back(in(i));
                   if (op.weight) add_weight(op, *op.weight, slice, site, call, item);
                   if (op.bias) add_weight(op, *op.bias, slice, site, call, item);
                 },
             },
             call.op);
  if (call.out.empty() && op.width > 0) call.out = {tensor(op, site, op.split == Split::replicated ? site.unit : 0)};
  item.calls.push_back(std::move(call));
}

}  // namespace vitro
