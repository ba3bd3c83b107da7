// A mutator that knows GGUF: it takes a file apart, changes one thing of its header, and writes it again with counts, lengths and padding
// that fit, so that what lies behind the header's checks is reached. Every fourth time it changes bytes, as libFuzzer does on its own.
// Layout: ggml, docs/gguf.md (also engine/model/gguf_parser.cpp).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vitro::fuzz {

struct GgufParts {
  struct Value {
    std::string key;
    std::uint32_t type = 0;
    std::string bytes;  // as in the file, behind the type
  };
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dims;
    std::uint32_t type = 0;
    std::uint64_t offset = 0;  // from the begin of the data
  };
  std::string begin;  // magic and version
  std::vector<Value> values;
  std::vector<Tensor> tensors;
  std::string data;
  std::int64_t more_tensors = 0, more_values = 0;  // that the header's counts say and are not there
};

// Nothing where the bytes are not a header that is whole.
std::optional<GgufParts> take_apart(std::string_view bytes);
std::string put_together(const GgufParts& parts);

// Ends the process unless that file is the same when it was taken apart and put together: else only bytes would be changed, without a word.
void try_mutator(const char* seed);

// For LLVMFuzzerCustomMutator: changes `size` bytes in place, of at most `most`. -> the new size.
std::size_t mutate_gguf(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);

}  // namespace vitro::fuzz
