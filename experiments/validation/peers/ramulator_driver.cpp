// Drives Ramulator 2.1 (github.com/CMU-SAFARI/ramulator2) with the agents of recorded/peers-dram.yaml. Built outside the tree, against a
// checkout of it (ramulator.py says how); nothing here is part of vitro's build.
//
//   ramulator_driver CONFIG MAPPING WARM_UP CYCLES AGENT...
//
// MAPPING: `own` where Ramulator maps addresses itself; else the mapping that this file applies before its pass-through mappers.
// AGENT: kind,chunk,stride,outstanding,writes (bytes, bytes, lines, share of the lines).
// Prints GB/s of each agent, GB/s of all, and the mean read latency in ns from the controller's queue to the last beat.
//
// Agents keep lines of 32 bytes outstanding, send in order, and take turns: whoever was served least goes first, and a refused line blocks
// its agent alone. A write is over for its agent when its beats would be on the bus had it been issued at once (posted writes).
#include <ramulator/base/config.h>
#include <ramulator/base/factory.h>
#include <ramulator/base/request.h>
#include <ramulator/frontend/i_frontend.h>
#include <ramulator/memory_system/i_memory_system.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t kLine = 32, kRange = 256ull << 20;
constexpr double kClock = 1.25;  // ns
constexpr long kWriteLatency = 11;  // nCWL + nBL_min

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

struct Agent {
  std::string kind;
  std::uint64_t number = 0, chunk = 0, stride = 0, outstanding = 0, sent = 0, under_way = 0, counted = 0;
  double writes = 0, served = 0;
  bool had_work = false;

  std::uint64_t address() const {
    const std::uint64_t lines = chunk / kLine, c = sent / lines, offset = sent % lines * kLine;
    const std::uint64_t base = number * 2 * kRange + mix(number) % (kRange / 4096) * 4096;
    if (kind == "random") return base + mix(mix(number) + c) % (kRange / chunk) * chunk + offset;
    return base + c * stride % kRange + offset;
  }
  bool write() const {
    const auto until = [this](std::uint64_t n) { return static_cast<std::uint64_t>(static_cast<double>(n) * writes); };
    return until(sent + 1) != until(sent);
  }
};

// Levels of Ramulator's LPDDR5: channel, rank, bank group, bank, row, column; its column is a line of the row.
std::vector<int> place(const std::string& mapping, std::uint64_t address, int rank_bits) {
  std::uint64_t rest = address / kLine;
  const auto take = [&](int bits) {
    const auto value = static_cast<int>(rest & ((1ull << bits) - 1));
    rest >>= bits;
    return value;
  };
  int channel = 0, rank = 0, group = 0, bank = 0, row = 0, column = 0;
  if (mapping == "mop4") {
    channel = take(2), column = take(2), rank = take(rank_bits), group = take(2), bank = take(2), column |= take(4) << 2, row = take(16);
    group ^= row & 3, bank ^= row >> 2 & 3;
  } else if (mapping == "rocobarach") {
    channel = take(2), rank = take(rank_bits), group = take(2), bank = take(2), column = take(6), row = take(16);
  } else if (mapping == "chrabaroco") {
    column = take(6), row = take(16), group = take(2), bank = take(2), rank = take(rank_bits), channel = take(2);
  } else {
    std::fprintf(stderr, "unknown mapping %s\n", mapping.c_str());
    std::exit(2);
  }
  return {channel, rank, group, bank, row, column};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const auto config = Ramulator::Config::parse_config_file(argv[1]);
  std::string mapping = argv[2];
  int rank_bits = 0;
  if (mapping.ends_with("/2")) rank_bits = 1, mapping.resize(mapping.size() - 2);
  const long warm_up = std::atol(argv[3]), cycles = std::atol(argv[4]);
  auto* frontend = Ramulator::Factory::create_frontend(config);
  auto* memory = Ramulator::Factory::create_memory_system(config);
  frontend->connect_memory_system(memory);
  memory->connect_frontend(frontend);

  std::vector<Agent> agents;
  for (int i = 5; i < argc; ++i) {
    std::stringstream text(argv[i]);
    std::string chunk, stride, outstanding, writes;
    Agent agent;
    std::getline(text, agent.kind, ','), std::getline(text, chunk, ','), std::getline(text, stride, ',');
    std::getline(text, outstanding, ','), std::getline(text, writes, ',');
    agent.number = agents.size(), agent.chunk = std::stoull(chunk), agent.stride = std::stoull(stride);
    agent.outstanding = std::stoull(outstanding), agent.writes = std::stod(writes);
    agents.push_back(agent);
  }

  long now = 0, read_cycles = 0, reads = 0;
  std::deque<std::pair<long, std::size_t>> posted;
  const auto finished = [&](std::size_t number) {
    --agents[number].under_way;
    if (now > warm_up && now <= warm_up + cycles) ++agents[number].counted;
  };
  const auto try_send = [&](Agent& agent) {
    const bool write = agent.write();
    const std::size_t number = agent.number;
    const auto done = [&, number, sent_at = now](Ramulator::Request& served) {
      if (served.type_id != 0) return;
      read_cycles += now - sent_at, ++reads;
      finished(number);
    };
    Ramulator::Request request(static_cast<Ramulator::Addr_t>(agent.address()), write ? 1 : 0, 0, done);
    request.size_bytes = kLine;
    if (mapping != "own") request.addr_vec = place(mapping, agent.address(), rank_bits);
    if (!memory->send(request)) return false;
    if (write) posted.emplace_back(now + kWriteLatency, number);
    ++agent.sent, ++agent.under_way, ++agent.served;
    return true;
  };
  for (; now <= warm_up + cycles; ++now) {
    memory->tick();
    while (!posted.empty() && posted.front().first <= now) {
      finished(posted.front().second);
      posted.pop_front();
    }
    std::vector<bool> refused(agents.size(), false);
    for (Agent& agent : agents) {
      const bool has_work = agent.under_way < agent.outstanding;
      if (has_work && !agent.had_work) {  // whoever was idle has saved up nothing
        double least = std::numeric_limits<double>::infinity();
        for (const Agent& other : agents) {
          if (&other != &agent && other.under_way < other.outstanding) least = std::min(least, other.served);
        }
        if (least < std::numeric_limits<double>::infinity()) agent.served = std::max(agent.served, least);
      }
      agent.had_work = has_work;
    }
    for (;;) {
      Agent* best = nullptr;
      for (Agent& agent : agents) {
        if (refused[agent.number] || agent.under_way >= agent.outstanding) continue;
        if (best == nullptr || agent.served < best->served) best = &agent;
      }
      if (best == nullptr) break;
      if (!try_send(*best)) refused[best->number] = true;
    }
    for (Agent& agent : agents) agent.had_work = agent.under_way < agent.outstanding;
  }
  double all = 0;
  for (const Agent& agent : agents) {
    const double rate = static_cast<double>(agent.counted * kLine) / (static_cast<double>(cycles) * kClock);
    all += rate;
    std::printf("%.4f ", rate);
  }
  std::printf("%.4f %.3f\n", all, reads == 0 ? 0.0 : static_cast<double>(read_cycles) / static_cast<double>(reads) * kClock);
  return 0;
}
