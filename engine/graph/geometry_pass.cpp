#include "engine/graph/geometry_pass.hpp"

#include <algorithm>
#include <map>

#include "engine/base/check.hpp"
#include "engine/graph/graph_copy.hpp"

namespace vitro {
namespace {

CopyRegion::Side side_of(HeadOrder order, const HeadExtents& x, std::uint32_t first_head) {
  const bool rows = order == HeadOrder::rows_first;
  const std::uint32_t row = rows ? x.heads * x.dim : x.dim, head = rows ? x.dim : x.rows * x.dim;
  return {first_head * head, {row, head, 1}};
}
CopyRegion::Side source_of(const Movement& movement, const HeadExtents& x, std::uint32_t first_head) {
  CopyRegion::Side side = side_of(movement.from, x, first_head);
  if (!movement.is_slice()) return side;
  side.offset += movement.first;
  side.stride[0] = movement.row;
  return side;
}

// Sizes and offsets are sums of constants and multiples of the rows, so what is equal for two numbers of rows is equal for all.
// One row alone would not tell the orders apart.
bool moves_nothing(std::span<const Movement> path, const Operator& move, const ModelConfig& config) {
  return std::ranges::all_of(std::initializer_list<std::uint32_t>{2, 3}, [&](std::uint32_t rows) {
    return is_identity(regions_of(path, extents_of(move, rows, config)), std::uint64_t{rows} * move.width);
  });
}

class MoveFusion {
 public:
  MoveFusion(const OperatorGraph& graph, const ModelConfig& config) : graph_(graph), config_(config), copy_(graph) {}

  OperatorGraph run() {
    for (const OperatorId id : execution_order(graph_)) {
      if (!graph_[id].is<ops::Move>()) {
        add(id);
      } else if (!joins_the_next(id)) {
        add_chain(id);
      }
    }
    return std::move(copy_.graph);
  }

 private:
  bool joins_the_next(OperatorId id) const {
    return boost::out_degree(id, graph_) == 1 && graph_[boost::target(*boost::out_edges(id, graph_).first, graph_)].is<ops::Move>();
  }

  void add(OperatorId id) {
    const OperatorId made = copy_.add(id);
    const auto source = sources_.find(graph_[id].output);
    if (source != sources_.end()) copy_.graph[made].output = source->second;
  }

  void add_chain(OperatorId last) {
    std::vector<Movement> path = graph_[last].path;
    OperatorId source = inputs_of(graph_, last).front();
    bool shared = boost::out_degree(source, graph_) > 1;
    for (; graph_[source].is<ops::Move>() && joins_the_next(source); source = inputs_of(graph_, source).front()) {
      path.insert(path.begin(), graph_[source].path.begin(), graph_[source].path.end());
      shared = boost::out_degree(inputs_of(graph_, source).front(), graph_) > 1;
    }
    if (!moves_nothing(path, graph_[last], config_)) {
      Operator move = graph_[last];
      move.path = std::move(path);
      copy_.replace(last, std::move(move), {source});
      return;
    }
    // Somebody who writes the result in place must not write what others still read.
    if (!shared) sources_[graph_[last].output] = copy_.graph[copy_.at(source)].output;
    copy_.reads_of(last, copy_.at(source));
  }

  const OperatorGraph& graph_;
  const ModelConfig& config_;
  GraphCopy copy_;
  std::map<std::string, std::string> sources_;  // of tensors that are no longer written
};

}  // namespace

HeadExtents extents_of(const Operator& move, std::uint32_t rows, const ModelConfig& config) {
  if (move.split == Split::rows) return {rows, move.width, 1};
  return {rows, move.width / config.head_dim, config.head_dim};
}

CopyRegions regions_of(std::span<const Movement> path, const HeadExtents& x, Slice slice) {
  const std::uint32_t count = std::min(slice.count, x.heads - slice.first);
  std::vector<CopyRegions> chain;
  for (const Movement& movement : path) {
    chain.push_back(tidied({{x.rows, count, x.dim}, source_of(movement, x, slice.first), side_of(movement.to, x, slice.first)}));
  }
  const std::vector<CopyRegions> lists = fused_chain(chain);
  VITRO_CHECK(lists.size() == 1, "movements of whole heads are one list");
  return lists.front();
}

OperatorGraph fuse_moves(const OperatorGraph& graph, const ModelConfig& config) { return MoveFusion(graph, config).run(); }

}  // namespace vitro
