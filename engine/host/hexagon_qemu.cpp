#include "engine/host/hexagon_qemu.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "engine/kernels/hexagon/packet_counts.h"

extern char** environ;

namespace vitro {
namespace {

constexpr int kInboundFd = 3, kOutboundFd = 4, kCounterFd = 5;  // in the worker
constexpr int kFirstFreeFd = 16;                                // ours stand above them, so that they can be put in place one by one

class SharedRegion {
 public:
  SharedRegion(const char* name, Bytes size) : size_(size) {
    const int fd = ::memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0) {
      fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, kFirstFreeFd);
      ::close(fd);
    }
    void* memory = MAP_FAILED;
    if (fd_ >= 0 && ::ftruncate(fd_, static_cast<off_t>(size)) == 0) {
      memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
    }
    if (memory == MAP_FAILED) {
      const std::string why = std::strerror(errno);
      if (fd_ >= 0) ::close(fd_);
      throw RunError(fmt::format("hexagon: no shared memory of {}: {}", format_bytes(size), why));
    }
    data_ = static_cast<std::byte*>(memory);
  }
  ~SharedRegion() {
    ::munmap(data_, size_);
    ::close(fd_);
  }
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  int fd() const { return fd_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  int fd_ = -1;
  Bytes size_;
  std::byte* data_ = nullptr;
};

std::string on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (std::string_view rest = path != nullptr ? path : ""; !rest.empty();) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string candidate = std::string(rest.substr(0, end)) + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

class QemuTransport final : public HexagonTransport {
 public:
  explicit QemuTransport(const QemuHexagonOptions& options)
      : emulator_(on_path("qemu-hexagon")),
        worker_(options.worker.empty() ? VITRO_HEXAGON_WORKER : options.worker),
        counter_(options.counter.empty() ? VITRO_HEXAGON_COUNTER : options.counter),
        matrix_unit_(options.matrix_unit),
        inbound_("vitro-hexagon-in", options.inbound),
        outbound_("vitro-hexagon-out", options.outbound),
        counts_("vitro-hexagon-packets", sizeof(packet_table)) {
    if (worker_.empty() || !std::filesystem::exists(worker_)) {
      throw ConfigError(
          fmt::format("engine.units: hexagon needs its worker program, which {} (expected clang-19 and lld-19 when vitro is "
                      "built: ./vitro test installs them)",
                      worker_.empty() ? "this build lacks" : "is not at " + worker_));
    }
    if (emulator_.empty()) throw ConfigError("engine.units: hexagon needs qemu-hexagon on the PATH (Debian: qemu-user)");
    if (!counter_.empty() && !std::filesystem::exists(counter_)) counter_.clear();
  }
  ~QemuTransport() override { stop(); }

  std::string name() const override { return "qemu-hexagon"; }
  std::span<std::byte> inbound() override { return inbound_.bytes(); }
  std::span<std::byte> outbound() override { return outbound_.bytes(); }

  Status start() override {
    VITRO_CHECK(pid_ < 0, "a second worker on the same regions");
    const std::string plugin = fmt::format("{},fd={}{}", counter_, kCounterFd, matrix_unit_ ? "" : ",matrix=worker");
    // v67 is the newest that QEMU 7.2 knows; v66 code runs on it.
    std::vector<const char*> arguments{emulator_.c_str(), "-cpu", "v67"};
    if (!counter_.empty()) arguments.insert(arguments.end(), {"-plugin", plugin.c_str()});
    arguments.insert(arguments.end(), {worker_.c_str(), nullptr});

    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      ::posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
    }
    ::posix_spawn_file_actions_adddup2(&files, inbound_.fd(), kInboundFd);
    ::posix_spawn_file_actions_adddup2(&files, outbound_.fd(), kOutboundFd);
    ::posix_spawn_file_actions_adddup2(&files, counts_.fd(), kCounterFd);
    const int failed = ::posix_spawn(&pid_, emulator_.c_str(), &files, nullptr, const_cast<char**>(arguments.data()), environ);
    ::posix_spawn_file_actions_destroy(&files);
    if (failed == 0) return {};
    pid_ = -1;
    return {Code::unit_lost, fmt::format("{}: {}", emulator_, std::strerror(failed))};
  }

  bool alive() override {
    if (pid_ < 0) return false;
    if (::waitpid(pid_, nullptr, WNOHANG) == 0) return true;
    pid_ = -1;
    return false;
  }

  int process() const override { return pid_; }

  void stop() override {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
    pid_ = -1;
  }

  // The emulator is coherent with everybody else on this machine.
  void clean(const void*, Bytes) override {}
  void invalidate(const void*, Bytes) override {}

  std::vector<PacketCount> packets() const override {
    const auto* table = reinterpret_cast<const packet_table*>(counts_.bytes().data());
    std::vector<PacketCount> counts;
    for (std::uint32_t i = 0; i < std::min<std::uint32_t>(table->count, kPacketEntries); ++i) {
      const packet_count& entry = table->entries[i];
      PacketCount& count = counts.emplace_back(PacketCount{std::string(entry.symbol, ::strnlen(entry.symbol, kPacketSymbol))});
      for (std::size_t thread = 0; thread < kPacketThreads; ++thread) {
        const std::uint64_t packets = __atomic_load_n(&entry.packets[thread], __ATOMIC_RELAXED);  // once: threads that poll still count
        count.packets += packets;
        count.vector_packets += __atomic_load_n(&entry.vector_packets[thread], __ATOMIC_RELAXED);
        count.of_thread[std::min(thread, count.of_thread.size() - 1)] += packets;
      }
    }
    return counts;
  }

 private:
  const std::string emulator_, worker_;
  std::string counter_;
  const bool matrix_unit_;
  SharedRegion inbound_, outbound_, counts_;
  pid_t pid_ = -1;
};

}  // namespace

bool have_qemu_hexagon() { return *VITRO_HEXAGON_WORKER != 0 && !on_path("qemu-hexagon").empty(); }

std::unique_ptr<HexagonTransport> make_qemu_hexagon(QemuHexagonOptions options) { return std::make_unique<QemuTransport>(options); }

}  // namespace vitro
