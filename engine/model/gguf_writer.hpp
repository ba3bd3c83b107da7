// Writes a GGUF file (version 3) by streaming: metadata and tensor shapes first, then the tensors' bytes in that order.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/model/gguf.hpp"

namespace vitro {

class GgufWriter {
 public:
  // Nothing is visible at `path` before commit(). alignment: a power of two.
  explicit GgufWriter(std::string path, std::uint64_t alignment = 32);

  // Requires: before the first write(); keys and names are not repeated. general.alignment is written by itself when it
  // is not 32.
  void add(std::string key, GgufValue value);
  // dims: contiguous dimension first, as TensorInfo::dims.
  void add_tensor(std::string name, std::vector<std::uint64_t> dims, Format format);

  // The next bytes of the tensors, in the order of add_tensor(); a piece must not straddle two of them.
  void write(std::span<const std::byte> bytes);
  // Requires: every tensor is complete.
  void commit();

 private:
  void write_header();

  OutputFile out_;
  std::uint64_t alignment_;
  std::vector<std::pair<std::string, GgufValue>> values_;
  std::vector<TensorInfo> tensors_;  // offsets count from data_start_
  bool header_written_ = false;
  Bytes data_start_ = 0;
  std::size_t next_ = 0;  // the tensor being written
  Bytes done_ = 0;        // bytes of it
};

GgufArray gguf_array(std::vector<std::string> strings);
GgufArray gguf_array(std::span<const float> values);
GgufArray gguf_array(std::span<const std::int32_t> values);

}  // namespace vitro
