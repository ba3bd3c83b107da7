// How much a test tries. Sanitizers and an emulated processor look for faults in code, which one case of a kind shows; numbers and laws
// over many formats, seeds or devices are the release build's. All cases run there with `./vitro test --all`, few with `./vitro test`,
// which sets VITRO_FEW_CASES in the environment.
#pragma once

#include <cstdlib>

namespace vitro::test {

inline bool few_cases() {
#ifdef VITRO_FEW_CASES
  return true;
#else
  static const bool few = std::getenv("VITRO_FEW_CASES") != nullptr;
  return few;
#endif
}

template <typename T>
T all_or_few(T all, T few) {
  return few_cases() ? few : all;
}

}  // namespace vitro::test
