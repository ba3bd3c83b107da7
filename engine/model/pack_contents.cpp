#include "engine/model/pack_contents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "engine/model/input_order.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/row_damage.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro {
namespace {

std::string bad_row(const InputFile& file, const Weight& weight) {
  const std::size_t row = row_bytes(weight.format, weight.columns), together = group_rows(weight.layout);
  const Bytes group = together * row_bytes(weight.format, weight.columns, weight.layout);
  std::vector<std::byte> stored(std::min(std::max(MiB / group, Bytes{1}) * group, weight.extent.length)), rows(together * row);
  for (Bytes at = 0; at < weight.extent.length; at += group) {
    if (at % stored.size() == 0) {
      file.read_at(weight.extent.offset + at, std::span(stored).first(std::min<Bytes>(stored.size(), weight.extent.length - at)));
    }
    const std::byte* in = stored.data() + at % stored.size();
    if (weight.layout != Layout::rows) {
      unpack_tile(weight.format, weight.columns, in, rows.data(), weight.layout);
      in = rows.data();
    }
    for (std::size_t r = 0; r < together; ++r) {
      if (const auto damage = row_damage(weight.format, in + r * row, weight.columns, at / group * together + r)) return *damage;
    }
  }
  return "";
}

std::string bad_order(const InputFile& file, const Gguf& gguf, const Weight& order, std::string_view matrix) {
  std::vector<std::uint32_t> found(order.columns);
  file.read_at(order.extent.offset, std::as_writable_bytes(std::span(found)));
  const std::vector<std::uint32_t> expected = read_input_order(gguf, matrix);
  const auto [a, b] = std::ranges::mismatch(found, expected);
  if (a == found.end() && b == expected.end()) return "";
  return fmt::format("damaged: entry {} is {} (expected {}, as {} has it)", a - found.begin(), *a, *b, gguf.path());
}

}  // namespace

std::string find_bad_contents(const InputFile& file, const Gguf& gguf, const PackPlan& plan) {
  std::string_view matrix;
  for (const Weight& weight : plan.weights) {
    const std::string problem = is_order(weight.role)            ? bad_order(file, gguf, weight, matrix)
                                : can_be_damaged(weight.format) ? bad_row(file, weight)
                                                                 : "";
    if (!problem.empty()) return fmt::format("{}: {}", weight.name, problem);
    matrix = weight.name;
  }
  return "";
}

}  // namespace vitro
