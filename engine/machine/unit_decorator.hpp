// A ComputeUnit in front of another: passes everything on, and lets a subclass look at what is submitted.
#pragma once
#include "engine/machine/compute_unit.hpp"

namespace vitro {

// What is passed on is completed by the inner unit: the decorator costs no event.
class UnitDecorator : public ComputeUnit {
 public:
  explicit UnitDecorator(ComputeUnit& inner) : inner_(inner) {}

  const UnitCaps& caps() const override { return inner_.caps(); }
  Executor& executor() override { return inner_.executor(); }
  Task<Result<Graph>> load(GraphSpec spec) override { return inner_.load(std::move(spec)); }
  void unload(Graph graph) override { inner_.unload(graph); }

 protected:
  void submit(const Chain& chain, Completion<RunResult>& done) override { inner_.submit(chain, done); }
  void submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) override { inner_.submit(graph, bindings, done); }

  ComputeUnit& inner_;
};

}  // namespace vitro
