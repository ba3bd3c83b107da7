#include "engine/base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace vitro {

void check_failed(const char* expression, const char* file, int line, const std::string& why) {
  std::fprintf(stderr, "vitro: bug: %s:%d: %s does not hold: %s\n", file, line, expression, why.c_str());
  std::abort();
}

}  // namespace vitro
