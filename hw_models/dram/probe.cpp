#include "hw_models/dram/probe.hpp"

#include <algorithm>
#include <memory>

namespace vitro::hw {
namespace {

class Prober {
 public:
  Prober(DramModel& dram, EventLoop& loop, const DramAgent& agent, std::size_t index)
      : dram_(dram), loop_(loop), agent_(agent), rng_(mix(index, {0x7072})), slots_(agent.outstanding) {
    port_ = dram.add_port({agent_.name, agent_.cap});
    if (agent_.range == 0) agent_.range = GiB;
    // Agents work on memory of their own, on pages that have nothing to do with one another: ranges that begin in the same bank
    // would have all agents in one bank at all times.
    base_ = index * 2 * agent_.range + round_down(mix(index, {0x6270, agent_.range + agent_.placement}) % agent_.range, kPageSize);
  }

  void begin() {
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) submit(slot);
  }
  void measure_until(Picoseconds end) {
    from_ = loop_.now();
    until_ = end;
    result_ = {};
    latency_ = 0;
    bytes_ = 0;
  }
  DramAgentResult result() const {
    DramAgentResult result = result_;
    result.gb_per_s = bytes_ / to_seconds(until_ - from_) * 1e-9;
    if (result.requests > 0) result.mean_latency_ns = latency_ / static_cast<double>(result.requests) * 1e-3;
    return result;
  }
  // For requests that began in the window and have not ended.
  bool waits() const {
    return std::any_of(slots_.begin(), slots_.end(), [this](const Slot& slot) { return slot.submitted < until_; });
  }

 private:
  struct Slot {
    Picoseconds submitted{0};
  };

  std::uint64_t next_address() {
    if (agent_.chunk > 0 && agent_.stride == 0) {
      const Bytes alignment = std::max<Bytes>(agent_.chunk & (~agent_.chunk + 1), 32);
      return base_ + rng_.below(agent_.range / alignment) * alignment;
    }
    const Bytes step = agent_.stride == 0 ? agent_.request : agent_.stride * std::max<Bytes>(1, agent_.request / agent_.chunk);
    const std::uint64_t address = base_ + position_;
    position_ = (position_ + step) % agent_.range;
    return address;
  }

  void submit(std::uint32_t slot) {
    slots_[slot].submitted = loop_.now();
    debt_ += agent_.writes;
    const bool write = debt_ >= 1;
    if (write) debt_ -= 1;
    const auto part = static_cast<Bytes>(agent_.written * static_cast<double>(agent_.request));
    DramRequest request{port_, agent_.request, write ? agent_.request : part};
    request.address = next_address();
    request.chunk = agent_.chunk;
    request.stride = agent_.stride;
    dram_.submit(request, [this, slot] { finish(slot); });
  }

  void finish(std::uint32_t slot) {
    const Picoseconds now = loop_.now();
    const Picoseconds submitted = slots_[slot].submitted;
    if (submitted < until_) {
      // Of a request that began before the window or ends after it, the part of its time inside counts.
      const double inside = to_seconds(std::min(now, until_) - std::max(from_, submitted)) / std::max(1e-12, to_seconds(now - submitted));
      bytes_ += static_cast<double>(agent_.request) * std::clamp(inside, 0.0, 1.0);
    }
    if (now <= until_) {
      latency_ += static_cast<double>((now - submitted).count());
      ++result_.requests;
    }
    submit(slot);
  }

  DramModel& dram_;
  EventLoop& loop_;
  DramAgent agent_;
  Rng rng_;
  std::vector<Slot> slots_;
  PortId port_{};
  std::uint64_t base_ = 0, position_ = 0;
  double debt_ = 0, latency_ = 0, bytes_ = 0;
  Picoseconds from_{0}, until_ = Picoseconds::max();
  DramAgentResult result_;
};

}  // namespace

DramProbeResult probe(DramModel& dram, EventLoop& loop, const std::vector<DramAgent>& agents, Picoseconds warm_up, Picoseconds window) {
  std::vector<std::unique_ptr<Prober>> probers;
  for (std::size_t i = 0; i < agents.size(); ++i) probers.push_back(std::make_unique<Prober>(dram, loop, agents[i], i));
  for (const auto& prober : probers) prober->begin();
  const Picoseconds from = loop.now() + warm_up;
  loop.run_until(from);
  for (const auto& prober : probers) prober->measure_until(from + window);
  const DramTotals before = dram.totals();
  loop.run_until(from + window);
  const DramTotals after = dram.totals();
  // All slots were taken when the window ended; the traffic goes on until those requests are through. One that starves is none.
  const auto waits = [&] { return std::any_of(probers.begin(), probers.end(), [](const auto& prober) { return prober->waits(); }); };
  while (loop.now() < from + 2 * window && waits()) loop.step();
  DramProbeResult result;
  for (const auto& prober : probers) result.agents.push_back(prober->result());
  result.gb_per_s = (after.bytes_read + after.bytes_written - before.bytes_read - before.bytes_written) / to_seconds(window) * 1e-9;
  return result;
}

std::vector<DramPattern> dram_patterns() {
  const auto stream = [](std::string name, Bytes chunk, Bytes stride = 0) {
    // Enough outstanding to keep every bank busy, in requests of a size that a kernel would make.
    const Bytes request = std::max<Bytes>(chunk, chunk == 0 ? 4 * KiB : 32);
    const auto outstanding = static_cast<std::uint32_t>(std::clamp<Bytes>(32 * KiB / request, 8, 512));
    return DramAgent{.name = std::move(name), .request = request, .outstanding = outstanding, .chunk = chunk, .stride = stride};
  };
  const auto capped = [](DramAgent agent, double gb_per_s) {
    agent.cap = {gb_per_s * 1e9};
    return agent;
  };
  const auto writing = [](DramAgent agent) {
    agent.writes = 1;
    return agent;
  };
  // A kernel that reads its operands and writes this share of the bytes elsewhere.
  const auto kernel = [&](std::string name, double written) {
    DramAgent agent = stream(std::move(name), 0);
    agent.request = 256 * KiB;
    agent.outstanding = 2;
    agent.written = written;
    return agent;
  };
  const DramAgent flash = writing(capped(stream("flash", 0), 4));
  const DramAgent cpu = capped(stream("cpu", 4 * KiB), 43.9), npu = capped(stream("npu", 0), 56);
  std::vector<DramPattern> patterns = {
      {"sequential", {stream("reader", 0)}},
      {"strided_64b_192b", {stream("reader", 64, 192)}},
      {"strided_64b_256b", {stream("reader", 64, 256)}},
      {"strided_64b_4kib", {stream("reader", 64, 4 * KiB)}},
      {"strided_256b_1kib", {stream("reader", 256, KiB)}},
      {"strided_1kib_4kib", {stream("reader", KiB, 4 * KiB)}},
      {"strided_4kib_12kib", {stream("reader", 4 * KiB, 12 * KiB)}},
      {"strided_4kib_16kib", {stream("reader", 4 * KiB, 16 * KiB)}},
      {"random_32b", {stream("reader", 32)}},
      {"random_64b", {stream("reader", 64)}},
      {"random_256b", {stream("reader", 256)}},
      {"random_1kib", {stream("reader", KiB)}},
      {"chunks_4kib", {stream("reader", 4 * KiB)}},
      {"chunks_16kib", {stream("reader", 16 * KiB)}},
      {"write_sequential", {writing(stream("writer", 0))}},
      {"write_strided_64b_256b", {writing(stream("writer", 64, 256))}},
      {"write_random_32b", {writing(stream("writer", 32))}},
      {"write_random_256b", {writing(stream("writer", 256))}},
      {"write_chunks_4kib", {writing(stream("writer", 4 * KiB))}},
      {"write_chunks_16kib", {writing(stream("writer", 16 * KiB))}},
      {"kernel_writes_2_percent", {kernel("kernel", 0.02)}},
      {"kernel_writes_10_percent", {kernel("kernel", 0.1)}},
      {"kernel_writes_25_percent", {kernel("kernel", 0.25)}},
      {"copy", {kernel("kernel", 0.5)}},
      {"mixed_cpu_npu", {cpu, npu}},
      {"mixed_cpu_flash", {cpu, flash}},
      {"mixed_cpu_npu_flash", {capped(stream("cpu", 16 * KiB), 24), npu, flash}},
      {"mixed_npu_random", {npu, capped(stream("cpu", 64), 4)}},
      {"mixed_npu_kernel", {npu, capped(kernel("cpu", 0.1), 20)}},
      {"mixed_cores", {}},
      {"pointer_chase", {{.name = "chase", .chunk = 32}}},
      {"line_after_line", {{.name = "walk"}}},
  };
  for (const char* core : {"core0", "core1", "core2", "core3"}) patterns[patterns.size() - 3].agents.push_back(capped(stream(core, 0), 14));
  patterns[patterns.size() - 3].agents.push_back(npu);
  return patterns;
}

}  // namespace vitro::hw
