// Where keys and values of kept sequences (kept_sequences.hpp) are while no request needs them.
#pragma once
#include <cstdint>

namespace vitro {

// dram: where they were, and as many of them in DRAM. flash: a scratch file.
enum class KeptIn : std::uint8_t { dram, flash };

}  // namespace vitro
