// Reads GGUF files (version 3; version 2 has the same layout) by pread, never by mapping. A file is hostile until proven
// otherwise: every count, length, offset and alignment is checked against the file's size before it is used, and what is
// held in memory stays proportional to the metadata that the file really contains.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/file.hpp"
#include "engine/ops/kernel_call.hpp"

namespace vitro {

// Type ids as in the file; also the index of the alternative in GgufValue.
enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
std::string_view to_string(GgufType type);

struct GgufArray {
  GgufType type{};
  std::uint64_t count = 0;
  std::vector<std::byte> raw;        // numbers and booleans: count elements, little-endian
  std::vector<std::string> strings;  // strings
};

using GgufValue = std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t, float, bool,
                               std::string, GgufArray, std::uint64_t, std::int64_t, double>;

struct TensorInfo {
  std::string name;
  std::vector<std::uint64_t> dims;  // the contiguous dimension (K) first, as in the file; 1 to 4, none zero
  Format format{};
  Bytes offset = 0;  // in the file
  Bytes size = 0;  // there: a matrix lies in stored_layout(format)

  // The same as rows (all outer dimensions together) and columns.
  std::uint64_t columns() const { return dims.front(); }
  std::uint64_t rows() const;
};

class Gguf {
 public:
  // Also reads PowerInfer's sparse models: the same layout under the magic PWRI (github.com/SJTU-IPADS/PowerInfer).
  // Throws ConfigError naming file and byte offset when anything is wrong with the header, RunError when reading fails.
  static Gguf open(const std::string& path);
  // The same for files of int32 tensors alone (Format::index32), such as PowerInfer's neuron indices, magic PWRI. A tensor of
  // such a file may be empty.
  static Gguf open_indices(const std::string& path);

  const std::string& path() const { return file_.path(); }
  Bytes file_size() const { return file_.size(); }
  Bytes data_offset() const { return data_offset_; }  // also the length of everything before the tensors
  std::uint64_t alignment() const { return alignment_; }
  bool powerinfer() const { return powerinfer_; }

  // Keys, in file order. The getters throw ConfigError naming file and key when the value has another type or lies
  // outside [min, max]; those without `otherwise` also when it is absent.
  const std::vector<std::pair<std::string, GgufValue>>& values() const { return values_; }
  const GgufValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::uint64_t integer(std::string_view key, std::uint64_t min, std::uint64_t max) const;
  std::uint64_t integer(std::string_view key, std::uint64_t min, std::uint64_t max, std::uint64_t otherwise) const;
  double number(std::string_view key, double min, double max) const;
  double number(std::string_view key, double min, double max, double otherwise) const;
  bool boolean(std::string_view key, bool otherwise) const;
  const std::string& text(std::string_view key) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  const std::vector<std::string>& strings(std::string_view key) const;
  std::vector<float> floats(std::string_view key) const;
  std::vector<std::int32_t> integers(std::string_view key) const;
  [[noreturn]] void fail(std::string_view key, std::string_view problem) const;

  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in file order
  const TensorInfo* find_tensor(std::string_view name) const;
  // Fills `into` from byte `offset` of the tensor's rows, each as Layout::rows has it. Requires: the range lies inside them.
  void read(const TensorInfo& tensor, Bytes offset, std::span<std::byte> into) const;
  // The same of its bytes as the file has them: those of Layout::rows but for tile groups.
  void read_stored(const TensorInfo& tensor, Bytes offset, std::span<std::byte> into) const;
  // Throws ConfigError when a block of the tensor has a zero point that is no code of its format, or a scale that is not its row's.
  // Reads all of a tensor whose format has zero points or promises one scale per row, nothing of others.
  void check_blocks(const TensorInfo& tensor) const;
  // Any bytes of the file, for identities. Requires: the range lies inside it.
  void read_raw(Bytes offset, std::span<std::byte> into) const { file_.read_at(offset, into); }
  const InputFile& file() const { return file_; }

 private:
  friend class GgufParser;
  explicit Gguf(InputFile file) : file_(std::move(file)) {}
  const GgufValue& require(std::string_view key) const;
  const GgufArray& array(std::string_view key, GgufType type) const;

  InputFile file_;
  std::vector<std::pair<std::string, GgufValue>> values_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::size_t, std::less<>> value_index_, tensor_index_;
  Bytes data_offset_ = 0;
  std::uint64_t alignment_ = 32;
  bool powerinfer_ = false;
};

}  // namespace vitro
