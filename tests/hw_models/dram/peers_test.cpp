// The detailed DRAM against what Ramulator 2.1 gave for the same lines (docs/results/peers.md).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>

#include "hw_models/dram/channels.hpp"
#include "hw_models/dram/detailed.hpp"
#include "hw_models/event_loop.hpp"
#include "tests/effort.hpp"
#include "tests/source_path.hpp"

namespace vitro::hw {
namespace {

constexpr Bytes kLine = DramOrganisation::kLine, kRange = 256 * MiB;
constexpr BytesPerSecond kUnbounded{1e15};

const Node& child(const Node& node, std::string_view key) { return *node.find(key); }
double number_at(const Node& node, std::string_view key) { return std::stod(child(node, key).text()); }

std::uint64_t splitmix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// An agent of the record: the same lines in the same order as ramulator_driver.cpp sends, so many of them under way.
class Agent {
 public:
  Agent(DramModel& dram, EventLoop& loop, const Node& node, std::uint64_t number)
      : dram_(dram),
        loop_(loop),
        port_(dram.add_port({"agent", kUnbounded})),
        number_(number),
        random_(child(node, "kind").text() == "random"),
        chunk_(static_cast<Bytes>(number_at(node, "chunk"))),
        stride_(static_cast<Bytes>(number_at(node, "stride"))),
        outstanding_(static_cast<std::uint64_t>(number_at(node, "outstanding"))),
        writes_(number_at(node, "writes")) {}

  void begin() {
    for (std::uint64_t i = 0; i < outstanding_; ++i) submit();
  }
  void count(bool on) { counting_ = on; }
  std::uint64_t lines() const { return lines_; }

 private:
  void submit() {
    const std::uint64_t per_chunk = chunk_ / kLine, chunk = sent_ / per_chunk, offset = sent_ % per_chunk * kLine;
    const std::uint64_t base = number_ * 2 * kRange + splitmix(number_) % (kRange / kPageSize) * kPageSize;
    const std::uint64_t start = random_ ? splitmix(splitmix(number_) + chunk) % (kRange / chunk_) * chunk_ : chunk * stride_ % kRange;
    const auto writes_until = [&](std::uint64_t n) { return static_cast<std::uint64_t>(static_cast<double>(n) * writes_); };
    const bool write = writes_until(sent_ + 1) != writes_until(sent_);
    ++sent_;
    DramRequest request{port_, kLine, write ? kLine : 0};
    request.address = base + start + offset;
    dram_.submit(request, [this] {
      if (counting_) ++lines_;
      submit();
    });
  }

  DramModel& dram_;
  EventLoop& loop_;
  PortId port_;
  std::uint64_t number_;
  bool random_;
  Bytes chunk_, stride_;
  std::uint64_t outstanding_, sent_ = 0, lines_ = 0;
  double writes_;
  bool counting_ = false;
};

struct Found {
  double all = 0, latency_ns = 0;
  std::vector<double> agents;
};

Found run(const Node& pattern, Cycle warm_up, Cycle cycles) {
  const DramPart& part = dram_part("lpddr5_6400");
  DramOrganisation organisation = part.organisation;
  organisation.ranks = static_cast<std::uint32_t>(number_at(pattern, "ranks"));
  ControllerPolicy policy;
  const std::string refresh = child(pattern, "refresh").text();
  policy.refresh = refresh == "none" ? RefreshPolicy::none : refresh == "all_bank" ? RefreshPolicy::all_bank : RefreshPolicy::per_bank;
  EventLoop loop;
  auto memory = std::make_unique<DramChannels>(loop, 1, part.timing, organisation, child(pattern, "mapping").text(), policy);
  const DramChannels& channels = *memory;
  DetailedDram dram({loop, "dram"}, std::move(memory), {});
  std::vector<std::unique_ptr<Agent>> agents;
  for (const Node& agent : child(pattern, "agents").items()) agents.push_back(std::make_unique<Agent>(dram, loop, agent, agents.size()));
  for (const auto& agent : agents) agent->begin();
  loop.run_until(warm_up * part.timing.clock);
  for (const auto& agent : agents) agent->count(true);
  loop.run_until((warm_up + cycles) * part.timing.clock);
  Found found;
  for (const auto& agent : agents) {
    found.agents.push_back(static_cast<double>(agent->lines() * kLine) / to_seconds(cycles * part.timing.clock) * 1e-9);
    found.all += found.agents.back();
  }
  found.latency_ns = to_seconds(channels.mean_read_latency()) * 1e9;
  return found;
}

// How far a record may be missed. Where a writer competes, writes keep their queue from ever draining, and readers get what falls into
// single cycles between: a few lines more or less are much for them.
double tolerance(const Node& pattern) { return child(pattern, "name").text() == "stream and writer" ? 0.08 : 0.05; }

TEST(DramPeers, what_ramulator_gave_is_met_within_five_percent) {
  const Node record = load_yaml(test::source_path("experiments/validation/recorded/peers-dram.yaml"));
  const auto cycles = [&](const char* key) { return static_cast<Cycle>(number_at(record, key)); };
  const std::vector<Node>& patterns = child(record, "patterns").items();
  ASSERT_GE(patterns.size(), 50u);
  for (std::size_t i = 0; i < patterns.size(); i += test::all_or_few(1, 8)) {
    const Node& pattern = patterns[i];
    const std::string& name = child(pattern, "name").text();
    const Found found = run(pattern, cycles("warm_up"), cycles("cycles"));
    const auto met = [&](double ours, double theirs) { EXPECT_NEAR(ours, theirs, tolerance(pattern) * theirs) << name; };
    EXPECT_NEAR(found.all, number_at(pattern, "gb_per_s"), 0.05 * found.all) << name;
    met(found.latency_ns, number_at(pattern, "read_latency_ns"));
    const std::vector<Node>& agents = child(pattern, "agents_gb_per_s").items();
    ASSERT_EQ(found.agents.size(), agents.size());
    for (std::size_t agent = 0; agent < agents.size(); ++agent) met(found.agents[agent], std::stod(agents[agent].text()));
    // The rows of docs/results/peers.md: --gtest_output=json:FILE
    RecordProperty(fmt::format("row_{}", i), fmt::format("| {} | {:.2f} | {:.2f} | {:.1f} | {:.1f} |", name, number_at(pattern, "gb_per_s"),
                                                         found.all, number_at(pattern, "read_latency_ns"), found.latency_ns));
  }
}

}  // namespace
}  // namespace vitro::hw
