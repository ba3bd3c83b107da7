// LoRA adapters with random matrices for a base, as GGUF files.
#pragma once
#include <cstdint>
#include <string>

namespace vitro {

// Some of the matrices that can be adapted beside the base `base` (a GGUF file), one at least, each with a rank from 1 to 8 of its own. One
// seed and base, one file. Throws RunError when it can not be written.
void write_random_adapter(std::uint64_t seed, const std::string& base, const std::string& path);

}  // namespace vitro
