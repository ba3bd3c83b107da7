#include "hw_models/dram/efficiency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "hw_models/dram/detailed.hpp"
#include "hw_models/dram/probe.hpp"

namespace vitro::hw {
namespace {

constexpr Picoseconds kWarmUp{5'000'000}, kWindow{40'000'000};
constexpr Bytes kChunks[] = {32, 64, 128, 256, 512, KiB, 2 * KiB, 4 * KiB, 16 * KiB, 64 * KiB};
constexpr Bytes kStridedChunks[] = {64, 256, KiB};
constexpr Bytes kMaxStride = MiB;
constexpr std::size_t kAgents[] = {2, 3, 4, 8, 16};
constexpr Bytes kRanges[] = {GiB, 768 * MiB, 640 * MiB};  // other places for the agents' data: one alone may be lucky
constexpr double kWriterCaps[] = {0.02, 0.05, 0.1, 0.2, 0.3, 0.5};

std::vector<double> numbers(std::string_view text, const std::string& name, const std::string& key) {
  std::vector<double> result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('/'), text.size());
    double value = 0;
    if (!parse_quantity(text.substr(0, end), Dimension::none, value))
      throw ConfigError(fmt::format("{}.{}: not a number after the dot", name, key));
    result.push_back(value);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

DramAgent reader(Bytes chunk, Bytes stride = 0) {
  const Bytes request = std::max<Bytes>(chunk, chunk == 0 ? 4 * KiB : 32);
  const auto outstanding = static_cast<std::uint32_t>(std::clamp<Bytes>(32 * KiB / request, 8, 512));
  return {.name = "reader", .request = request, .outstanding = outstanding, .chunk = chunk, .stride = stride};
}

}  // namespace

FlowEfficiency::FlowEfficiency(const Entries& entries, const std::string& name) : entries_(entries) {
  for (const auto& [key, value] : entries) {
    const std::size_t dot = std::min(key.find('.'), key.size());
    const std::string kind = key.substr(0, dot);
    const std::vector<double> x = numbers(std::string_view(key).substr(std::min(dot + 1, key.size())), name, key);
    if (kind == "sequential" && x.empty())
      sequential_ = value;
    else if (kind == "chunk" && x.size() == 1)
      chunks_.emplace_back(std::log2(x[0]), value);
    else if (kind == "agents" && x.size() == 1)
      agents_.emplace_back(x[0], value);
    else if (kind == "writes" && x.size() == 1)
      writes_.emplace_back(x[0], value);
    else if (kind == "strided" && x.size() == 2) {
      if (strides_.empty() || strides_.back().first != x[0]) strides_.push_back({x[0], {}});
      strides_.back().second.emplace_back(std::log2(x[1]), value);
    } else {
      throw ConfigError(
          fmt::format("{}.{}: unknown (expected sequential, chunk.BYTES, strided.CHUNK/STRIDE, agents.COUNT, writes.SHARE)", name, key));
    }
  }
  for (Curve* curve : {&chunks_, &agents_, &writes_}) std::sort(curve->begin(), curve->end());
  std::sort(strides_.begin(), strides_.end());
  for (auto& [chunk, curve] : strides_) std::sort(curve.begin(), curve.end());
}

double FlowEfficiency::at(const Curve& curve, double x) {
  if (curve.empty()) return 1;
  const auto above = std::lower_bound(curve.begin(), curve.end(), x, [](const auto& point, double v) { return point.first < v; });
  if (above == curve.end()) return curve.back().second;
  if (above == curve.begin()) return above->second;
  const auto below = std::prev(above);
  return below->second + (above->second - below->second) * (x - below->first) / (above->first - below->first);
}

double FlowEfficiency::strided(double chunk, double stride) const {
  // Between two chunk sizes of the table the nearer one, in log2: the curves have steps, which a mean would smear.
  const auto distance = [chunk](const auto& entry) { return std::abs(std::log2(entry.first / chunk)); };
  const auto nearest =
      std::min_element(strides_.begin(), strides_.end(), [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  return at(nearest->second, std::log2(stride));
}

double FlowEfficiency::of(const DramRequest& request) const {
  const bool whole = request.chunk == 0 || (request.chunk >= request.length && request.address == kNextAddress && request.stride == 0);
  if (whole || (request.stride > 0 && request.stride <= request.chunk)) return 1;
  const auto chunk = static_cast<double>(request.chunk);
  const Bytes power = request.stride & (~request.stride + 1);
  if (request.stride > 0 && power > request.chunk && request.chunk <= kStridedChunks[2] && !strides_.empty()) {
    return strided(chunk, static_cast<double>(power));
  }
  return at(chunks_, std::log2(chunk));
}

double FlowEfficiency::of_readers(std::size_t agents) const { return agents <= 1 ? 1 : at(agents_, static_cast<double>(agents)); }
double FlowEfficiency::of_writes(double share) const { return share <= 0 ? 1 : at(writes_, share); }

FlowEfficiency derive_flow_efficiency(const DramPart& part, std::string_view mapping, const ControllerPolicy& policy) {
  const auto run = [&](const std::vector<DramAgent>& agents) {
    EventLoop loop;
    auto channels = std::make_unique<DramChannels>(loop, 1, part.timing, part.organisation, mapping, policy);
    DetailedDram dram({loop, "dram"}, std::move(channels), {});
    return probe(dram, loop, agents, kWarmUp, kWindow);
  };
  const double sequential = run({reader(0)}).gb_per_s;
  FlowEfficiency::Entries entries{{"sequential", sequential * 1e9}};
  const auto add = [&](std::string key, double gb_per_s) { entries.emplace_back(std::move(key), gb_per_s / sequential); };

  for (const Bytes chunk : kChunks) add(fmt::format("chunk.{}", chunk), run({reader(chunk)}).gb_per_s);
  for (const Bytes chunk : kStridedChunks) {
    for (Bytes stride = 2 * chunk; stride <= kMaxStride; stride *= 2)
      add(fmt::format("strided.{}/{}", chunk, stride), run({reader(chunk, stride)}).gb_per_s);
  }
  add("agents.1", sequential);
  for (const std::size_t count : kAgents) {
    double sum = 0;
    for (const Bytes range : kRanges) {
      // Every other one reads chunks, as cores do beside an NPU.
      std::vector<DramAgent> agents;
      for (std::size_t i = 0; i < count; ++i) agents.push_back(reader(i % 2 == 0 ? 0 : 4 * KiB));
      for (DramAgent& agent : agents) agent.range = range;
      sum += run(agents).gb_per_s;
    }
    add(fmt::format("agents.{}", count), sum / std::size(kRanges));
  }
  add("writes.0", sequential);
  const double chunked = run({reader(4 * KiB)}).gb_per_s;
  for (const double cap : kWriterCaps) {
    double share = 0, kept = 0;
    for (const Bytes range : kRanges) {
      for (const Bytes chunk : {Bytes{0}, 4 * KiB}) {
        std::vector<DramAgent> agents = {reader(chunk), reader(0)};
        agents[1].writes = 1;
        agents[1].cap = {cap * sequential * 1e9};
        for (DramAgent& agent : agents) agent.range = range;
        const DramProbeResult result = run(agents);
        share += result.agents[1].gb_per_s / result.gb_per_s;
        kept += result.gb_per_s / (chunk == 0 ? sequential : chunked);
      }
    }
    constexpr double kRuns = 2 * std::size(kRanges);
    add(fmt::format("writes.{:.3f}", share / kRuns), sequential * kept / kRuns);
  }
  DramAgent writer = reader(0);
  writer.writes = 1;
  add("writes.1", run({writer}).gb_per_s);
  return {entries, std::string(part.name)};
}

}  // namespace vitro::hw
