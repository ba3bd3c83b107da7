// The graphs of a unit that runs any chain: chains that were prepared, and nothing more.
#pragma once
#include <map>
#include <memory>

#include "engine/machine/compute_unit.hpp"

namespace vitro {

class PreparedChains {
 public:
  Graph add(GraphSpec spec) {
    const Graph graph{next_++, spec.calls.size() * sizeof(KernelCall)};
    specs_.emplace(graph.id, std::move(spec));
    return graph;
  }
  // Requires: the graph was added.
  void remove(Graph graph) { VITRO_CHECK(specs_.erase(graph.id) == 1, "unload of a graph that is not loaded"); }
  std::unique_ptr<Chain> bound(const Graph& graph, const Bindings& bindings) const {
    const auto spec = specs_.find(graph.id);
    VITRO_CHECK(spec != specs_.end(), "launch of a graph that is not loaded");
    return std::make_unique<Chain>(bind(spec->second, bindings));
  }

 private:
  std::map<std::uint32_t, GraphSpec> specs_;
  std::uint32_t next_ = 0;
};

}  // namespace vitro
