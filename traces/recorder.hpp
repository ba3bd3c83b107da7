// Decorators that fill a Recording while a run goes on.
#pragma once
#include <mutex>
#include <set>

#include "engine/machine/function.hpp"
#include "engine/machine/storage_decorator.hpp"
#include "traces/recording.hpp"

namespace vitro {

// Passes calls on to `inner` and keeps their outcomes; slices of one layer become one entry. Neurons are recorded where
// a call asks for them: select of the gate, else glu with report_active, which says nothing where a select has spoken (they
// agree for ReLU; with a threshold the select decides). What a predictor names is a guess and not kept. A position that is computed again
// replaces its experts and its token.
class RecordingFunction final : public Function {
 public:
  explicit RecordingFunction(Function& inner) : inner_(inner) {}

  Outcome execute(const KernelCall& call) override;  // thread-safe
  // Whether a predictor was asked.
  bool predicted() const { return predicted_; }
  // What was recorded up to now; the recorder starts anew.
  Recording take();

 private:
  Function& inner_;
  std::mutex mutex_;
  bool predicted_ = false;
  Recording recording_;
  std::set<OutcomeKey> selected_;  // whose fired neurons come from a select
};

// Adds the reads, in order of submission, to `into`; each of a vector by itself.
class RecordingStorage final : public StorageDecorator {
 public:
  RecordingStorage(Storage& inner, std::vector<RecordedRead>& into) : StorageDecorator(inner), into_(into) {}

 protected:
  void submit(const ReadRequest& request, Completion<IoResult>& done) override {
    record(request);
    StorageDecorator::submit(request, done);
  }
  void submit(VectorRead& read) override {
    for (const ReadRequest& request : read.requests()) record(request);
    StorageDecorator::submit(read);
  }
  using StorageDecorator::submit;

 private:
  void record(const ReadRequest& request) {
    into_.push_back({request.from, request.issuer, request.pattern, request.page_fault, inner_.executor().now()});
  }

  std::vector<RecordedRead>& into_;
};

}  // namespace vitro
