#include "hw_models/dram/efficiency.hpp"

#include <algorithm>
#include <cmath>

namespace vitro::hw {
namespace {

// Beyond this the order of banks is as good as random, whatever the stride (and the tables end).
constexpr Bytes kMaxStridedChunk = 4 * KiB;

std::vector<double> numbers(std::string_view text, const ParamTable& table, const std::string& key) {
  std::vector<double> result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('/'), text.size());
    double value = 0;
    if (!parse_quantity(text.substr(0, end), Dimension::none, value))
      table.fail(key, "has no number after the dot (expected for example chunk.4096)");
    result.push_back(value);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

Bytes power_of_two_in(Bytes n) { return n & (~n + 1); }

}  // namespace

FlowEfficiency::FlowEfficiency(const Entries& entries, const ParamTable& table) : entries_(entries) {
  const std::pair<std::string_view, double*> scalars[] = {{"sequential", &sequential_},
                                                          {"sequential_write", &sequential_write_},
                                                          {"strided_write", &strided_write_},
                                                          {"latency_random_ns", &latency_random_ns_},
                                                          {"latency_sequential_ns", &latency_sequential_ns_}};
  const std::tuple<std::string_view, Curve*, bool> curves[] = {
      {"chunk", &chunks_, true}, {"write_chunk", &write_chunks_, true}, {"queued", &queued_, false}};
  for (const auto& [key, value] : entries) {
    if (value <= 0) table.fail(key, "is 0 (expected more)");
    const std::size_t dot = std::min(key.find('.'), key.size());
    const std::string_view kind = std::string_view(key).substr(0, dot);
    const std::vector<double> x = numbers(std::string_view(key).substr(std::min(dot + 1, key.size())), table, key);
    const auto scalar = std::find_if(std::begin(scalars), std::end(scalars), [&](const auto& s) { return s.first == kind; });
    const auto curve = std::find_if(std::begin(curves), std::end(curves), [&](const auto& c) { return std::get<0>(c) == kind; });
    if (scalar != std::end(scalars) && x.empty()) {
      *scalar->second = value;
    } else if (curve != std::end(curves) && x.size() == 1) {
      std::get<1>(*curve)->emplace_back(std::get<2>(*curve) ? std::log2(x[0]) : x[0], value);
    } else if (x.size() == 2 && ((kind == "agents" && x[0] >= 2) || ((kind == "turns" || kind == "copies") && x[0] >= 1))) {
      Curves& counts = kind == "agents" ? agents_ : kind == "turns" ? turns_ : copies_;
      if (counts.empty() || counts.back().first != x[0]) counts.push_back({x[0], {{0, 1}}});
      counts.back().second.emplace_back(x[1], value);
    } else if (kind == "strided" && x.size() == 2 && x[0] >= 1 && x[1] >= 1) {
      Curves& strides = power_of_two_in(static_cast<Bytes>(x[1])) > static_cast<Bytes>(x[0]) ? even_ : uneven_;
      if (strides.empty() || strides.back().first != x[0]) strides.push_back({x[0], {}});
      strides.back().second.emplace_back(std::log2(x[1]), value);
    } else {
      table.fail(key,
                 "is not known (expected sequential, sequential_write, strided_write, chunk.BYTES, write_chunk.BYTES, "
                 "strided.CHUNK/STRIDE, agents.COUNT/REOPENED, turns.READERS/SHARE, copies.READERS/SHARE, queued.LOAD, latency_random_ns, "
                 "latency_sequential_ns)");
    }
  }
  for (const auto& entry : curves) std::sort(std::get<1>(entry)->begin(), std::get<1>(entry)->end());
  for (Curves* curves : {&agents_, &turns_, &copies_, &even_, &uneven_}) {
    std::sort(curves->begin(), curves->end());
    for (auto& [x, curve] : *curves) std::sort(curve.begin(), curve.end());
  }
  for (const auto& [count, curve] : agents_) {
    for (const auto& [share, kept] : curve) worst_crowd_ = std::max(worst_crowd_, 1 / kept);
  }
  for (const Curves* turns : {&turns_, &copies_}) {
    for (const auto& [readers, curve] : *turns) {
      for (const auto& [share, kept] : curve) worst_turns_.emplace_back(share, 1);
    }
  }
  std::sort(worst_turns_.begin(), worst_turns_.end());
  worst_turns_.erase(std::unique(worst_turns_.begin(), worst_turns_.end()), worst_turns_.end());
  double worst = 1;
  for (auto& [share, cost] : worst_turns_) {
    for (const Curves* turns : {&turns_, &copies_}) {
      for (const auto& [readers, curve] : *turns) worst = std::max(worst, 1 / at(curve, share));
    }
    cost = worst;
  }
  for (const auto& [load, factor] : queued_) worst_queue_ = std::max(worst_queue_, factor);
}

double FlowEfficiency::sustained_at_least(double slowest, double written, bool crowds) const {
  std::size_t i = 0;
  while (i + 1 < worst_turns_.size() && worst_turns_[i].first < written) ++i;
  const double turning = worst_turns_.empty() ? 1 : worst_turns_[i].second;
  return sequential_ / (std::max(crowds ? worst_crowd_ : 1, 1 + worst_queue_ * (slowest - 1)) + turning - 1);
}

double FlowEfficiency::at(const Curve& curve, double x) {
  if (curve.empty()) return 1;
  const auto above = std::lower_bound(curve.begin(), curve.end(), x, [](const auto& point, double v) { return point.first < v; });
  if (above == curve.end()) return curve.back().second;
  if (above == curve.begin()) return above->second;
  const auto below = std::prev(above);
  return below->second + (above->second - below->second) * (x - below->first) / (above->first - below->first);
}

double FlowEfficiency::at(const Curves& curves, double chunk, double stride) {
  // Between two chunk sizes of the table the nearer one, in log2: the curves have steps, which a mean would smear.
  const auto distance = [chunk](const auto& entry) { return std::abs(std::log2(entry.first / chunk)); };
  const auto nearest =
      std::min_element(curves.begin(), curves.end(), [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  return at(nearest->second, std::log2(stride));
}

double FlowEfficiency::of_pattern(const DramRequest& request, const Curve& chunks, double sequential, double strided) const {
  const bool whole = request.chunk == 0 || (request.chunk >= request.length && request.address == kNextAddress && request.stride == 0);
  if (whole || (request.stride > 0 && request.stride <= request.chunk)) return sequential;
  const auto chunk = static_cast<double>(request.chunk);
  if (request.stride > 0 && request.chunk <= kMaxStridedChunk) {
    // Of an even stride only the power of two in it matters: it says which bits of the address stand still.
    const Bytes power = power_of_two_in(request.stride);
    if (power > request.chunk && !even_.empty()) return strided * at(even_, chunk, static_cast<double>(power));
    if (power <= request.chunk && !uneven_.empty()) return strided * at(uneven_, chunk, static_cast<double>(request.stride));
  }
  return at(chunks, std::log2(chunk));
}

double FlowEfficiency::of_reads(const DramRequest& request) const { return of_pattern(request, chunks_, 1, 1); }
double FlowEfficiency::of_writes(const DramRequest& request) const {
  return of_pattern(request, write_chunks_.empty() ? chunks_ : write_chunks_, sequential_write_, strided_write_);
}

std::optional<Picoseconds> FlowEfficiency::latency(const DramRequest& request) const {
  const double ns = request.chunk == 0 ? latency_sequential_ns_ : latency_random_ns_;
  if (ns == 0) return std::nullopt;
  return from_seconds(ns * 1e-9);
}

double FlowEfficiency::reopened(std::span<const double> rates) {
  double largest = 0, sum = 0, kept = 1;
  std::size_t first = 0;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (rates[i] > largest) first = i;
    largest = std::max(largest, rates[i]);
    sum += rates[i];
  }
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (i != first) kept *= 1 - rates[i] / largest;
  }
  return sum > 0 ? 1 - kept * largest / sum : 0;
}

double FlowEfficiency::between_counts(const Curves& curves, std::size_t count, double x) {
  const auto n = static_cast<double>(count);
  const auto above = std::lower_bound(curves.begin(), curves.end(), n, [](const auto& curve, double v) { return curve.first < v; });
  if (above == curves.end()) return at(curves.back().second, x);
  const double more = at(above->second, x);
  if (above == curves.begin()) return more;
  const auto below = std::prev(above);
  return std::lerp(at(below->second, x), more, (n - below->first) / (above->first - below->first));
}

std::vector<double> FlowEfficiency::rates_of_readers(std::span<const Use> uses) {
  std::vector<double> rates;
  for (std::size_t i = 0; i < uses.size();) {
    double rate = 0;
    const std::size_t agent = uses[i].agent;
    for (; i < uses.size() && uses[i].agent == agent; ++i) rate += uses[i].rate * (1 - uses[i].written);
    if (rate > 0) rates.push_back(rate);
  }
  return rates;
}

// What streams keep beside one another, by their number and by how often they find a row closed: as long as few rows have to be
// opened again, that hides behind the transfers of others.
double FlowEfficiency::crowd(std::span<const double> rates) const {
  return agents_.empty() || rates.size() < 2 ? 1 : between_counts(agents_, rates.size(), reopened(rates));
}

// What is kept of the time that readers and writes take without each other. A request that reads and writes is held up in its reads
// by its own writes, so it costs more than writes that somebody else drains; where both are, in proportion.
double FlowEfficiency::turned(std::size_t readers, double written, double copied) const {
  if (turns_.empty()) return 1;
  const double by_writers = between_counts(turns_, readers, written);
  return copies_.empty() || copied == 0 ? by_writers : std::lerp(by_writers, between_counts(copies_, readers, written), copied);
}

// The time that these uses take: every byte its time on the bus; beyond that what is lost to rows that have to be opened and to
// turning the bus around. Opening the rows of small chunks hides behind the transfers of others until the lines that wait for
// a row fill the queues (`queued`, by the share of time for which such lines keep memory busy); what streams do to each other
// does not hide.
double FlowEfficiency::sustained(std::span<const Use> uses, bool crowds) const {
  double bytes = 0, written = 0, copied = 0, alone = 0, waiting = 0, worst = 1;
  for (const Use& use : uses) {
    bytes += use.rate;
    if (use.plain) {  // all else adds nothing
      alone += use.rate;
      continue;
    }
    written += use.rate * use.written;
    if (use.written < 1) copied += use.rate * use.written;
    alone += use.rate * use.own;
    waiting += use.rate * use.own * std::max(0.0, use.own - 1);
    worst = std::max(worst, use.own);
  }
  const double queued = queued_.empty() || worst == 1 ? 1 : at(queued_, waiting / (worst - 1) / alone);
  const std::vector<double> rates = crowds ? rates_of_readers(uses) : std::vector<double>{};
  const double crowded = 1 / crowd(rates), plain = std::max(crowded, 1.0);
  double time = 0;
  for (const Use& use : uses) {
    if (use.plain) {
      time += use.rate * plain;
      continue;
    }
    const double reads = std::max(crowded, 1 + queued * use.read_wait), writes = 1 + queued * use.write_wait;
    time += use.rate * ((1 - use.written) * reads + use.written * writes);
  }
  if (written > 0) time += bytes * (1 / turned(rates.size(), written / bytes, copied / written) - 1);
  return sequential_ * bytes / time;
}

}  // namespace vitro::hw
