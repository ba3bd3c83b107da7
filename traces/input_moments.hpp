// Second moments of what matrices of a run are multiplied with: what GPTQ has to know of a calibration text.
#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "engine/machine/function.hpp"

namespace vitro {

// Passes calls on to `inner`. Of each matmul with a matrix that is watched it adds x x^T of all rows x [K] of its input, in double
// precision and in the order of the calls.
class InputMoments final : public Function {
 public:
  explicit InputMoments(Function& inner) : inner_(inner) {}

  struct Sum {
    Eigen::MatrixXd moments;  // [K, K]; only the lower triangle is kept
    std::uint64_t rows = 0;
  };
  // Begins a sum of the inputs of the matrix that kernels see at `weights`, of K columns. Returns its index in sums().
  // Requires: no call is running; nobody else is watched there.
  std::size_t watch(const std::byte* weights, std::uint32_t columns);

  // Thread-safe. A matrix that is cut over several units counts once, by the unit that has its first row.
  Outcome execute(const KernelCall& call) override;

  std::vector<Sum>& sums() { return sums_; }

 private:
  Function& inner_;
  std::mutex mutex_;
  std::map<const std::byte*, std::size_t> watched_;
  std::vector<Sum> sums_;
};

}  // namespace vitro
