// Adds keys and tensors to a GGUF file: predictors of firing neurons, thresholds.
#pragma once
#include <string>
#include <vector>

#include "engine/model/gguf.hpp"

namespace vitro {

struct AddedTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // contiguous dimension first
  Format format{};
  std::string file;  // its bytes
};

// Writes `out_path` with all of `in_path`, `values` and `tensors`; what is there under the same name is replaced. Streams;
// nothing is at out_path until all of it is. Throws ConfigError when the two are one file or a tensor's file has another size.
void extend_gguf(const std::string& in_path, const std::string& out_path, std::vector<std::pair<std::string, GgufValue>> values,
                 const std::vector<AddedTensor>& tensors);

}  // namespace vitro
