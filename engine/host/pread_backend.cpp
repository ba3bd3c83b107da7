#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "engine/host/io_backend.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kThreads = 8;  // a blocking read keeps one thread, so this is the queue depth

class PreadBackend final : public IoBackend {
 public:
  explicit PreadBackend(HostExecutor& executor) : executor_(executor) {
    for (std::uint32_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { serve(); });
  }

  ~PreadBackend() override {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    work_available_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  std::string_view name() const override { return "pread"; }
  std::uint32_t queue_depth() const override { return kThreads; }

  void submit(Transfer& transfer) override { submitted_.push_back(&transfer); }

  void flush() override {
    if (submitted_.empty()) return;
    {
      const std::scoped_lock lock(mutex_);
      queue_.insert(queue_.end(), submitted_.begin(), submitted_.end());
    }
    for (std::size_t i = 0; i < submitted_.size(); ++i) work_available_.notify_one();
    calls_ += submitted_.size();
    submitted_.clear();
  }

  std::uint64_t system_calls() const override { return calls_; }

  void reap(std::vector<Transfer*>& finished) override {
    const std::scoped_lock lock(mutex_);
    finished.insert(finished.end(), finished_.begin(), finished_.end());
    finished_.clear();
  }

  void arm() override { set_armed(true); }
  void disarm() override { set_armed(false); }

 private:
  void set_armed(bool armed) {
    const std::scoped_lock lock(mutex_);
    armed_ = armed;
  }

  void serve() {
    for (;;) {
      Transfer* transfer = nullptr;
      {
        std::unique_lock lock(mutex_);
        work_available_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (queue_.empty()) return;
        transfer = queue_.front();
        queue_.pop_front();
      }
      const auto offset = static_cast<off_t>(transfer->offset);
      const ssize_t n = transfer->write ? ::pwrite(transfer->fd, transfer->buffer, transfer->length, offset)
                                        : ::pread(transfer->fd, transfer->buffer, transfer->length, offset);
      transfer->result = n < 0 ? -errno : n;
      bool wake = false;
      {
        const std::scoped_lock lock(mutex_);
        finished_.push_back(transfer);
        wake = std::exchange(armed_, false);
      }
      if (wake) executor_.wake();
    }
  }

  HostExecutor& executor_;
  std::vector<Transfer*> submitted_;  // since the last flush; of the policy thread, as is the next
  std::uint64_t calls_ = 0;
  std::mutex mutex_;
  std::condition_variable work_available_;
  std::deque<Transfer*> queue_;        // guarded by mutex_
  std::vector<Transfer*> finished_;    // guarded by mutex_
  bool armed_ = false, stop_ = false;  // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<IoBackend> make_pread_backend(HostExecutor& executor) { return std::make_unique<PreadBackend>(executor); }

}  // namespace vitro
