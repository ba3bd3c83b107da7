#include "engine/model/gguf_extend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "engine/base/check.hpp"
#include "engine/model/gguf_writer.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

constexpr Bytes kChunk = MiB;

// read(offset, into) hands over `size` bytes piece by piece.
template <class Read>
void copy(Bytes size, GgufWriter& out, Read read) {
  std::vector<std::byte> chunk;
  for (Bytes at = 0; at < size; at += chunk.size()) {
    chunk.resize(std::min(kChunk, size - at));
    read(at, chunk);
    out.write(chunk);
  }
}

}  // namespace

void extend_gguf(const std::string& in_path, const std::string& out_path, std::vector<std::pair<std::string, GgufValue>> values,
                 const std::vector<AddedTensor>& tensors) {
  const Gguf in = Gguf::open(in_path);
  std::error_code error;
  if (std::filesystem::equivalent(in_path, out_path, error)) throw ConfigError(fmt::format("{}: input and output are one file", out_path));
  const auto replaced = [](const auto& added, const std::string& name, auto name_of) {
    return std::any_of(added.begin(), added.end(), [&](const auto& item) { return name_of(item) == name; });
  };
  const auto key = [](const auto& value) { return value.first; };
  const auto name = [](const AddedTensor& tensor) { return tensor.name; };

  GgufWriter out(out_path, in.alignment());
  for (const auto& value : in.values()) {
    if (value.first != "general.alignment" && !replaced(values, value.first, key)) out.add(value.first, value.second);
  }
  for (auto& value : values) out.add(value.first, std::move(value.second));
  for (const TensorInfo& tensor : in.tensors()) {
    if (!replaced(tensors, tensor.name, name)) out.add_tensor(tensor.name, tensor.dims, tensor.format);
  }
  for (const AddedTensor& tensor : tensors) out.add_tensor(tensor.name, tensor.dims, tensor.format);

  for (const TensorInfo& tensor : in.tensors()) {
    if (replaced(tensors, tensor.name, name)) continue;
    copy(tensor.size, out, [&](Bytes at, std::span<std::byte> into) { in.read_stored(tensor, at, into); });
  }
  for (const AddedTensor& tensor : tensors) {
    const InputFile file(tensor.file);
    const TensorInfo shape{tensor.name, tensor.dims, tensor.format, 0, 0};
    const Bytes size = row_bytes(tensor.format, shape.columns(), stored_layout(tensor.format)) * shape.rows();
    if (file.size() != size) {
      throw ConfigError(fmt::format("{}: {} bytes for tensor {} (expected {})", tensor.file, file.size(), tensor.name, size));
    }
    copy(size, out, [&](Bytes at, std::span<std::byte> into) { file.read_at(at, into); });
  }
  out.commit();
}

}  // namespace vitro
