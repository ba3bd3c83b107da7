#include "engine/machine/counted_machine.hpp"

#include "engine/machine/storage_decorator.hpp"
#include "engine/machine/unit_decorator.hpp"

namespace vitro {

class CountedMachine::Unit final : public UnitDecorator {
 public:
  Unit(ComputeUnit& inner, SubmissionCounts& counts) : UnitDecorator(inner), counts_(counts) {}

 protected:
  void submit(const Chain& chain, Completion<RunResult>& done) override {
    ++counts_.unit_submissions;
    UnitDecorator::submit(chain, done);
  }
  void submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) override {
    ++counts_.unit_submissions;
    UnitDecorator::submit(graph, bindings, done);
  }

 private:
  SubmissionCounts& counts_;
};

class CountedMachine::Flash final : public StorageDecorator {
 public:
  Flash(Storage& inner, SubmissionCounts& counts) : StorageDecorator(inner), counts_(counts) {}

 protected:
  void submit(const ReadRequest& request, Completion<IoResult>& done) override {
    ++counts_.storage_submissions;
    StorageDecorator::submit(request, done);
  }
  void submit(const WriteRequest& request, Completion<IoResult>& done) override {
    ++counts_.storage_submissions;
    StorageDecorator::submit(request, done);
  }
  void submit(VectorRead& read) override {
    ++counts_.storage_submissions;
    StorageDecorator::submit(read);
  }

 private:
  SubmissionCounts& counts_;
};

CountedMachine::CountedMachine(const Machine& inner) : storage_(std::make_unique<Flash>(inner.storage, counts_)) {
  std::vector<ComputeUnit*> units;
  for (ComputeUnit* unit : inner.units) {
    units_.push_back(std::make_unique<Unit>(*unit, counts_));
    units.push_back(units_.back().get());
  }
  machine_.emplace(Machine{inner.executor, inner.clock, std::move(units), *storage_, inner.memory, inner.trace, inner.seed});
}

CountedMachine::~CountedMachine() = default;

}  // namespace vitro
