#include "engine/parts/products/products_config.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vitro {
namespace {

Method read_method(Reader& reader, std::string_view key) {
  constexpr Method kMethods[] = {Method::automatic,     Method::lut,     Method::fused,           Method::two_level,
                                 Method::scaled_tables, Method::convert, Method::convert_in_halves, Method::copy,
                                 Method::scatter,       Method::uncoalesced, Method::native,      Method::image,
                                 Method::buffer,        Method::file};
  std::vector<std::string> names;
  for (const Method method : kMethods) names.emplace_back(to_string(method));
  const std::string name = reader.choice(key, names, "automatic");
  return kMethods[std::ranges::find(names, name) - names.begin()];
}

}  // namespace

const std::vector<std::string>& numerics_choices() {
  static const std::vector<std::string> kChoices{"float", "fp16", "a16", "half_sums", "int8", "int8_tables", "int16_tables", "reference"};
  return kChoices;
}

ProductsConfig read_products(Reader reader, std::string_view own, bool repack) {
  ProductsConfig products;
  products.isa = reader.text("isa", "auto");
  const std::string numerics = reader.choice("numerics", numerics_choices(), own);
  products.matmul = variant::by_key(numerics);
  const std::string prefill = reader.choice("prefill_numerics", {"same", "fp16", "int8_rows"}, "same");
  if (prefill != "same") products.prefill_matmul = variant::by_key(prefill);
  const std::string codes = reader.choice("codes", {"automatic", "lut", "dot"}, "automatic");
  products.codes = codes == "lut" ? CodeMatmul::look_up : codes == "dot" ? CodeMatmul::dot : CodeMatmul::automatic;
  if (products.codes == CodeMatmul::dot && (products.matmul == variant::kInt8Tables || products.matmul == variant::kInt16Tables)) {
    reader.fail("codes", fmt::format("dot can not be combined with {}: {}, which only looks up (expected codes: lut, or numerics: int8)",
                                     reader.name_of("numerics"), numerics));
  }
  products.code_bits = static_cast<std::uint32_t>(reader.integer("code_bits", 1, 4, 0));
  const bool integers = products.matmul == variant::kInt8 || products.matmul == variant::kInt8Tables;
  if (products.codes == CodeMatmul::look_up && (!integers || !repack)) {
    reader.fail("codes", fmt::format("lut needs int8 activations and a repacked layout (expected {}: int8, and no "
                                     "engine.weights.repack: false)",
                                     reader.name_of("numerics")));
  }
  ProductMethods& methods = products.methods;
  methods.decode = read_method(reader, "decode");
  methods.prefill = read_method(reader, "prefill");
  methods.decode_rows = static_cast<std::uint32_t>(reader.integer("decode_rows", 1, 4096, methods.decode_rows));
  methods.share_precompute = reader.boolean("share_precompute", methods.share_precompute);
  reader.finish();
  return products;
}

}  // namespace vitro
