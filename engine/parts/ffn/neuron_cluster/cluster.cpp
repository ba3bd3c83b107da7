#include "engine/parts/ffn/neuron_cluster/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "engine/base/check.hpp"

namespace vitro {

IndexList united(const std::vector<IndexList>& rows) {
  if (rows.size() == 1) return rows.front();
  std::uint32_t first = ~0u, end = 0;
  std::size_t most = 0;
  for (const IndexList& row : rows) {
    if (row->empty()) continue;
    first = std::min(first, row->front() / 64 * 64);
    end = std::max(end, row->back() + 1);
    most += row->size();
  }
  // As bits: the rows of a prompt name the same neurons many times.
  std::vector<std::uint64_t> bits(most == 0 ? 0 : (end - first + 63) / 64);
  for (const IndexList& row : rows) {
    for (const std::uint32_t neuron : *row) bits[(neuron - first) / 64] |= std::uint64_t{1} << neuron % 64;
  }
  auto all = std::make_shared<std::vector<std::uint32_t>>();
  all->reserve(std::min<std::size_t>(most, 64 * bits.size()));
  for (std::uint32_t w = 0; w < bits.size(); ++w) {
    for (std::uint64_t left = bits[w]; left != 0; left &= left - 1) {
      all->push_back(first + 64 * w + static_cast<std::uint32_t>(std::countr_zero(left)));
    }
  }
  return all;
}

void check_active(const std::vector<IndexList>& rows, std::uint32_t first, std::uint32_t end) {
  for (const IndexList& row : rows) {
    if (row->empty()) continue;
    if (row->front() < first || row->back() >= end) {
      throw RunError(fmt::format("a unit answered with neurons {} to {} (expected some of those from {} to below {})", row->front(),
                                 row->back(), first, end));
    }
    const std::uint32_t* const neurons = row->data();
    std::uint32_t falls = 0;  // counted, not looked for: a loop without an exit takes several neurons at a time
    for (std::size_t i = 1, size = row->size(); i < size; ++i) falls += neurons[i - 1] >= neurons[i] ? 1 : 0;
    if (falls == 0) continue;
    const auto fall = std::ranges::adjacent_find(*row, std::ranges::greater_equal());
    throw RunError(fmt::format("a unit answered with neuron {} after {} (expected ascending neurons)", *(fall + 1), *fall));
  }
}

}  // namespace vitro
