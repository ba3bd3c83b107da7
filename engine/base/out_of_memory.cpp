#include "engine/base/out_of_memory.hpp"

#include <unistd.h>

#include <new>
#include <string_view>

namespace vitro {

void exit_when_memory_ends() {
  std::set_new_handler([] {
    constexpr std::string_view kText =
        "vitro: out of memory: the system has none left for this process (expected a smaller model or batch)\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());  // without allocating
    ::_exit(1);
  });
}

}  // namespace vitro
