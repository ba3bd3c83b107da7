// How much a test tries. Sanitizers and an emulated processor look for faults in code, which one case of a kind shows; numbers and laws
// over many formats, seeds or devices are the release build's, in which all cases run.
#pragma once

namespace vitro::test {

#ifdef VITRO_FEW_CASES
inline constexpr bool kFewCases = true;
#else
inline constexpr bool kFewCases = false;
#endif

template <typename T>
constexpr T all_or_few(T all, T few) {
  return kFewCases ? few : all;
}

}  // namespace vitro::test
