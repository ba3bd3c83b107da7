#include "engine/quant/gptq.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/code_search.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/outlier_rows.hpp"

namespace vitro {
namespace {

using Eigen::Index;

constexpr Index kColumns = 128;     // that are rounded before the others are told: the paper's block size, and the largest of our blocks
constexpr Index kSmallestInverse = 64;
constexpr std::size_t kRows = 256;  // that go through the columns together

// Eigen cuts products by the size of the caches that it finds, and sums depend on the cuts: fixed sizes, so that machines agree.
void fix_cuts() {
  [[maybe_unused]] static const bool kFixed = [] {
    Eigen::setCpuCacheSizes(32 << 10, 512 << 10, 4 << 20);
    return true;
  }();
}

// In place, of a lower triangular matrix whose upper part is zero. By halves, so that all but the smallest are products: a third of the
// operations of solving for the columns of the identity.
void invert_lower(Eigen::Ref<Eigen::MatrixXd> l) {
  const Index n = l.rows();
  if (n <= kSmallestInverse) {
    Eigen::MatrixXd inverse = Eigen::MatrixXd::Identity(n, n);
    l.triangularView<Eigen::Lower>().solveInPlace(inverse);
    l = inverse;
    return;
  }
  const Index half = n / 2, rest = n - half;
  invert_lower(l.topLeftCorner(half, half));
  invert_lower(l.bottomRightCorner(rest, rest));
  const Eigen::MatrixXd below = l.bottomRightCorner(rest, rest).triangularView<Eigen::Lower>() * l.bottomLeftCorner(rest, half);
  l.bottomLeftCorner(rest, half).noalias() = -below * l.topLeftCorner(half, half).triangularView<Eigen::Lower>();
}

// Some rows of one matrix on their way through the columns.
class Rows {
 public:
  Rows(Format format, const CodeRounder& rounder, const GptqFactor& factor, const float* weights, std::size_t rows)
      : format_(format), rounder_(rounder), factor_(factor), count_(rows), width_(factor.order.size()), blocks_(width_ / format.block) {
    values_.resize(static_cast<Index>(count_), static_cast<Index>(width_));
    for (std::size_t r = 0; r < count_; ++r) {
      for (std::size_t i = 0; i < width_; ++i) at(r, i) = double{weights[r * width_ + factor.order[i]]};
    }
    codes_.resize(count_ * width_);
    scales_.resize(count_ * blocks_);
    if (format_.has_outliers()) find_outliers_of(weights);
    if (format_.row_scale || factor_.moved) find_scales_of(weights);
  }

  void round() {
    const auto width = static_cast<Index>(width_);
    for (Index first = 0; first < width; first += kColumns) {
      const Index count = std::min(kColumns, width - first), rest = width - first - count;
      errors_.resize(static_cast<Index>(count_), count);
      for (Index i = first; i < first + count; ++i) round_column(i, first, count);
      if (rest > 0) values_.rightCols(rest).noalias() -= errors_ * factor_.upper.block(first, first + count, count, rest);
    }
  }

  void write(std::byte* out) const {
    if (format_.has_outliers()) return write_with_outliers(out);
    for (std::size_t r = 0; r < count_; ++r) {
      for (std::size_t block = 0; block < blocks_; ++block, out += block_bytes(format_)) {
        const SharedScale& shared = scales_[r * blocks_ + block];
        pack_codes(format_, shared.scale, shared.zero, &codes_[r * width_ + block * format_.block], out);
      }
    }
  }

 private:
  double& at(std::size_t row, std::size_t i) { return values_(static_cast<Index>(row), static_cast<Index>(i)); }

  void write_with_outliers(std::byte* out) const {
    for (std::size_t r = 0; r < count_; ++r, out += row_bytes(format_, width_)) {
      const auto row = codes_.begin() + static_cast<std::ptrdiff_t>(r * width_);
      OutlierParts parts = outliers_[r];
      parts.scale = scales_[r * blocks_].scale;
      parts.codes.assign(row, row + static_cast<std::ptrdiff_t>(width_));
      write_outlier_row(parts, out);
    }
  }

  // Before anything is rounded: where they are, and their scale.
  void find_outliers_of(const float* weights) {
    outliers_.resize(count_);
    apart_.assign(count_ * width_, -1);
    for (std::size_t r = 0; r < count_; ++r) {
      OutlierParts& row = outliers_[r];
      row.positions = outlier_positions(weights + r * width_, width_);
      row.outlier_scale = outlier_scale(weights + r * width_, row.positions);
      row.values.resize(row.positions.size());
      for (std::size_t j = 0; j < row.positions.size(); ++j) apart_[r * width_ + row.positions[j]] = static_cast<std::int32_t>(j);
    }
  }
  bool is_apart(std::size_t row, std::size_t column) const { return !apart_.empty() && apart_[row * width_ + column] >= 0; }

  // Before anything is rounded.
  void find_scales_of(const float* weights) {
    const std::size_t run = format_.row_scale ? width_ : format_.block;
    std::vector<float> row(width_);
    for (std::size_t r = 0; r < count_; ++r) {
      for (std::size_t k = 0; k < width_; ++k) row[k] = is_apart(r, k) ? 0 : weights[r * width_ + k];
      for (std::size_t k = 0; k < width_; k += run) {
        const SharedScale found = rounder_.scale_of(row.data() + k, run);
        std::fill_n(scales_.begin() + static_cast<std::ptrdiff_t>(r * blocks_ + k / format_.block), run / format_.block, found);
      }
    }
  }

  // Of the block that begins with column i. Requires: columns in their own order.
  void find_scales_at(std::size_t i) {
    std::vector<float> block(format_.block);
    for (std::size_t r = 0; r < count_; ++r) {
      for (std::size_t k = 0; k < block.size(); ++k) block[k] = static_cast<float>(at(r, i + k));
      scales_[r * blocks_ + i / format_.block] = rounder_.scale_of(block.data(), block.size());
    }
  }

  // Keeps what w becomes, and returns its value.
  float round(std::size_t r, std::size_t column, float w) {
    if (is_apart(r, column)) {
      OutlierParts& row = outliers_[r];
      std::int8_t& value = row.values[static_cast<std::size_t>(apart_[r * width_ + column])];
      value = outlier_value(row.outlier_scale, w);
      codes_[r * width_ + column] = kNothing;
      return half_to_float(row.outlier_scale) * static_cast<float>(value);
    }
    const auto [code, value] = rounder_.round(scales_[r * blocks_ + column / format_.block], w);
    codes_[r * width_ + column] = code;
    return value;
  }

  void round_column(Index i, Index first, Index count) {
    const std::size_t column = factor_.order[static_cast<std::size_t>(i)];
    if (!format_.row_scale && !factor_.moved && column % format_.block == 0) find_scales_at(column);
    const double diagonal = factor_.upper(i, i);
    for (std::size_t r = 0; r < count_; ++r) {
      const double w = at(r, static_cast<std::size_t>(i));
      errors_(static_cast<Index>(r), i - first) = (w - double{round(r, column, static_cast<float>(w))}) / diagonal;
    }
    for (Index j = i + 1; j < first + count; ++j) values_.col(j) -= factor_.upper(i, j) * errors_.col(i - first);
  }

  const Format format_;
  const CodeRounder& rounder_;
  const GptqFactor& factor_;
  const std::size_t count_, width_, blocks_;
  Eigen::MatrixXd values_;            // [rows, K]: what is still to be rounded, in the factor's order
  Eigen::MatrixXd errors_;            // [rows, columns at hand]
  std::vector<std::uint8_t> codes_;   // [rows, K], as the columns stand; so are the scales
  std::vector<SharedScale> scales_;   // [rows, blocks]
  std::vector<OutlierParts> outliers_;  // [rows], of formats that have them: positions, values and their scale
  std::vector<std::int32_t> apart_;     // [rows, K]: which outlier of the row a weight is, or -1
};

}  // namespace

std::optional<GptqFactor> gptq_factor(Eigen::MatrixXd moments, const GptqOptions& options) {
  VITRO_CHECK(moments.rows() == moments.cols() && moments.rows() > 0, "moments are a square matrix");
  fix_cuts();
  const Index width = moments.rows();
  const double mean = moments.diagonal().mean();
  if (!std::isfinite(mean)) return std::nullopt;
  moments.diagonal().array() += mean == 0 ? 1.0 : options.damp * mean;

  GptqFactor factor;
  factor.order.resize(static_cast<std::size_t>(width));
  std::iota(factor.order.begin(), factor.order.end(), std::size_t{0});
  factor.moved = options.act_order;
  if (options.act_order) {
    const auto diagonal = [&](std::size_t k) { return moments(static_cast<Index>(k), static_cast<Index>(k)); };
    std::ranges::stable_sort(factor.order, [&](std::size_t a, std::size_t b) { return diagonal(a) > diagonal(b); });
  }
  // From the last to the first, H is L L^T with L lower triangular. Turned round again, L is the upper triangular R.
  Eigen::MatrixXd turned(width, width);
  for (Index i = 0; i < width; ++i) {
    const auto a = static_cast<Index>(factor.order[static_cast<std::size_t>(width - 1 - i)]);
    for (Index j = 0; j <= i; ++j) {
      const auto b = static_cast<Index>(factor.order[static_cast<std::size_t>(width - 1 - j)]);
      turned(i, j) = moments(std::max(a, b), std::min(a, b));
    }
  }
  moments.resize(0, 0);
  const Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>> cholesky(turned);
  if (cholesky.info() != Eigen::Success || !(turned.diagonal().minCoeff() > 0)) return std::nullopt;
  turned.triangularView<Eigen::StrictlyUpper>().setZero();
  invert_lower(turned);
  factor.upper = turned.reverse();
  if (!factor.upper.allFinite()) return std::nullopt;
  return factor;
}

void gptq_rows(Format format, const GptqFactor& factor, const float* weights, std::size_t rows, std::byte* out) {
  const std::size_t width = factor.order.size();
  VITRO_CHECK(can_round_by_gptq(format) && width % format.block == 0, "a row has to be whole blocks of codes");
  VITRO_CHECK(kColumns % format.block == 0, "a block must not straddle what is rounded together");
  const CodeRounder rounder(format.has_outliers() ? kNibblesOfRow : format);
  for (std::size_t first = 0; first < rows; first += kRows) {
    const std::size_t count = std::min(kRows, rows - first);
    Rows some(format, rounder, factor, weights + first * width, count);
    some.round();
    some.write(out + first * row_bytes(format, width));
  }
}

}  // namespace vitro
