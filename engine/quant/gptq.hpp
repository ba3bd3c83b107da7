// GPTQ: weights are rounded column by column, and what each loses is made up for by those that are not rounded yet.
//
// Frantar, Ashkboos, Hoefler, Alistarh: "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers" (2022),
// algorithm 1 with its lazy updates (section 3.3, step 2) and Cholesky form (step 3). With inputs X of a matrix W the error of its
// output is |W X - Q X|^2 = sum over rows of (w - q) H (w - q)^T / 2, H = 2 X X^T, so rows do not depend on each other.
//
// Two choices of ours:
// - Instead of H^-1 and its Cholesky factor, U with H^-1 = U^T U is the inverse of the upper triangular R with H = R R^T: one
//   factorisation, and the same numbers without the loss of digits of an explicit inverse.
// - Scales and zero points are those of plain quantisation (code_search.hpp, q4_0's own): of a block when its first column is reached, of
//   the values that it has by then; of a row, and with act order (static groups), of the values that it had at the beginning. So blocks
//   are stored as plain quantisation stores them, and a diagonal H gives its bits (q4_0: CodeRounder::round()).
#pragma once
#include <Eigen/Core>
#include <cstddef>
#include <optional>
#include <vector>

#include "engine/tensor/format.hpp"

namespace vitro {

struct GptqOptions {
  double damp = 0.01;      // times the mean of H's diagonal, added to the diagonal (the paper's 1 %)
  bool act_order = false;  // columns by falling diagonal of H, in place of as they stand
};

// In which order columns are rounded, and how the rest answers: what all rows of matrices with the same inputs share.
struct GptqFactor {
  std::vector<std::size_t> order;  // [K]: the column that is rounded first, second, ...
  Eigen::MatrixXd upper;           // [K, K]: U in that order
  bool moved = false;              // the order is not that of the columns
};
// `moments` [K, K]: X X^T times any positive number; the lower triangle is read. Where all of it is zero (an expert that no token
// chose), H is the identity. None when it is singular or not finite after damping.
std::optional<GptqFactor> gptq_factor(Eigen::MatrixXd moments, const GptqOptions& options);

// Formats whose values are rounded one by one under scales that are known before.
constexpr bool can_round_by_gptq(Format format) { return format.has_codes() || format.has_outliers(); }

// Rounds `rows` rows of K weights, row-major, and writes their blocks as quantise_row() would: rows * row_bytes(format, K) bytes. With
// outliers, these are the ones that plain quantisation keeps apart, under its scales.
// Requires: can_round_by_gptq(format), K whole blocks, values that first_unholdable() (engine/model/quantize.hpp) lets pass.
void gptq_rows(Format format, const GptqFactor& factor, const float* weights, std::size_t rows, std::byte* out);

}  // namespace vitro
