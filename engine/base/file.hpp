// Files, without memory mapping: a file that shrinks under us is then a message, not a SIGBUS.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "engine/base/units.hpp"

namespace vitro {

// A file opened for reading. Every failure is a RunError that names path and offset; a file that can not be opened is
// a ConfigError, since the user named it.
class InputFile {
 public:
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  Bytes size() const { return size_; }
  int descriptor() const { return fd_; }
  // Fills the whole of `into`. Throws when the file ends before that.
  void read_at(Bytes offset, std::span<std::byte> into) const;

 private:
  std::string path_;
  int fd_ = -1;
  Bytes size_ = 0;
};

std::string read_text(const std::string& path);

// One spelling for a file that has several: links followed and the path made absolute, as far as they lead somewhere.
std::string canonical_path(const std::string& path);

// Writes a file so that nobody ever sees half of it: the bytes go to a temporary neighbour, which commit() renames.
// Without commit() (an exception, a full disk) the temporary is removed and an older file stays as it was.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void pad_to(Bytes alignment);
  Bytes position() const { return position_; }
  void commit();

 private:
  std::string path_, temporary_;
  int fd_ = -1;
  Bytes position_ = 0;
};

}  // namespace vitro
