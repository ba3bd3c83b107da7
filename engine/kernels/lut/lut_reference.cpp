#include "engine/kernels/lut/lut_reference.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/check.hpp"
#include "engine/kernels/hexagon/attention_stages.hpp"
#include "engine/kernels/hexagon/ieee_lane.hpp"
#include "engine/quant/float16.hpp"

namespace vitro::lut {

std::vector<std::int16_t> precompute(const std::int8_t* x, std::size_t columns) {
  std::vector<std::int16_t> tables(columns / kGroup * kEntries);
  for (std::size_t g = 0; g < columns / kGroup; ++g) {
    for (std::size_t e = 0; e < kEntries; ++e) {
      int sum = 0;
      for (std::size_t j = 0; j < kGroup; ++j) sum += (e >> j & 1) != 0 ? x[g * kGroup + j] : -x[g * kGroup + j];
      tables[g * kEntries + e] = static_cast<std::int16_t>(sum);
    }
  }
  return tables;
}

namespace {

// The entries that a block's bits of plane i find, added up in Sum.
template <class Sum, class Entry>
Sum plane_sum(const Entry* tables, const std::uint8_t* q, std::size_t begin, std::size_t end, unsigned i) {
  Sum sum = 0;
  for (std::size_t c = begin; c < end; c += kGroup) {
    std::size_t index = 0;
    for (std::size_t j = 0; j < kGroup; ++j) index |= static_cast<std::size_t>(q[c + j] >> i & 1) << j;
    sum = static_cast<Sum>(sum + tables[c / kGroup * kEntries + index]);
  }
  return sum;
}

}  // namespace

std::vector<std::int32_t> linear(const std::int16_t* tables, const std::int32_t* sums, const std::uint8_t* q, std::size_t rows,
                                 std::size_t columns, unsigned bits, std::int32_t zero, std::size_t block) {
  const std::size_t blocks = columns / block;
  std::vector<std::int32_t> out(rows * blocks);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t b = 0; b < blocks; ++b) {
      std::int32_t weighted = 0;
      for (unsigned i = 0; i < bits; ++i) {  // 64 entries of at most 508 fit in 16 bits
        weighted += plane_sum<std::int16_t>(tables, q + r * columns, b * block, (b + 1) * block, i) * (1 << i);
      }
      out[r * blocks + b] = (weighted + ((1 << bits) - 1 - 2 * zero) * sums[b]) / 2;  // even, so exact
    }
  }
  return out;
}

RoundedTables precompute_rounded(const std::int8_t* x, std::size_t columns, std::size_t block) {
  const std::vector<std::int16_t> exact = precompute(x, columns);
  RoundedTables tables{std::vector<std::int8_t>(exact.size()), std::vector<std::int32_t>(columns / block)};
  const std::size_t entries = block / kGroup * kEntries;
  for (std::size_t b = 0; b < tables.most.size(); ++b) {
    for (std::size_t e = b * entries; e < (b + 1) * entries; ++e) tables.most[b] = std::max(tables.most[b], std::int32_t{exact[e]});
    const std::int32_t factor = tables.most[b] == 0 ? 0 : std::min(32767, (127 << 15) / tables.most[b]);
    for (std::size_t e = b * entries; e < (b + 1) * entries; ++e) {
      tables.entries[e] = static_cast<std::int8_t>((exact[e] * factor + (1 << 14)) >> 15);
    }
  }
  return tables;
}

std::vector<std::int32_t> linear_rounded(const RoundedTables& tables, const std::uint8_t* q, std::size_t rows, std::size_t columns,
                                         unsigned bits, std::size_t block) {
  const std::size_t blocks = columns / block;
  std::vector<std::int32_t> out(rows * blocks);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t b = 0; b < blocks; ++b) {
      for (unsigned i = 0; i < bits; ++i) {
        out[r * blocks + b] += plane_sum<std::int32_t>(tables.entries.data(), q + r * columns, b * block, (b + 1) * block, i) * (1 << i);
      }
    }
  }
  return out;
}

std::vector<std::int32_t> dots(const std::int8_t* x, const std::uint8_t* q, std::size_t rows, std::size_t columns, std::int32_t zero,
                               std::size_t block) {
  std::vector<std::int32_t> out(rows * (columns / block));
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns / block * block; ++c) {
      out[r * (columns / block) + c / block] += (q[r * columns + c] - zero) * x[c];
    }
  }
  return out;
}

std::vector<std::uint16_t> exp2_table() {
  std::vector<std::uint16_t> table(32768);
  for (std::uint32_t bits = 0; bits < table.size(); ++bits) {
    const float x = half_to_float(static_cast<std::uint16_t>(bits | 0x8000u));
    table[bits] = float_to_half(static_cast<float>(std::exp2(static_cast<double>(x))));
  }
  return table;
}

namespace {

template <class Exp>
std::vector<std::uint16_t> powers_by() {
  std::vector<std::uint16_t> powers(32768);
  for (std::uint32_t bits = 0; bits < powers.size(); ++bits) {
    hexagon::IeeeLane::Vector power = 0;
    Exp::template exp<hexagon::IeeeLane>(bits | 0x8000u, nullptr, &power);
    powers[bits] = static_cast<std::uint16_t>(power);
  }
  return powers;
}

}  // namespace

std::span<const std::uint16_t> powers_of_two(Exponential by) {
  switch (by) {
    case Exponential::table: {
      static const std::vector<std::uint16_t> powers = exp2_table();
      return powers;
    }
    case Exponential::f16: {
      static const std::vector<std::uint16_t> powers = powers_by<hexagon::ExpByHalf>();
      return powers;
    }
    case Exponential::f32: {
      static const std::vector<std::uint16_t> powers = powers_by<hexagon::ExpByFloat>();
      return powers;
    }
  }
  VITRO_CHECK(false, "no way of making 2^x");
}

std::vector<std::uint16_t> code_table(const float (&values)[kEntries]) {
  std::vector<std::uint16_t> table;
  for (const float value : values) table.push_back(float_to_half(value));
  return table;
}

}  // namespace vitro::lut
