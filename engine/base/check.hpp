// The three kinds of failure. VITRO_CHECK: our bug, also in release builds. ConfigError: the user's mistake.
// Status (status.hpp): an I/O or budget outcome that a policy has to handle.
#pragma once
#include <stdexcept>
#include <string>

namespace vitro {

// The user's input is wrong. `what()` is the one line that the user sees: file:line, key, value, what was expected.
// The command line turns it into exit code 2.
class ConfigError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The run itself failed (disk full, device lost, file changed under us). Exit code 1.
class RunError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Cold, and one without a string to make: most checks name a reason that is always the same, and stand in the hottest loops.
[[noreturn, gnu::cold]] void check_failed(const char* expression, const char* file, int line, const char* why);
[[noreturn, gnu::cold]] void check_failed(const char* expression, const char* file, int line, const std::string& why);

}  // namespace vitro

#define VITRO_CHECK(condition, why)                               \
  do {                                                            \
    if (!(condition)) [[unlikely]]                                \
      ::vitro::check_failed(#condition, __FILE__, __LINE__, why); \
  } while (false)
