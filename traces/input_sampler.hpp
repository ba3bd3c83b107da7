// Keeps what the FFNs of a run are given: the rows that a predictor of firing neurons has to tell apart.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/machine/function.hpp"

namespace vitro {

// Passes calls on to `inner`. Of each glu it keeps the input of the matmul that made its gate: the first `rows` rows of each
// layer and expert. Requires: the calls of one FFN run before the buffers of the next layer overwrite them, as every policy
// that computes whole matrices does; operands have bytes.
class InputSampler final : public Function {
 public:
  InputSampler(Function& inner, std::size_t rows) : inner_(inner), rows_(rows) {}

  Outcome execute(const KernelCall& call) override;  // thread-safe
  // One file "<layer>.<expert>.f32" each, rows of float32 little-endian; expert -1: the layer has one FFN. The folder exists.
  void save(const std::string& folder) const;

 private:
  Function& inner_;
  std::size_t rows_;
  std::mutex mutex_;
  struct Rows {
    const float* data = nullptr;
    std::size_t count = 0, width = 0;
  };
  void keep(const KernelCall& glu);

  std::map<std::pair<std::uint64_t, Bytes>, Rows> inputs_;  // of matmuls, by where their output goes
  std::map<std::pair<int, int>, std::vector<float>> kept_;  // by layer and expert
};

}  // namespace vitro
