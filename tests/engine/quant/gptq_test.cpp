#include "engine/quant/gptq.hpp"

#include <gtest/gtest.h>

#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/code_search.hpp"
#include "engine/quant/group_formats.hpp"
#include "tests/effort.hpp"

namespace vitro {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

std::vector<Format> code_formats() {
  std::vector<Format> found;
  for (const Format format : all_formats()) {
    if (can_round_by_gptq(format)) found.push_back(format);
  }
  return found;
}

Matrix normal(Rng& rng, Index rows, Index columns) {
  Matrix made(rows, columns);
  for (Index i = 0; i < made.size(); ++i) made.data()[i] = static_cast<float>(rng.normal());
  return made;
}

// Moments of inputs that share a few directions, as activations do: [K, K] of 4 K inputs.
MatrixXd correlated(Rng& rng, Index width) {
  const MatrixXd mix = normal(rng, width, width / 8).cast<double>(), own = normal(rng, width, 4 * width).cast<double>();
  const MatrixXd x = mix * normal(rng, width / 8, 4 * width).cast<double>() + 0.5 * own;
  return x * x.transpose();
}

std::vector<std::byte> rounded_alone(Format format, const Matrix& w) {
  const auto n = static_cast<std::size_t>(w.cols());
  const Bytes stride = row_bytes(format, n);
  std::vector<std::byte> bytes(stride * static_cast<std::size_t>(w.rows()));
  std::byte* out = bytes.data();
  for (Index r = 0; r < w.rows(); ++r, out += stride) quantise_row(format, w.data() + r * w.cols(), out, n);
  return bytes;
}

std::vector<std::byte> rounded_by_gptq(Format format, const Matrix& w, const MatrixXd& moments, const GptqOptions& options = {}) {
  const std::optional<GptqFactor> factor = gptq_factor(moments, options);
  EXPECT_TRUE(factor.has_value());
  std::vector<std::byte> bytes(row_bytes(format, static_cast<std::size_t>(w.cols())) * static_cast<std::size_t>(w.rows()));
  gptq_rows(format, *factor, w.data(), static_cast<std::size_t>(w.rows()), bytes.data());
  return bytes;
}

Matrix values_of(Format format, const std::vector<std::byte>& bytes, Index rows, Index columns) {
  Matrix made(rows, columns);
  const auto n = static_cast<std::size_t>(columns);
  for (Index r = 0; r < rows; ++r) {
    dequantise_row(format, &bytes[static_cast<std::size_t>(r) * row_bytes(format, n)], made.data() + r * columns, n);
  }
  return made;
}

// |W X - Q X|^2, from X X^T.
double output_error(Format format, const Matrix& w, const std::vector<std::byte>& bytes, const MatrixXd& moments) {
  const MatrixXd off = (w - values_of(format, bytes, w.rows(), w.cols())).cast<double>();
  return (off * moments).cwiseProduct(off).sum();
}

TEST(Gptq, outputs_err_less_than_those_of_plain_rounding_on_correlated_inputs) {
  for (std::uint64_t seed = 1; seed <= test::all_or_few(3u, 1u); ++seed) {
    Rng rng(seed);
    const MatrixXd moments = correlated(rng, 256);
    const Matrix w = normal(rng, 24, 256);
    for (const Format format : code_formats()) {
      const double alone = output_error(format, w, rounded_alone(format, w), moments);
      const double made_up_for = output_error(format, w, rounded_by_gptq(format, w, moments), moments);
      const double ordered = output_error(format, w, rounded_by_gptq(format, w, moments, {.act_order = true}), moments);
      // One bit is a sign: what is left over for the other columns is as large as they are.
      const double most = format.bits == 1 ? 1.0 : 0.8;
      EXPECT_LT(made_up_for, most * alone) << to_string(format) << ", seed " << seed;
      EXPECT_LT(ordered, most * alone) << to_string(format) << ", seed " << seed;
    }
  }
}

TEST(Gptq, inputs_that_do_not_share_anything_leave_plain_rounding) {
  Rng rng(4);
  const Matrix w = normal(rng, 9, 256);
  MatrixXd moments = MatrixXd::Zero(256, 256);
  for (Index k = 0; k < 256; ++k) moments(k, k) = std::exp(rng.normal());
  for (const Format format : code_formats()) {
    for (const bool act_order : {false, true}) {
      const std::vector<std::byte> bytes = rounded_by_gptq(format, w, moments, {.act_order = act_order});
      const std::vector<std::byte> alone = rounded_alone(format, w);
      if (format != Format::q4_0) {
        EXPECT_EQ(bytes, alone) << to_string(format) << (act_order ? ", act order" : "");
        continue;
      }
      // Its plain rounding divides by a scale that is not rounded yet.
      const Matrix ours = values_of(format, bytes, 9, 256), theirs = values_of(format, alone, 9, 256);
      EXPECT_TRUE(((ours - w).cwiseAbs().array() <= (theirs - w).cwiseAbs().array()).all());
      EXPECT_LT(((ours - theirs).array() != 0).count(), 10);
    }
  }
}

TEST(Gptq, inputs_that_nobody_saw_leave_plain_rounding) {
  Rng rng(5);
  const Matrix w = normal(rng, 3, 128);
  const Format format = Format::w(2, 64, 'z');
  EXPECT_EQ(rounded_by_gptq(format, w, MatrixXd::Zero(128, 128), {.damp = 0}), rounded_alone(format, w));
}

TEST(Gptq, an_input_that_is_always_zero_does_not_touch_the_others) {
  Rng rng(6);
  MatrixXd moments = correlated(rng, 64);
  moments.row(5).setZero();
  moments.col(5).setZero();
  MatrixXd upper = gptq_factor(moments, {})->upper;
  EXPECT_GT(upper(5, 5), 0);
  upper(5, 5) = 0;
  EXPECT_EQ(upper.row(5).cwiseAbs().maxCoeff(), 0);
  EXPECT_EQ(upper.col(5).cwiseAbs().maxCoeff(), 0);
}

// Algorithm 1 as equations 2 and 3 have it: with the inverse of what is left of H after each column.
Matrix by_the_equations(Format format, const Matrix& weights, const MatrixXd& h) {
  const CodeRounder rounder(format);
  MatrixXd w = weights.cast<double>();
  Matrix q = weights;
  std::vector<SharedScale> scales(static_cast<std::size_t>(w.rows()));
  for (Index i = 0; i < w.cols(); ++i) {
    const Index left = w.cols() - i;
    if (i % format.block == 0) {
      for (Index r = 0; r < w.rows(); ++r) {
        const Eigen::VectorXf block = w.row(r).segment(i, format.block).cast<float>();
        scales[static_cast<std::size_t>(r)] = rounder.scale_of(block.data(), format.block);
      }
    }
    const MatrixXd inverse = h.bottomRightCorner(left, left).inverse();
    for (Index r = 0; r < w.rows(); ++r) {
      q(r, i) = rounder.round(scales[static_cast<std::size_t>(r)], static_cast<float>(w(r, i))).value;
      w.row(r).tail(left) -= (w(r, i) - double{q(r, i)}) / inverse(0, 0) * inverse.row(0);
    }
  }
  return q;
}

TEST(Gptq, codes_are_those_of_the_equations) {
  for (const std::uint64_t seed : {7u, 8u}) {
    Rng rng(seed);
    const Index width = 192;  // more than goes through the columns together
    const MatrixXd moments = correlated(rng, width);
    const Matrix w = normal(rng, 5, width);
    MatrixXd damped = moments;
    damped.diagonal().array() += 0.01 * moments.diagonal().mean();
    for (const Format format : {Format::w(2, 32), Format::w(3, 64, 'z'), Format::w(4, 64), Format::q4_0}) {
      EXPECT_EQ(values_of(format, rounded_by_gptq(format, w, moments), 5, width), by_the_equations(format, w, damped)) << to_string(format);
    }
  }
}

TEST(Gptq, the_factor_is_that_of_the_inverse_in_its_order) {
  Rng rng(9);
  const MatrixXd moments = correlated(rng, 48);
  for (const bool act_order : {false, true}) {
    const std::optional<GptqFactor> factor = gptq_factor(moments, {.damp = 0.05, .act_order = act_order});
    ASSERT_TRUE(factor);
    MatrixXd damped(48, 48);
    for (Index i = 0; i < 48; ++i) {
      for (Index j = 0; j < 48; ++j) {
        const auto a = static_cast<Index>(factor->order[static_cast<std::size_t>(i)]);
        damped(i, j) = moments(a, static_cast<Index>(factor->order[static_cast<std::size_t>(j)]));
      }
      if (act_order && i > 0) {
        EXPECT_GE(damped(i - 1, i - 1), damped(i, i));
      }
    }
    damped.diagonal().array() += 0.05 * moments.diagonal().mean();
    const MatrixXd identity = factor->upper.transpose() * factor->upper * damped;
    EXPECT_LT((identity - MatrixXd::Identity(48, 48)).cwiseAbs().maxCoeff(), 1e-9);
    EXPECT_EQ(factor->moved, act_order);
  }
}

TEST(Gptq, the_lower_triangle_is_enough) {
  Rng rng(10);
  const MatrixXd moments = correlated(rng, 32), lower = moments.triangularView<Eigen::Lower>();
  for (const bool act_order : {false, true}) {
    EXPECT_EQ(gptq_factor(lower, {.act_order = act_order})->upper, gptq_factor(moments, {.act_order = act_order})->upper);
  }
}

TEST(Gptq, moments_without_full_rank_need_damping) {
  const MatrixXd one = MatrixXd::Ones(32, 32);  // all inputs are alike
  EXPECT_FALSE(gptq_factor(one, {.damp = 0}));
  EXPECT_TRUE(gptq_factor(one, {}));
  MatrixXd broken = MatrixXd::Identity(32, 32);
  broken(7, 3) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(gptq_factor(broken, {}));
}

TEST(Gptq, many_rows_are_rounded_as_few) {
  Rng rng(11);
  const MatrixXd moments = correlated(rng, 64);
  const Matrix w = normal(rng, 300, 64);
  const Format format = Format::w(3, 32);
  const std::vector<std::byte> all = rounded_by_gptq(format, w, moments);
  const std::vector<std::byte> last = rounded_by_gptq(format, w.bottomRows(44), moments);  // where the second lot of rows begins
  EXPECT_TRUE(std::ranges::equal(last, std::span(all).last(last.size())));
}

}  // namespace
}  // namespace vitro
