#include "engine/base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "engine/base/check.hpp"

namespace vitro {

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe that nobody writes to opens, too, to be refused
  if (fd_ < 0) throw ConfigError(fmt::format("{}: can not open: {}", path_, std::strerror(errno)));
  struct stat info{};
  const bool known = ::fstat(fd_, &info) == 0;
  if (!known || !S_ISREG(info.st_mode)) {
    ::close(std::exchange(fd_, -1));
    throw ConfigError(fmt::format("{}: not a regular file", path_));
  }
  size_ = static_cast<Bytes>(info.st_size);
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

InputFile::InputFile(InputFile&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

void InputFile::read_at(Bytes offset, std::span<std::byte> into) const {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t n = ::pread(fd_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw RunError(fmt::format("{}: read at offset {} failed: {}", path_, offset + done, std::strerror(errno)));
    if (n == 0) {
      throw RunError(fmt::format("{}: the file ends at offset {}, but {} bytes at {} were expected (was it cut while in use?)", path_,
                                 offset + done, into.size(), offset));
    }
    done += static_cast<std::size_t>(n);
  }
}

std::string canonical_path(const std::string& path) {
  std::error_code error;  // links in a circle, a folder that may not be read
  const std::filesystem::path found = std::filesystem::weakly_canonical(path, error);
  return error ? path : found.string();
}

std::string read_text(const std::string& path) {
  const InputFile file(path);
  std::string text(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)), temporary_(fmt::format("{}.{}.partial", path_, ::getpid())) {
  struct stat there{};  // commit() would put a file in the place of a device such as /dev/null
  if (::stat(path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    throw ConfigError(fmt::format("{}: can not write: not a regular file", path_));
  }
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) throw ConfigError(fmt::format("{}: can not write: {}", path_, std::strerror(errno)));
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw RunError(fmt::format("{}: write failed after {} bytes: {}", path_, position_ + done, std::strerror(errno)));
    done += static_cast<std::size_t>(n);
  }
  position_ += bytes.size();
}

void OutputFile::pad_to(Bytes alignment) {
  const std::vector<std::byte> zeros(round_up(position_, alignment) - position_);
  write(zeros);
}

void OutputFile::commit() {
  if (::fsync(fd_) != 0) throw RunError(fmt::format("{}: flushing to disk failed: {}", path_, std::strerror(errno)));
  ::close(std::exchange(fd_, -1));
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    throw RunError(fmt::format("{}: the finished file can not be renamed to this name: {}", path_, std::strerror(error)));
  }
}

}  // namespace vitro
