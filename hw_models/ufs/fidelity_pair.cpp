#include "hw_models/ufs/fidelity_pair.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "hw_models/ufs/figures.hpp"
#include "hw_models/ufs/probe.hpp"

namespace vitro::hw {
namespace {

constexpr Bytes kReadBlocks[] = {4 * KiB, 8 * KiB, 16 * KiB, 64 * KiB, 128 * KiB, 512 * KiB};
constexpr Bytes kRanges[] = {64 * MiB, 128 * MiB, 512 * MiB, 2 * GiB};
constexpr Bytes kWriteBlocks[] = {4 * KiB, 64 * KiB, 512 * KiB};
constexpr const char* kPublished = "published";

struct Issuers {
  const char* name;
  std::vector<Hertz> cores;
};

struct Case {
  std::string name;
  bool sequential, write;
  Bytes block;
};

// As many commands as show the steady state: large reads take many events each, writes have to fill the write memory.
StorageProbe probe_of(const Case& c, Bytes range, std::uint32_t depth, const std::vector<Hertz>& cores) {
  const std::uint64_t reads = 32 * MiB / c.block;
  const std::uint64_t warm_up = c.write ? 500 : std::clamp<std::uint64_t>(reads, 150, 300);
  const std::uint64_t counted = c.write ? 1000 : std::clamp<std::uint64_t>(reads, 100, 700);
  return {c.sequential, c.write, c.block, range, depth, cores, warm_up, counted};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool sequential : {true, false}) {
    for (const Bytes block : kReadBlocks) {
      all.push_back({fmt::format("{}_{}kib", sequential ? "sequential" : "random", block / KiB), sequential, false, block});
    }
  }
  for (const Bytes block : kWriteBlocks) all.push_back({fmt::format("write_{}kib", block / KiB), true, true, block});
  return all;
}

Node at_fidelity(const Node& storage, const char* fidelity) {
  Node node = storage;
  node.set("fidelity", Node::scalar(fidelity));
  return node;
}

}  // namespace

std::vector<std::string> storage_fidelity_cases() {
  std::vector<std::string> names;
  for (const Case& c : cases()) names.push_back(c.name);
  names.emplace_back(kPublished);
  return names;
}

std::vector<StorageFidelityRow> storage_fidelity(const Node& storage, std::string_view name) {
  const Node detailed = at_fidelity(storage, "detailed"), flow = at_fidelity(storage, "flow");
  std::vector<StorageFidelityRow> rows;
  if (name == kPublished) {
    for (const StorageFigure& figure : ufs4_figures()) {
      rows.push_back({std::string(figure.id), std::string(figure.unit), figure.measure(detailed), figure.measure(flow)});
    }
    return rows;
  }
  const std::vector<Case> all = cases();
  const auto found = std::find_if(all.begin(), all.end(), [name](const Case& c) { return c.name == name; });
  if (found == all.end()) throw ConfigError(fmt::format("ufs: there is no comparison \"{}\"", name));
  const auto add = [&](Bytes range, std::uint32_t depth, const Issuers& issuers) {
    const StorageProbe probe = probe_of(*found, range, depth, issuers.cores);
    rows.push_back({fmt::format("{}_range_{}mib_depth_{}_{}", name, range / MiB, depth, issuers.name), "GB/s",
                    run(detailed, probe).bytes_per_second * 1e-9, run(flow, probe).bytes_per_second * 1e-9});
  };
  if (found->write) {
    for (const std::uint32_t depth : {1u, 32u}) add(GiB, depth, {"mid", {kMidCore}});
    return rows;
  }
  for (const Bytes range : kRanges) {
    for (const std::uint32_t depth : {1u, 4u, 32u}) {
      for (const Issuers& issuers : {Issuers{"big", {kBigCore}}, {"little", {kLittleCore}}, {"big_and_mid", {kBigCore, kMidCore}}}) {
        add(range, depth, issuers);
      }
    }
  }
  return rows;
}

}  // namespace vitro::hw
