#include "engine/tensor/lease.hpp"

namespace vitro {

std::string_view to_string(Region region) {
  constexpr std::string_view kNames[] = {"fixed",   "hot",     "cold",   "kv",        "activation",
                                         "staging", "runtime", "scales", "predictor", "adapter"};
  return kNames[static_cast<std::size_t>(region)];
}

}  // namespace vitro
