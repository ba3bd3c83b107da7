// A file as the real machine's storage opens it: around the page cache where the filesystem allows that.
#pragma once
#include <string>

#include "engine/base/status.hpp"
#include "engine/base/units.hpp"

namespace vitro {

class HostFile {
 public:
  // For reading. direct: try O_DIRECT. A filesystem that refuses it gets a buffered file.
  static Result<HostFile> open(const std::string& path, bool direct);
  // An unlinked file of `size` bytes in `folder`, its blocks reserved. Code::no_space when they do not fit.
  static Result<HostFile> scratch(const std::string& folder, Bytes size, bool direct);

  HostFile(HostFile&& other) noexcept;
  HostFile& operator=(HostFile&&) = delete;
  ~HostFile();

  const std::string& path() const { return path_; }
  bool direct() const { return direct_; }
  bool writable() const { return buffered_ >= 0; }
  Bytes size_now() const;  // asks the filesystem: a file may shrink under us
  // The descriptor for a transfer: buffered for one that is not page-aligned, where there is such a descriptor. The
  // kernel keeps the two coherent: a direct transfer first writes back and drops cached pages of its range.
  int descriptor(bool aligned) const { return aligned || buffered_ < 0 ? fd_ : buffered_; }

 private:
  HostFile(std::string path, int fd, bool direct) : path_(std::move(path)), fd_(fd), direct_(direct) {}

  std::string path_;
  int fd_ = -1, buffered_ = -1;
  bool direct_ = false;
};

}  // namespace vitro
