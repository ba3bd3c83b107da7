// The characterisation run behind efficiency_table.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "hw_models/dram/detailed.hpp"
#include "hw_models/dram/efficiency.hpp"
#include "hw_models/dram/probe.hpp"

namespace vitro::hw {
namespace {

constexpr Picoseconds kWarmUp{5'000'000}, kWindow{40'000'000}, kShortWindow{20'000'000};
// Until the second of two requests of 256 KiB is through, their agent's rate counts too high.
constexpr Picoseconds kKernelWarmUp{20'000'000};
constexpr Bytes kChunks[] = {32, 64, 128, 256, 512, KiB, 2 * KiB, 4 * KiB, 8 * KiB, 16 * KiB, 64 * KiB};
constexpr Bytes kStridedChunks[] = {64, 256, KiB, 4 * KiB};
constexpr Bytes kMaxStride = MiB;
constexpr Bytes kUneven[] = {3, 5, 9, 17, 33, 65, 129, 257};  // times the chunk
constexpr std::size_t kAgents[] = {2, 3, 5, 8, 16};
constexpr double kReopened[] = {0.1, 0.3, 0.6, 0.8, 0.9};
// Places of the agents' data: with one alone the total of streams may be off by a quarter, by luck with their banks (one standard
// deviation: 2.5 % of two streams, 4 to 6 % of more). So many bring the error of a mean below 0.8 %, and to half a percent for as many
// streams as devices have at a time.
constexpr std::uint32_t kPlacements = 12, kPlacementsOfMany = 32, kPlacementsOfFew = 128;
constexpr std::size_t kFew = 5;
constexpr double kWriterCaps[] = {0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 2};
constexpr double kWriteShares[] = {0.02, 0.05, 0.1, 0.25, 0.4};
constexpr double kLesserReader = 1.0 / 3;                     // of a stream's rate: what reads beside a writer may be alike or not
constexpr double kLoads[] = {0.125, 0.25, 0.375, 0.5, 0.75};  // of what small chunks alone would reach
constexpr Bytes kSmall = 64, kKernelRequest = 256 * KiB;

class Derivation {
 public:
  Derivation(const DramPart& part, std::string_view mapping, const ControllerPolicy& policy, const WantedEntry& wanted)
      : part_(part), mapping_(mapping), policy_(policy), wanted_(wanted), sequential_(run({stream(0)}).gb_per_s) {}

  FlowEfficiency result() {
    add("sequential", [&] { return sequential_ * 1e9; });
    patterns();
    agents();
    queued();
    turns();
    latencies();
    return {entries_, {std::string(part_.name)}};
  }

 private:
  using Points = std::vector<std::pair<double, double>>;

  static DramAgent stream(Bytes chunk, Bytes stride = 0, double writes = 0) {
    const Bytes request = std::max<Bytes>(chunk, chunk == 0 ? 4 * KiB : 32);
    const auto outstanding = static_cast<std::uint32_t>(std::clamp<Bytes>(32 * KiB / request, 8, 512));
    return {.name = "agent", .request = request, .outstanding = outstanding, .chunk = chunk, .stride = stride, .writes = writes};
  }
  static DramAgent capped(DramAgent agent, double gb_per_s) {
    agent.cap = {gb_per_s * 1e9};
    return agent;
  }

  DramProbeResult run(const std::vector<DramAgent>& agents, Picoseconds warm_up = kWarmUp, Picoseconds window = kWindow) const {
    EventLoop loop;
    auto channels = std::make_unique<DramChannels>(loop, 1, part_.timing, part_.organisation, mapping_, policy_);
    DetailedDram dram({loop, "dram"}, std::move(channels), {});
    return probe(dram, loop, agents, warm_up, window);
  }
  // Mean of measure(result) over several placements.
  template <class Measure>
  double mean(std::vector<DramAgent> agents, Measure measure, std::uint32_t placements = kPlacements) const {
    const bool kernels = agents[0].request == kKernelRequest;
    double sum = 0;
    for (std::uint32_t placement = 0; placement < placements; ++placement) {
      for (DramAgent& agent : agents) agent.placement = placement;
      sum += measure(kernels ? run(agents, kKernelWarmUp) : run(agents, kWarmUp, kShortWindow));
    }
    return sum / placements;
  }
  static double total(const DramProbeResult& result) { return result.gb_per_s; }

  bool wanted(std::string_view key) const { return !wanted_ || wanted_(key); }
  template <class Measure>
  void add(std::string key, Measure measure) {
    if (wanted(key)) entries_.emplace_back(std::move(key), measure());
  }

  // Alone, of what a stream of reads gets.
  double kept(const DramAgent& agent) const { return run({agent}).gb_per_s / sequential_; }

  void patterns() {
    for (const Bytes chunk : kChunks) add(fmt::format("chunk.{}", chunk), [&] { return kept(stream(chunk)); });
    add("sequential_write", [&] { return kept(stream(0, 0, 1)); });
    for (const Bytes chunk : kChunks) add(fmt::format("write_chunk.{}", chunk), [&] { return kept(stream(chunk, 0, 1)); });
    add("strided_write", [&] { return kept(stream(64, 256, 1)) / kept(stream(64, 256)); });
    for (const Bytes chunk : kStridedChunks) {
      const auto strided = [&](Bytes stride) {
        add(fmt::format("strided.{}/{}", chunk, stride), [&] { return kept(stream(chunk, stride)); });
      };
      for (Bytes stride = 2 * chunk; stride <= kMaxStride; stride *= 2) strided(stride);
      for (const Bytes times : kUneven) strided(times * chunk);
    }
  }

  void agents() {
    for (const std::size_t count : kAgents) {
      const auto key = [count](double share) { return fmt::format("agents.{}/{}", count, share); };
      double largest = 0;
      for (const double share : kReopened) largest = wanted(key(share)) ? share : largest;
      if (wanted(key(1))) largest = 1;
      if (largest == 0) continue;
      const Points points = crowd(count, largest);
      for (const double share : kReopened) add(key(share), [&] { return between(points, share); });
      add(key(1), [&] { return points.back().second; });
    }
  }
  // Over the share of bytes whose row has to be opened again, what this many streams keep: one without a cap, the others held to a
  // part of its rate. At least up to `largest`.
  Points crowd(std::size_t count, double largest = 1) const {
    Points points{{0, 1}};
    if (count == 1) return {{0, 1}, {1, 1}};
    std::vector<DramAgent> agents(count, stream(0));
    const auto measure = [&] {
      std::vector<double> rates(count);
      const auto add_up = [&](const DramProbeResult& r) {
        for (std::size_t i = 0; i < count; ++i) rates[i] += r.agents[i].gb_per_s;
        return r.gb_per_s / sequential_;
      };
      const double kept = mean(agents, add_up, count <= kFew ? kPlacementsOfFew : kPlacementsOfMany);
      points.emplace_back(FlowEfficiency::reopened(rates), kept);
    };
    for (const double share : kReopened) {
      if (points.back().first >= largest) return points;
      const double small = sequential_ * share_of_others(count, share);
      for (std::size_t i = 1; i < count; ++i) agents[i] = capped(stream(0), small);
      measure();
    }
    std::fill(agents.begin(), agents.end(), stream(0));
    measure();
    return points;
  }
  // Of the total, what each of the others has when together they reopen this share.
  static double share_of_others(std::size_t count, double reopened) {
    double low = 0, high = 1;  // of the largest one's rate
    for (int step = 0; step < 30; ++step) {
      std::vector<double> rates(count, (low + high) / 2);
      rates[0] = 1;
      (FlowEfficiency::reopened(rates) < reopened ? low : high) = rates[1];
    }
    return low / (1 + low * static_cast<double>(count - 1));
  }
  static double between(const Points& points, double x) {
    const auto above = std::find_if(points.begin() + 1, points.end() - 1, [x](const auto& p) { return p.first >= x; });
    const auto below = std::prev(above);
    return below->second + (above->second - below->second) * (x - below->first) / (above->first - below->first);
  }

  // A stream, and beside it small chunks at random, held to a part of what they could take alone.
  void queued() {
    const double alone = run({stream(kSmall)}).gb_per_s;
    for (const double load : kLoads) {
      add(fmt::format("queued.{}", load), [&] {
        const double lost = mean({stream(0), capped(stream(kSmall), load * alone)}, [&](const DramProbeResult& both) {
          const double small = both.agents[1].gb_per_s, bus = both.gb_per_s / sequential_;
          return (1 - bus) / (small / alone - small / sequential_);
        });
        return std::clamp(lost, 0.01, 1.0);
      });
    }
    add("queued.1", [] { return 1; });
  }

  // What one or two readers lose beyond the time that readers and writes take without each other: beside a stream of writes
  // (`turns`), and when it is a reader who writes (`copies`). Beyond some share, where writes starve the reads of others, only requests
  // that do both are left.
  void turns() {
    const double writing = run({stream(0, 0, 1)}).gb_per_s;
    for (const std::size_t readers : {1, 2}) {
      std::optional<Points> crowded;
      std::map<double, double> both_write;
      for (const std::string_view kind : {"turns", "copies"}) {
        const auto key = [&](double share) { return fmt::format("{}.{}/{}", kind, readers, share); };
        double largest = 0;
        for (const double share : kWriteShares) largest = wanted(key(share)) ? share : largest;
        if (largest > 0) {
          if (!crowded) crowded = crowd(readers);
          const Points points =
              kind == "turns" ? beside_a_writer(readers, *crowded, writing, largest) : kernel_and_streams(readers, *crowded, writing);
          for (const double share : kWriteShares) add(key(share), [&] { return between(points, share); });
        }
        for (const double share : {0.5, 0.75}) {
          add(key(share), [&] {
            if (!both_write.contains(share)) both_write[share] = kept_by_copies(readers, share, writing);
            return both_write[share];
          });
        }
        add(key(1), [] { return 1; });
      }
    }
  }
  Points beside_a_writer(std::size_t readers, const Points& crowded, double writing, double largest) const {
    std::vector<DramAgent> unlike(readers, capped(stream(0), kLesserReader * sequential_));
    unlike[0] = stream(0);
    const std::vector<DramAgent> alike(readers, stream(0)), chunks(readers, stream(4 * KiB));
    const double reading_chunks = mean(chunks, total);
    Points points{{0, 1}};  // share, kept
    for (const double cap : kWriterCaps) {
      if (points.back().first >= largest) break;
      double share = 0, kept = 0;
      const auto beside = [&](std::vector<DramAgent> agents, bool of_chunks = false) {
        agents.push_back(capped(stream(0, 0, 1), cap * sequential_));
        kept += mean(agents, [&](const DramProbeResult& r) {
          const double written = r.agents.back().gb_per_s / r.gb_per_s;
          share += written / kPlacements;
          return kept_of(r.gb_per_s, written, of_chunks ? reading_chunks : reading(crowded, r, readers), writing);
        });
      };
      beside(alike);
      if (readers > 1) beside(unlike);
      beside(chunks, true);
      const double kinds = readers > 1 ? 3 : 2;
      points.emplace_back(share / kinds, kept / kinds);
    }
    return points;
  }
  // What the first agents of a run would read without the others, by the shares that they had.
  double reading(const Points& crowded, const DramProbeResult& result, std::size_t readers, double first_writes = 0) const {
    std::vector<double> rates;
    for (std::size_t i = 0; i < readers; ++i) rates.push_back(result.agents[i].gb_per_s * (i == 0 ? 1 - first_writes : 1));
    return sequential_ * between(crowded, FlowEfficiency::reopened(rates));
  }
  // Requests that write a share of their bytes, far from where they read, and streams beside them.
  Points kernel_and_streams(std::size_t readers, const Points& crowded, double writing) const {
    Points points{{0, 1}};
    for (const double share_of_all : kWriteShares) {
      const double written = share_of_all * static_cast<double>(readers);
      std::vector<DramAgent> agents(readers, stream(0));
      agents[0] = copy(written);
      double share = 0;
      const double kept = mean(agents, [&](const DramProbeResult& r) {
        const double writes = r.agents[0].gb_per_s * written / r.gb_per_s;
        share += writes / kPlacements;
        return kept_of(r.gb_per_s, writes, reading(crowded, r, readers, written), writing);
      });
      points.emplace_back(share, kept);
    }
    return points;
  }
  double kept_by_copies(std::size_t count, double written, double writing) const {
    const double reading = mean(std::vector(count, stream(0)), total);
    return mean(std::vector(count, copy(written)),
                [&](const DramProbeResult& r) { return kept_of(r.gb_per_s, written, reading, writing); });
  }
  static DramAgent copy(double written) {
    DramAgent agent = stream(0);
    agent.request = kKernelRequest;
    agent.outstanding = 2;
    agent.written = written;
    return agent;
  }
  // Of what moves `total` with this share of writes, in terms of a stream's time per byte.
  double kept_of(double total, double written, double reading, double writing) const {
    const double lost = 1 - total * ((1 - written) / reading + written / writing);
    return 1 / (1 + lost * sequential_ / total);
  }

  void latencies() {
    const auto latency = [](const DramProbeResult& result) { return result.agents[0].mean_latency_ns; };
    add("latency_random_ns", [&] { return mean({{.name = "chase", .chunk = 32}}, latency); });
    add("latency_sequential_ns", [&] { return mean({{.name = "walk"}}, latency); });
  }

  const DramPart& part_;
  std::string_view mapping_;
  ControllerPolicy policy_;
  const WantedEntry& wanted_;
  double sequential_;
  FlowEfficiency::Entries entries_;
};

}  // namespace

FlowEfficiency derive_flow_efficiency(const DramPart& part, std::string_view mapping, const ControllerPolicy& policy,
                                      const WantedEntry& wanted) {
  return Derivation(part, mapping, policy, wanted).result();
}

}  // namespace vitro::hw
