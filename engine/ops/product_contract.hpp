// Which numeric contract a product of matrices has: what was asked for, by who carries the product out and for how many rows.
#pragma once
#include "engine/ops/variants.hpp"

namespace vitro {

struct AskedContracts {
  VariantId all{};          // of every unit
  VariantId prompts{};      // of prompts, whoever carries them out; none: as other steps
  VariantId accelerator{};  // of an accelerator; none: that of all
};

struct ProductOf {
  bool prompt = false, accelerator = false;
};

// Of the rule below, for what outlives a run: keys and values that it saved. Grows where the rule gives a product another contract.
inline constexpr std::uint64_t kContractRule = 4;

// A prompt's contract before an accelerator's, that before the one of all: the first one that weights of the format have in the layout. Of
// weights that have none of them kFloat.
VariantId product_contract(const AskedContracts& asked, ProductOf by, Format weights, Layout layout);

}  // namespace vitro
