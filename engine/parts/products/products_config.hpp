// `engine.products:` how each unit carries a matmul out: numeric contract, instruction set, and the accelerator's method by rows.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/config.hpp"
#include "engine/ops/variants.hpp"

namespace vitro {

// How an accelerator carries matmuls out, by the rows that they have. Methods that do not apply to a matrix's format (look-up in float16
// weights) are left to its variant.
struct ProductMethods {
  Method decode = Method::automatic, prefill = Method::automatic;
  std::uint32_t decode_rows = 1;  // a matmul with up to so many rows is one of decoding
  bool share_precompute = true;   // tables are made once for matmuls with the same input (T-MAN 5)

  Method of(std::size_t rows) const { return rows <= decode_rows ? decode : prefill; }
};

struct ProductsConfig {
  std::string isa = "auto";    // kernel set of the host CPU
  std::string simulated_set;   // kernel set of a simulated device's cores; empty on host
  VariantId matmul;            // numeric contract of matmuls
  VariantId prefill_matmul{};  // of those with more rows than `methods.decode_rows`; none: the same
  CodeMatmul codes = CodeMatmul::automatic;
  std::uint32_t code_bits = 0;  // the model has to have a matrix of such codes in Layout::lut; 0: nothing is asked
  ProductMethods methods;
};

// What engine.products.numerics may say.
const std::vector<std::string>& numerics_choices();

// `own`: the numeric contract where none is asked for. `repack`: whether weights may be laid out anew for look-ups.
ProductsConfig read_products(Reader reader, std::string_view own, bool repack);

}  // namespace vitro
