#include "engine/ops/product_contract.hpp"

namespace vitro {

VariantId product_contract(const AskedContracts& asked, ProductOf by, Format weights, Layout layout) {
  const VariantId in_order[] = {by.prompt ? asked.prompts : VariantId::none, by.accelerator ? asked.accelerator : VariantId::none,
                                asked.all};
  for (const VariantId wanted : in_order) {
    if (wanted != VariantId::none && variant::supports(wanted, weights, layout)) return wanted;
  }
  return variant::kFloat;
}

}  // namespace vitro
