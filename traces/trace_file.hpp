// A trace that ends up in files of a folder.
#pragma once
#include <atomic>
#include <string>

#include "engine/machine/trace.hpp"

namespace vitro {

class TraceFile : public TraceSink {
 public:
  bool enabled() const override { return open_.load(std::memory_order_relaxed); }
  // Whether callers write spans, counters and decisions. Between two windows of a run they do not; what ends in a window is whole.
  void set_open(bool open) { open_.store(open, std::memory_order_relaxed); }

  // Writes what is left, and decisions.jsonl. Requires: the folder exists; nothing is traced afterwards. Throws RunError, and then leaves
  // no half file.
  virtual void finish(const std::string& folder) = 0;

 private:
  std::atomic<bool> open_{true};
};

}  // namespace vitro
