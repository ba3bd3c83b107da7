#include "engine/base/hash.hpp"

#include <fmt/format.h>

namespace vitro {

std::string Hash::hex() const { return fmt::format("{:016x}", state_); }

}  // namespace vitro
