#include "engine/quant/code_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/group_formats.hpp"

namespace vitro {
namespace {

constexpr float kLargestHalf = 65504;
constexpr std::array kStretches{1.0f, 0.7f, 0.8f, 0.9f, 1.1f, 1.2f, 1.3f, 1.4f, 1.5f, 1.6f, 1.7f};

constexpr std::size_t kMostLevels = 256;
constexpr std::size_t kRun = 16;  // values that are rounded side by side

// The values at scale 1 that a block can have, ascending, and their codes.
struct Levels {
  std::size_t count = 0;
  std::array<float, kMostLevels> value{};
  std::array<std::uint8_t, kMostLevels> code{};

  float outermost() const { return std::max(-value[0], value[count - 1]); }
  float span() const { return value[count - 1] - value[0]; }
  bool of_bytes() const { return count == kMostLevels; }  // consecutive integers
  bool symmetric() const {
    for (std::size_t i = 0; i < count; ++i) {
      if (value[i] != -value[count - 1 - i]) return false;
    }
    return true;
  }
};

Levels integer_levels(std::uint32_t bits, int step, int zero) {
  Levels levels;
  for (levels.count = 0; levels.count < std::size_t{1} << bits; ++levels.count) {
    const auto q = static_cast<int>(levels.count);
    levels.value[levels.count] = static_cast<float>(step * q - zero);
    levels.code[levels.count] = static_cast<std::uint8_t>(q);
  }
  return levels;
}

Levels table_levels(const std::array<float, kCodes>& table) {
  std::array<std::uint8_t, kCodes> order{};
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return table[a] < table[b]; });
  Levels levels;
  for (const std::uint8_t code : order) {
    if (levels.count > 0 && levels.value[levels.count - 1] == table[code]) continue;  // the second zero of fp4
    levels.value[levels.count] = table[code];
    levels.code[levels.count++] = code;
  }
  return levels;
}

// Without a zero point, or with the one given.
Levels levels_of(Format format, std::uint32_t zero_point = 0) {
  if (const auto* table = code_table(format)) return table_levels(*table);
  VITRO_CHECK(format.is_group() || format == Format::q4_0, "a format without codes");
  if (format.zero_point) return integer_levels(format.bits, 1, static_cast<int>(zero_point));
  return format.bits == 1 ? integer_levels(1, 2, 1) : integer_levels(format.bits, 1, 1 << (format.bits - 1));
}

struct Fit {
  std::uint16_t scale = 0;  // binary16
  std::uint8_t zero = 0;
  double error = 0;  // sum of squares
};

// Finds the codes of one run of values, a multiple of kRun, that share a scale.
class Encoder {
 public:
  Encoder(const float* in, std::size_t n) : in_(in), index_(n) {}

  // Leaves the codes' indices in index().
  void encode(const Levels& levels, std::uint16_t half) {
    const float scale = half_to_float(half), inverse = scale == 0 ? 0 : 1 / scale;
    if (levels.of_bytes()) return encode_bytes(levels.value[0], inverse);
    for (std::size_t at = 0; at < index_.size(); at += kRun) {
      std::int32_t nearest[kRun] = {};
      float x[kRun];
      for (std::size_t i = 0; i < kRun; ++i) x[i] = in_[at + i] * inverse;
      for (std::size_t k = 0; k + 1 < levels.count; ++k) {
        const float middle = (levels.value[k] + levels.value[k + 1]) / 2;
        for (std::size_t i = 0; i < kRun; ++i) nearest[i] += x[i] > middle;
      }
      for (std::size_t i = 0; i < kRun; ++i) index_[at + i] = static_cast<std::uint8_t>(nearest[i]);
    }
  }

  void encode_bytes(float lowest, float inverse) {
    const auto most = static_cast<float>(kMostLevels - 1);
    for (std::size_t i = 0; i < index_.size(); ++i) {
      const float at = std::ceil(in_[i] * inverse - lowest - 0.5f);
      index_[i] = static_cast<std::uint8_t>(std::min(std::max(at, 0.0f), most));
    }
  }

  // Sum of the squared differences that the codes found last leave.
  double error(const Levels& levels, std::uint16_t half) const {
    std::array<double, kMostLevels> made;
    for (std::size_t k = 0; k < levels.count; ++k) made[k] = half_to_float(half) * levels.value[k];
    double sum = 0;
    for (std::size_t i = 0; i < index_.size(); ++i) {
      const double off = double{in_[i]} - made[index_[i]];
      sum += off * off;
    }
    return sum;
  }

  // The scale of least squares for the codes that were found last; 0 if all of them stand for zero.
  float least_squares(const Levels& levels) const {
    double product = 0, norm = 0;
    for (std::size_t i = 0; i < index_.size(); ++i) {
      const double level = levels.value[index_[i]];
      product += level * double{in_[i]};
      norm += level * level;
    }
    return norm == 0 ? 0 : static_cast<float>(product / norm);
  }

  // Tries `scale` as it is, or what least squares make of it, against the best so far.
  void offer(const Levels& levels, std::uint8_t zero, float scale, bool refine, Fit& best) {
    std::uint16_t half = float_to_half(scale);
    if (refine) {
      if (!std::isfinite(half_to_float(half))) return;
      encode(levels, half);
      half = float_to_half(least_squares(levels));
    }
    if (!std::isfinite(half_to_float(half))) return;
    encode(levels, half);
    if (const double squares = error(levels, half); squares < best.error) best = {half, zero, squares};
  }

  const std::vector<std::uint8_t>& index() const { return index_; }

 private:
  const float* in_;
  std::vector<std::uint8_t> index_;
};

// Scale 0 and zeros: what is left when nothing better has a scale that binary16 holds.
Fit nothing(const float* in, std::size_t n) {
  Fit fit;
  for (std::size_t i = 0; i < n; ++i) fit.error += double{in[i]} * double{in[i]};
  return fit;
}

Fit search_scale(const Levels& levels, Encoder& encoder, const float* in, std::size_t n) {
  float largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(in[i]));
  const float plain = largest / levels.outermost();
  const bool one_sign = levels.symmetric();
  Fit best = nothing(in, n);
  for (const float sign : {-1.0f, 1.0f}) {
    if (one_sign && sign < 0) continue;
    encoder.offer(levels, 0, sign * plain, false, best);
    for (const float stretch : kStretches) encoder.offer(levels, 0, sign * plain / stretch, true, best);
  }
  return best;
}

Fit search_zero_point(std::span<const Levels> by_zero, Encoder& encoder, const float* in, std::size_t n) {
  float low = 0, high = 0;
  for (std::size_t i = 0; i < n; ++i) {
    low = std::min(low, in[i]);
    high = std::max(high, in[i]);
  }
  Fit best = nothing(in, n);
  const float steps = by_zero[0].span();
  const float plain = high / steps - low / steps;
  if (plain == 0) return best;
  const auto most = static_cast<int>(by_zero.size()) - 1;
  for (const float stretch : kStretches) {
    const float scale = plain / stretch;
    // The code at the middle of the range is the middle one.
    const int centre = static_cast<int>(std::clamp(std::round(steps / 2 - (low / 2 + high / 2) / scale), 0.0f, static_cast<float>(most)));
    if (stretch == 1) encoder.offer(by_zero[static_cast<std::size_t>(centre)], static_cast<std::uint8_t>(centre), scale, false, best);
    for (int zero = std::max(0, centre - 1); zero <= std::min(most, centre + 1); ++zero) {
      encoder.offer(by_zero[static_cast<std::size_t>(zero)], static_cast<std::uint8_t>(zero), scale, true, best);
    }
  }
  return best;
}

// Codes of n values that share `fit`, block by block.
void write_blocks(Format format, const Levels& levels, const Fit& fit, const Encoder& encoder, std::byte* out) {
  const std::size_t step = block_elements(format);
  std::vector<std::uint8_t> codes(encoder.index().size());
  std::ranges::transform(encoder.index(), codes.begin(), [&](std::uint8_t index) { return levels.code[index]; });
  for (std::size_t at = 0; at < codes.size(); at += step, out += block_bytes(format)) {
    pack_codes(format, fit.scale, fit.zero, codes.data() + at, out);
  }
}

void quantise_run(Format format, const Levels& levels, const float* in, std::byte* out, std::size_t n) {
  Encoder encoder(in, n);
  const Fit fit = search_scale(levels, encoder, in, n);
  encoder.encode(levels, fit.scale);
  write_blocks(format, levels, fit, encoder, out);
}

}  // namespace

float largest_codable(Format format) {
  const Levels levels = levels_of(format);
  return kLargestHalf * (format.zero_point ? levels.span() / 2 : levels.outermost());
}

void quantise_codes(Format format, const float* in, std::byte* out, std::size_t n) {
  const std::size_t step = block_elements(format);
  VITRO_CHECK(n % step == 0, "a row has to be whole blocks");
  if (format.row_scale && !format.zero_point) return quantise_run(format, levels_of(format), in, out, n);
  std::vector<Levels> by_zero{levels_of(format)};
  for (std::uint32_t zero = 1; format.zero_point && zero < 1u << format.bits; ++zero) by_zero.push_back(levels_of(format, zero));
  const std::size_t run = format.row_scale ? n : step;
  for (std::size_t at = 0; at < n; at += run, out += run / step * block_bytes(format)) {
    if (by_zero.size() == 1) {
      quantise_run(format, by_zero[0], in + at, out, step);
      continue;
    }
    Encoder encoder(in + at, run);
    const Fit fit = search_zero_point(by_zero, encoder, in + at, run);
    encoder.encode(by_zero[fit.zero], fit.scale);
    write_blocks(format, by_zero[fit.zero], fit, encoder, out);
  }
}

struct CodeRounder::Tables {
  Format format;
  std::vector<Levels> by_zero;
  std::vector<std::array<float, kMostLevels>> middles;  // above them the next level begins
};

CodeRounder::CodeRounder(Format format) {
  VITRO_CHECK(format.has_codes(), "a format without codes");
  Tables tables{format, {levels_of(format)}, {}};
  for (std::uint32_t zero = 1; format.zero_point && zero < 1u << format.bits; ++zero) tables.by_zero.push_back(levels_of(format, zero));
  for (const Levels& levels : tables.by_zero) {
    auto& middle = tables.middles.emplace_back();
    for (std::size_t k = 0; k + 1 < levels.count; ++k) middle[k] = (levels.value[k] + levels.value[k + 1]) / 2;
  }
  tables_ = std::make_unique<const Tables>(std::move(tables));
}
CodeRounder::~CodeRounder() = default;

SharedScale CodeRounder::scale_of(const float* in, std::size_t n) const {
  std::vector<std::byte> blocks(n / block_elements(tables_->format) * block_bytes(tables_->format));
  quantise_row(tables_->format, in, blocks.data(), n);
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint8_t>(blocks[i]); };
  return {static_cast<std::uint16_t>(byte(0) | byte(1) << 8), tables_->format.zero_point ? byte(2) : std::uint8_t{0}};
}

CodeRounder::Rounded CodeRounder::round(SharedScale shared, float x) const {
  const Levels& levels = tables_->by_zero[shared.zero];
  const float scale = half_to_float(shared.scale), at = x * (scale == 0 ? 0 : 1 / scale);
  std::size_t index = 0;
  if (levels.of_bytes()) {
    const auto most = static_cast<float>(kMostLevels - 1);
    index = static_cast<std::size_t>(std::min(std::max(std::ceil(at - levels.value[0] - 0.5f), 0.0f), most));
  } else {
    const auto& middle = tables_->middles[shared.zero];
    for (std::size_t k = 0; k + 1 < levels.count; ++k) index += at > middle[k];
  }
  return {levels.code[index], scale * levels.value[index]};
}

void quantise_ternary(Format format, float scale, const float* in, std::byte* out, std::size_t n) {
  VITRO_CHECK(format.is_group() && !format.zero_point && format.bits >= 2, "no format for -1, 0 and 1");
  VITRO_CHECK(n % format.block == 0, "a row has to be whole blocks");
  Levels levels;
  levels.count = 3;
  for (int i = 0; i < 3; ++i) {
    levels.value[static_cast<std::size_t>(i)] = static_cast<float>(i - 1);
    levels.code[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>((1 << (format.bits - 1)) + i - 1);
  }
  const Fit fit{float_to_half(scale), 0, 0};
  Encoder encoder(in, n);
  encoder.encode(levels, fit.scale);
  write_blocks(format, levels, fit, encoder, out);
}

}  // namespace vitro
