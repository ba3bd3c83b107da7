#include <fmt/format.h>
#include <liburing.h>

#include <cstring>

#include "engine/host/io_backend.hpp"

namespace vitro {
namespace {

constexpr unsigned kDepth = 64;  // twice the 32 slots of a UFS device: one batch runs while the next is queued

class UringBackend final : public IoBackend {
 public:
  UringBackend(const io_uring& ring) : ring_(ring) {}
  ~UringBackend() override { io_uring_queue_exit(&ring_); }

  std::string_view name() const override { return "io_uring"; }
  std::uint32_t queue_depth() const override { return kDepth; }

  void submit(Transfer& transfer) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) {
      flush();
      entry = io_uring_get_sqe(&ring_);
    }
    VITRO_CHECK(entry != nullptr, "more transfers were submitted than the ring holds");
    const auto length = static_cast<unsigned>(transfer.length);
    if (transfer.write) {
      io_uring_prep_write(entry, transfer.fd, transfer.buffer, length, transfer.offset);
    } else {
      io_uring_prep_read(entry, transfer.fd, transfer.buffer, length, transfer.offset);
    }
    io_uring_sqe_set_data(entry, &transfer);
  }

  void flush() override {
    while (io_uring_sq_ready(&ring_) > 0) {
      ++enters_;
      const int submitted = io_uring_submit(&ring_);
      // EAGAIN and EBUSY mean that the kernel is short of memory or the completion queue is full: both pass, once
      // completions are reaped. The entries stay queued and the next flush tries again.
      if (submitted == -EAGAIN || submitted == -EBUSY) return;
      if (submitted < 0 && submitted != -EINTR) throw RunError(fmt::format("io_uring_submit failed: {}", std::strerror(-submitted)));
    }
  }

  std::uint64_t system_calls() const override { return enters_; }

  void reap(std::vector<Transfer*>& finished) override {
    io_uring_cqe* entry = nullptr;
    unsigned head = 0, n = 0;
    io_uring_for_each_cqe(&ring_, head, entry) {
      auto* transfer = static_cast<Transfer*>(io_uring_cqe_get_data(entry));
      transfer->result = entry->res;
      finished.push_back(transfer);
      ++n;
    }
    io_uring_cq_advance(&ring_, n);
  }

  // The kernel signals the executor's descriptor for every completion. Silencing it while the policy thread is awake
  // would need a barrier in the kernel between the completion and the look at the flag; nothing promises one.
  void arm() override {}
  void disarm() override {}

 private:
  io_uring ring_;
  std::uint64_t enters_ = 0;
};

}  // namespace

std::unique_ptr<IoBackend> make_uring_backend(HostExecutor& executor, std::string& why) {
  io_uring ring{};
  int error = io_uring_queue_init(kDepth, &ring, 0);
  if (error == 0) {
    error = io_uring_register_eventfd(&ring, executor.descriptor());
    if (error != 0) io_uring_queue_exit(&ring);
  }
  if (error != 0) {
    why = std::strerror(-error);
    return nullptr;
  }
  return std::make_unique<UringBackend>(ring);
}

}  // namespace vitro
