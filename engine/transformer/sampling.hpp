// How the next token is chosen from its logits.
#pragma once
#include <cstdint>

namespace vitro {

struct Sampling {
  float temperature = 0;    // 0: greedy
  std::uint32_t top_k = 0;  // 0: all
  float top_p = 1;
  friend bool operator==(const Sampling&, const Sampling&) = default;
};

}  // namespace vitro
