// How bytes move between files and memory on the real machine. Implementations: uring_backend.cpp, pread_backend.cpp.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/host/host_executor.hpp"

namespace vitro {

// One system call's worth of I/O. The caller owns it, and its buffer, until reap() hands it back.
struct Transfer {
  int fd = -1;
  bool write = false;
  Bytes offset = 0;
  std::byte* buffer = nullptr;
  Bytes length = 0;
  std::int64_t result = 0;  // bytes moved, which may be fewer than asked, or a negative errno
};

// All members belong to the policy thread.
class IoBackend {
 public:
  virtual ~IoBackend() = default;                  // Requires: nothing in flight
  virtual std::string_view name() const = 0;       // "io_uring", "pread"
  virtual std::uint32_t queue_depth() const = 0;   // transfers that may be in flight
  virtual void submit(Transfer& transfer) = 0;     // Requires: fewer than queue_depth() in flight
  virtual void flush() = 0;                        // starts what was submitted
  virtual std::uint64_t system_calls() const = 0;  // that moved bytes or started transfers, so far: one for all of a flush, or one each
  virtual void reap(std::vector<Transfer*>& finished) = 0;
  // Between arm() and disarm() a completion wakes the executor.
  virtual void arm() = 0;
  virtual void disarm() = 0;
};

// Null, with the reason in `why`, when the kernel or a sandbox refuses.
std::unique_ptr<IoBackend> make_uring_backend(HostExecutor& executor, std::string& why);
std::unique_ptr<IoBackend> make_pread_backend(HostExecutor& executor);

}  // namespace vitro
