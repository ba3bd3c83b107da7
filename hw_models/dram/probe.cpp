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
    base_ = index * 2 * agent_.range + round_down(mix(index, {0x6270}) % agent_.range, kPageSize);
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
  double bytes() const { return bytes_; }

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
    DramRequest request{port_, agent_.request, write ? agent_.request : 0};
    request.address = next_address();
    request.chunk = agent_.chunk;
    request.stride = agent_.stride;
    dram_.submit(request, [this, slot] { finish(slot); });
  }

  void finish(std::uint32_t slot) {
    const Picoseconds now = loop_.now();
    if (now <= until_) {
      // Of a request that began before the window, the part of its time inside it counts.
      const Picoseconds began = std::max(from_, slots_[slot].submitted);
      const double inside = to_seconds(now - began) / std::max(1e-12, to_seconds(now - slots_[slot].submitted));
      bytes_ += static_cast<double>(agent_.request) * std::min(1.0, inside);
      latency_ += static_cast<double>((now - slots_[slot].submitted).count());
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
  DramAgent flash = capped(stream("flash", 0), 4);
  flash.writes = 1;
  DramAgent chase{.name = "chase", .request = 32, .outstanding = 1, .chunk = 32};
  return {
      {"sequential", {stream("reader", 0)}},
      {"strided_64b_256b", {stream("reader", 64, 256)}},
      {"strided_64b_4kib", {stream("reader", 64, 4 * KiB)}},
      {"random_64b", {stream("reader", 64)}},
      {"random_256b", {stream("reader", 256)}},
      {"random_1kib", {stream("reader", KiB)}},
      {"chunks_4kib", {stream("reader", 4 * KiB)}},
      {"chunks_16kib", {stream("reader", 16 * KiB)}},
      {"mixed_cpu_npu", {capped(stream("cpu", 4 * KiB), 43.9), capped(stream("npu", 0), 56)}},
      {"mixed_cpu_flash", {capped(stream("cpu", 4 * KiB), 43.9), flash}},
      {"mixed_cpu_npu_flash", {capped(stream("cpu", 16 * KiB), 24), capped(stream("npu", 0), 56), flash}},
      {"pointer_chase", {chase}},
  };
}

}  // namespace vitro::hw
