#include "engine/base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace vitro {

void check_failed(const char* expression, const char* file, int line, const char* why) {
  std::fprintf(stderr, "vitro: bug: %s:%d: %s does not hold: %s\n", file, line, expression, why);
  std::abort();
}

void check_failed(const char* expression, const char* file, int line, const std::string& why) {
  check_failed(expression, file, line, why.c_str());
}

}  // namespace vitro
