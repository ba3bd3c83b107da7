#include "engine/transformer/buffers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/graph/operator_graph.hpp"

namespace vitro {
namespace {

// Tensors that an operator of one layer writes and one of another reads, row by row: the hidden states.
std::set<std::string> crossing_tensors(const OperatorGraph& graph) {
  std::set<std::string> found;
  const auto [first, last] = boost::edges(graph);
  for (auto edge = first; edge != last; ++edge) {
    const Operator& from = graph[boost::source(*edge, graph)];
    const bool crosses = from.layer != graph[boost::target(*edge, graph)].layer;
    if (crosses && from.rows == RowSet::all && from.width > 0) found.insert(from.output);
  }
  return found;
}

// Tensors that stay float32 whatever the format of activations is: what a draw takes the softmax of, what
// attention makes of scores, values, and means of squares.
std::set<std::string> float32_tensors(const OperatorGraph& graph) {
  std::set<std::string> found;
  const auto [first, last] = boost::vertices(graph);
  for (auto id = first; id != last; ++id) {
    if (graph[*id].is<ops::InverseRms, ops::AttentionWeights>() || graph[*id].weight == Role::value_head) found.insert(graph[*id].output);
    if (!graph[*id].is<ops::Sample>()) continue;
    for (const OperatorId from : inputs_of(graph, *id)) found.insert(graph[from].output);
  }
  return found;
}

}  // namespace

Buffers::Buffers(Memory& memory, const OperatorGraph& graph, const ModelConfig& config, const BufferLimits& limits, std::size_t units,
                 Format activations) {
  struct Need {
    std::uint32_t width = 0, rows = 0;
    std::size_t copies = 1;
  };
  std::map<std::string, Need> needs;
  for (const OperatorId id : execution_order(graph)) {
    const Operator& op = graph[id];
    if (op.width == 0) continue;
    Need& need = needs[op.output];
    need.width = std::max(need.width, op.width);
    const std::uint32_t rows = op.rows == RowSet::all ? limits.rows : op.rows == RowSet::sampled ? limits.sampled : limits.routed;
    need.rows = std::max(need.rows, rows);
    if (op.split == Split::replicated) need.copies = units;
  }
  const std::set<std::string> crossing = crossing_tensors(graph), in_f32 = float32_tensors(graph);
  for (const auto& [tensor, need] : needs) {
    const bool crosses = crossing.contains(tensor);
    add(memory, tensor, need.width, crosses ? std::max(need.rows, limits.span) : need.rows, need.copies,
        in_f32.contains(tensor) ? Format::f32 : activations);
    buffers_.at(tensor).crosses = crosses;
  }
  add(memory, "token_ids", 1, limits.rows, 1, Format::index32);
  add(memory, "block_table", limits.table_width, limits.rows, limits.tables, Format::index32);
  if (limits.staged_blocks > 0) {
    add(memory, "staged_table", limits.table_width, limits.rows, 1, Format::index32);
    add(memory, "staged_sources", 1, limits.staged_blocks, limits.tables, Format::index32);
  }
  add(memory, "sampled_rows", 1, limits.sampled, 1, Format::index32);
  add(memory, "uniforms", 1, limits.sampled, 1, Format::f32);
  if (config.experts > 0) {
    add(memory, "expert_x", config.width, limits.routed, units, activations);
    add(memory, "expert_rows", 1, limits.routed, 1, Format::index32);
    add(memory, "expert_sources", config.experts_used, limits.rows, 1, Format::index32);
    add(memory, "expert_weights", config.experts_used, limits.rows, 1, Format::f32);
  }
}

void Buffers::add(Memory& memory, const std::string& tensor, std::uint32_t width, std::uint32_t rows, std::size_t copies, Format format) {
  Result<Lease> lease = memory.lease(Bytes(width) * rows * copies * format.block_bytes(), Placement::dram, Region::activation);
  if (!lease.ok()) throw ConfigError(fmt::format("memory.budget: no room for activations ({}): {}", tensor, lease.status().message));
  buffers_[tensor] = {std::move(lease).value(), width, rows, copies, format};
}

View Buffers::view(const std::string& tensor, std::uint32_t first_row, std::uint32_t rows, std::size_t copy) const {
  const Buffer& buffer = buffers_.at(tensor);
  VITRO_CHECK(first_row + rows <= buffer.rows, "a step is larger than its activation buffers");
  View view;
  view.memory = buffer.lease;
  const std::size_t index = buffer.copies > 1 ? copy : 0;
  view.offset = (Bytes(index) * buffer.rows + first_row) * buffer.width * buffer.format.block_bytes();
  view.shape = {rows, buffer.width, 0};
  view.format = buffer.format;
  return view;
}

}  // namespace vitro
