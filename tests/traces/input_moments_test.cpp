#include "traces/input_moments.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

class Counting final : public Function {
 public:
  Outcome execute(const KernelCall& /*call*/) override {
    ++calls;
    return {};
  }
  int calls = 0;
};

View floats(std::vector<float>& values, std::uint32_t rows, std::uint32_t columns) {
  auto block = std::make_shared<Block>();
  block->data = reinterpret_cast<std::byte*>(values.data());
  block->size = values.size() * sizeof(float);
  View view;
  view.memory = Lease(block);
  view.shape = {rows, columns, 0};
  return view;
}

KernelCall matmul(const View& weights, const View& x, Slice slice = {}) {
  KernelCall call;
  call.op = ops::Matmul{};
  call.in = {weights, x};
  call.slice = slice;
  return call;
}

struct Operands {
  std::vector<float> w = std::vector<float>(12), other = std::vector<float>(12), x;
  explicit Operands(std::uint32_t rows, std::uint32_t columns) : x(rows * columns) {
    Rng rng(3);
    for (float& value : x) value = static_cast<float>(rng.normal());
  }
};

TEST(InputMoments, sums_are_those_of_all_rows_that_the_matrix_is_given) {
  Operands of(5, 3);
  Counting inner;
  InputMoments moments(inner);
  const View weights = floats(of.w, 4, 3);
  const std::size_t at = moments.watch(weights.data(), 3);
  std::vector<float> first(of.x.begin(), of.x.begin() + 6), rest(of.x.begin() + 6, of.x.end());
  moments.execute(matmul(weights, floats(first, 2, 3)));
  moments.execute(matmul(weights, floats(rest, 3, 3)));
  const InputMoments::Sum& sum = moments.sums()[at];
  EXPECT_EQ(sum.rows, 5u);
  for (Eigen::Index i = 0; i < 3; ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) {
      double expected = 0;
      const float* x = of.x.data();
      for (int r = 0; r < 5; ++r, x += 3) expected += double{x[i]} * double{x[j]};
      EXPECT_NEAR(sum.moments(i, j), expected, 1e-12) << i << " " << j;
    }
  }
  EXPECT_EQ(inner.calls, 2);
}

TEST(InputMoments, a_matrix_that_is_cut_over_units_counts_once) {
  Operands of(2, 3);
  Counting inner;
  InputMoments moments(inner);
  const View weights = floats(of.w, 4, 3), x = floats(of.x, 2, 3);
  moments.watch(weights.data(), 3);
  moments.execute(matmul(weights, x, {2, 2}));
  EXPECT_EQ(moments.sums()[0].rows, 0u);
  moments.execute(matmul(weights, x, {0, 2}));
  EXPECT_EQ(moments.sums()[0].rows, 2u);
  EXPECT_EQ(inner.calls, 2);
}

TEST(InputMoments, other_matrices_and_operators_do_not_count) {
  Operands of(2, 3);
  Counting inner;
  InputMoments moments(inner);
  const View weights = floats(of.w, 4, 3), x = floats(of.x, 2, 3);
  moments.watch(weights.data(), 3);
  moments.execute(matmul(floats(of.other, 4, 3), x));
  KernelCall add;
  add.op = ops::Add{};
  add.in = {weights, x};
  moments.execute(add);
  KernelCall part = matmul(weights, x);  // of a matrix neuron by neuron, without the first
  part.rows = std::make_shared<const std::vector<std::uint32_t>>(1, 1u);
  moments.execute(part);
  EXPECT_EQ(moments.sums()[0].rows, 0u);
  EXPECT_EQ(moments.sums()[0].moments, Eigen::MatrixXd::Zero(3, 3));
  EXPECT_EQ(inner.calls, 3);
}

}  // namespace
}  // namespace vitro
