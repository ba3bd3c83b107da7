#include "engine/experiment/read_operators.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/quant/blocks.hpp"

namespace vitro {

ProductWorkload read_product_workload(Reader reader) {
  ProductWorkload products;
  for (const Node& node : reader.list("shapes")) {
    Reader shape(node, reader.name_of("shapes"));
    products.shapes.push_back(
        {static_cast<std::uint32_t>(shape.integer("columns", 1, 1 << 24)), static_cast<std::uint32_t>(shape.integer("depth", 1, 1 << 24))});
    shape.finish();
  }
  if (products.shapes.empty()) reader.fail("shapes", "is empty (expected entries such as {columns: 4096, depth: 4096})");
  products.rows = static_cast<std::uint32_t>(reader.integer("rows", 1, 1 << 20, 1));
  products.repeat = static_cast<std::uint32_t>(reader.integer("repeat", 1, 64, 16));
  const std::string name = reader.text("format", "q4_0");
  const std::optional<Format> format = format_by_name(name);
  if (!format || *format == Format::index32 || *format == Format::q4_nibbles) {
    reader.fail("format", fmt::format("\"{}\" is no format of weights (expected one such as f16, q4_0 or w2g64z)", name));
  }
  products.format = *format;
  for (const ProductWorkload::Shape& shape : products.shapes) {
    if (shape.depth % block_elements(products.format) == 0) continue;
    reader.fail("shapes", fmt::format("a depth of {} is not a whole number of {} blocks", shape.depth, name));
  }
  reader.finish();
  return products;
}

SoftmaxWorkload read_softmax_workload(Reader reader) {
  constexpr Exponential kExponentials[] = {Exponential::table, Exponential::f16, Exponential::f32};
  SoftmaxWorkload softmax;
  softmax.rows = static_cast<std::uint32_t>(reader.integer("rows", 1, 4096, 1));
  softmax.columns = static_cast<std::uint32_t>(reader.integer("columns", 1, 1 << 20));
  softmax.repeat = static_cast<std::uint32_t>(reader.integer("repeat", 1, 1 << 20, 1024));
  std::vector<std::string> names;
  for (const Exponential exponential : kExponentials) names.emplace_back(to_string(exponential));
  const std::string name = reader.choice("exp", names, "table");
  softmax.exponential = kExponentials[std::find(names.begin(), names.end(), name) - names.begin()];
  reader.finish();
  return softmax;
}

}  // namespace vitro
