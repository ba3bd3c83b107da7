#include "engine/host/host_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/base/aligned.hpp"

namespace vitro {
namespace {

Status failure(const std::string& path, std::string_view what) {
  const Code code = errno == ENOSPC || errno == EDQUOT ? Code::no_space : Code::io_error;
  return {code, fmt::format("{}: {}: {}", path, what, std::strerror(errno))};
}

// Some filesystems accept the flag and refuse the reads.
bool reads_directly(int fd) {
  AlignedArray<std::byte> page(kPageSize, kPageSize);
  return ::pread(fd, page.data(), page.size(), 0) >= 0;
}

int open_direct(const char* path, int flags) {
  const int fd = ::open(path, flags | O_DIRECT | O_CLOEXEC);
  if (fd < 0 || reads_directly(fd)) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

HostFile::HostFile(HostFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      buffered_(std::exchange(other.buffered_, -1)),
      direct_(other.direct_) {}

HostFile::~HostFile() {
  if (fd_ >= 0 && fd_ != buffered_) ::close(fd_);
  if (buffered_ >= 0) ::close(buffered_);
}

Result<HostFile> HostFile::open(const std::string& path, bool direct) {
  int fd = direct ? open_direct(path.c_str(), O_RDONLY) : -1;
  direct = fd >= 0;
  if (fd < 0) fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failure(path, "can not open");
  HostFile file(path, fd, direct);
  struct stat info{};
  if (::fstat(fd, &info) != 0) return failure(path, "can not examine");
  if (!S_ISREG(info.st_mode)) return Status{Code::io_error, fmt::format("{}: not a regular file", path)};
  return file;
}

Result<HostFile> HostFile::scratch(const std::string& folder, Bytes size, bool direct) {
  std::string path = folder + "/vitro-scratch-XXXXXX";
  const int buffered = ::mkostemp(path.data(), O_CLOEXEC);
  if (buffered < 0) return failure(folder, "can not create a scratch file");
  const int fd = direct ? open_direct(path.c_str(), O_RDWR) : -1;
  ::unlink(path.c_str());
  HostFile file("a scratch file in " + folder, fd >= 0 ? fd : buffered, fd >= 0);
  file.buffered_ = buffered;
  if (size == 0) return file;
  // Reserving the blocks now turns a disk that fills up during the run into a message before it.
  if (::fallocate(buffered, 0, 0, static_cast<off_t>(size)) == 0) return file;
  if (errno != EOPNOTSUPP) return failure(folder, fmt::format("can not reserve {} for a scratch file", format_bytes(size)));
  if (::ftruncate(buffered, static_cast<off_t>(size)) != 0) return failure(folder, "a scratch file can not be extended");
  return file;
}

Bytes HostFile::size_now() const {
  struct stat info{};
  return ::fstat(fd_, &info) == 0 ? static_cast<Bytes>(info.st_size) : 0;
}

}  // namespace vitro
