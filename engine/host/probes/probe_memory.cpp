#include "engine/host/probes/probe_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <numeric>
#include <span>
#include <thread>

#include "engine/base/rng.hpp"
#include "engine/base/status.hpp"
#include "engine/host/cpu_topology.hpp"
#include "engine/host/host_executor.hpp"
#include "engine/host/thread_placement.hpp"
#include "engine/kernels/common/kernel_set.hpp"
#include "engine/machine/compute_unit.hpp"

namespace vitro {
namespace {

constexpr Bytes kLine = 64;

// Anonymous memory with a page behind every address, on huge pages where the system gives them.
class Pages {
 public:
  explicit Pages(Bytes size) : size_(size), data_(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw RunError("probe: no memory for " + format_bytes(size));
    ::madvise(data_, size, MADV_HUGEPAGE);
    for (Bytes at = 0; at < size; at += kPageSize) static_cast<volatile std::byte*>(data_)[at] = std::byte{1};
  }
  ~Pages() { ::munmap(data_, size_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  Bytes size_;
  void* data_;
};

std::atomic<std::uint64_t> sink{0};  // results go here, so that no loop is left out

std::uint64_t read_strided(const std::byte* data, Bytes bytes, Bytes stride) {
  std::uint64_t sum = 0;
  // As many passes as it takes to touch every line once, each starting a line later.
  for (Bytes first = 0; first < stride; first += kLine) {
    for (Bytes at = first; at < bytes; at += stride) sum += *reinterpret_cast<const std::uint64_t*>(data + at);
  }
  return sum;
}

// Seconds of `work(thread)` on every thread side by side, each pinned to a core.
template <class Work>
double timed_on(const HostExecutor& clock, const std::vector<Core>& cores, std::uint32_t threads, Work work) {
  std::barrier gate(static_cast<std::ptrdiff_t>(threads));
  std::vector<Picoseconds> begins(threads), ends(threads);
  std::vector<std::jthread> running;
  for (std::uint32_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      pin_thread(pthread_self(), cores[t].os_cpu);
      gate.arrive_and_wait();
      begins[t] = clock.now();
      work(t);
      ends[t] = clock.now();
    });
  }
  running.clear();
  return to_seconds(*std::max_element(ends.begin(), ends.end()) - *std::min_element(begins.begin(), begins.end()));
}

}  // namespace

std::vector<double> probe_reads(const ReadProbe& probe) {
  const std::vector<Core> cores = read_topology("/sys/devices/system/cpu", allowed_cpus());
  if (probe.threads == 0 || probe.threads > cores.size()) {
    throw ConfigError(fmt::format("probe: threads: {} (expected 1 to {}, a core for each)", probe.threads, cores.size()));
  }
  if (probe.stride % kLine != 0) throw ConfigError(fmt::format("probe: stride: {} (expected a multiple of {})", probe.stride, kLine));
  const Bytes share = round_down(probe.bytes / probe.threads, kPageSize);
  if (share == 0) throw ConfigError(fmt::format("probe: bytes: {} (expected a page for each thread)", probe.bytes));
  const Pages memory(share * probe.threads);
  const HostExecutor clock;
  // Passes over the same bytes, so that each repetition moves enough to be timed.
  const Bytes passes = std::max<Bytes>(1, 256 * MiB / (share * probe.threads));
  const auto rate = [&](auto read) {
    const double seconds = timed_on(clock, cores, probe.threads, [&](std::uint32_t thread) {
      for (Bytes pass = 0; pass < passes; ++pass) sink += read(memory.data() + thread * share, share);
    });
    return static_cast<double>(passes * share * probe.threads) / seconds;
  };
  std::vector<double> rates;
  if (probe.stride > 0) {
    for (std::uint32_t i = 0; i < probe.repetitions; ++i) {
      rates.push_back(rate([&](const std::byte* data, Bytes bytes) { return read_strided(data, bytes, probe.stride); }));
    }
    return rates;
  }
  const std::span<const ReadLoop> loops = kernel_sets().back()->reads;
  const auto fastest =
      std::max_element(loops.begin(), loops.end(), [&](const ReadLoop& a, const ReadLoop& b) { return rate(a.read) < rate(b.read); });
  for (std::uint32_t i = 0; i < probe.repetitions; ++i) rates.push_back(rate(fastest->read));
  return rates;
}

std::vector<double> probe_load_latency(Bytes bytes, std::uint32_t repetitions) {
  constexpr std::uint32_t kLoads = 200'000;
  const std::size_t lines = bytes / kLine;
  if (lines < 2) throw ConfigError(fmt::format("probe: bytes: {} (expected two cache lines or more)", bytes));
  const Pages memory(round_up(bytes, kPageSize));
  const auto line = [&](std::size_t i) { return reinterpret_cast<std::uint32_t*>(memory.data() + i * kLine); };
  // One cycle through all lines: Sattolo's shuffle.
  for (std::size_t i = 0; i < lines; ++i) *line(i) = static_cast<std::uint32_t>(i);
  Rng rng(1);
  for (std::size_t i = lines - 1; i > 0; --i) std::swap(*line(i), *line(rng.below(i)));
  const HostExecutor clock;
  std::vector<double> seconds;
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < repetitions; ++i) {
    const Picoseconds begin = clock.now();
    for (std::uint32_t load = 0; load < kLoads; ++load) at = *line(at);
    seconds.push_back(to_seconds(clock.now() - begin) / kLoads);
  }
  sink += at;
  return seconds;
}

std::vector<double> probe_clock(std::uint32_t repetitions) {
  constexpr std::uint64_t kAdditions = 1'000'000;
  const HostExecutor clock;
  std::vector<double> hertz;
  for (std::uint32_t i = 0; i < repetitions; ++i) {
    std::uint64_t sum = 0;
    const Picoseconds begin = clock.now();
    for (std::uint64_t n = 0; n < kAdditions; n += 10) {
      // The empty statements keep the additions apart: each needs the one before it.
      for (int k = 0; k < 10; ++k) {
        sum += n;
        asm volatile("" : "+r"(sum));
      }
    }
    hertz.push_back(kAdditions / to_seconds(clock.now() - begin));
    sink += sum;
  }
  return hertz;
}

std::vector<double> probe_call_building(std::uint32_t repetitions) {
  constexpr int kCalls = 2000;
  const auto block = std::make_shared<Block>();
  const Lease lease(block);
  View view;
  view.memory = lease;
  view.shape = {64, 64, 0};
  const Batch batch = std::make_shared<const std::vector<SeqPos>>(1);
  const HostExecutor clock;
  std::vector<double> seconds;
  for (std::uint32_t i = 0; i < repetitions; ++i) {
    const Picoseconds begin = clock.now();
    {
      Chain chain;
      for (int n = 0; n < kCalls; ++n) {
        KernelCall call;
        call.op = ops::Matmul{};
        call.batch = batch;
        call.in = {view, view};
        call.out = {view};
        chain.push_back(std::move(call));
      }
      sink += chain.size();
    }
    seconds.push_back(to_seconds(clock.now() - begin) / kCalls);
  }
  return seconds;
}

}  // namespace vitro
