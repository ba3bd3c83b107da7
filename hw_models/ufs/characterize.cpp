#include "hw_models/ufs/characterize.hpp"

#include <fmt/format.h>

#include "hw_models/ufs/detailed.hpp"
#include "hw_models/ufs/parameters.hpp"
#include "hw_models/ufs/probe.hpp"

namespace vitro::hw {
namespace {

using Changes = std::vector<std::pair<std::string_view, std::string_view>>;

constexpr Hertz kClock{3e9};
// A host that issues for nothing, so that the flash is the bottleneck.
const Changes kFreeHost{{"issue_cycles", "0"}, {"issue_fixed", "0 us"}, {"issuer_switch", "0 us"}, {"command_overhead", "0 us"}};
const Changes kWholeMap{{"map_cache_reach", "100000 GB"}};

class DetailedProbe {
 public:
  explicit DetailedProbe(const Node& storage) : storage_(storage), params_(read_params()) {
    storage_.set("fidelity", Node::scalar("detailed"));
  }

  const Params& params() const { return *params_; }

  Node changed(const Changes& changes) const {
    Node node = storage_;
    for (const auto& [key, value] : changes) node.set(key, Node::scalar(std::string(value)));
    return node;
  }

  // Seconds per command.
  double time(StorageProbe probe, const Changes& changes = {}) const {
    probe.cores = {kClock};
    return 1 / run(changed(changes), probe).commands_per_second;
  }
  // One at a time; what its core and the controller did for it is taken off.
  double latency(bool sequential, bool write, Bytes block, const Changes& changes = {}) const {
    const double issue = to_seconds(params_->time("issue_fixed")) + params_->number("issue_cycles") / kClock.value;
    StorageProbe probe{sequential, write, block, 128 * MiB, 1};
    if (sequential) probe.warm_up = 512, probe.commands = 2048;  // whole laps of the range for the largest blocks
    return time(probe, changes) - issue - to_seconds(params_->time("command_overhead"));
  }

  // From the end of the last write to the end of the last erase. Requires: an SLC buffer.
  double fold_rate() const {
    StorageBench bench(storage_);
    StorageProbe probe{true, true, 512 * KiB, GiB, 32, {kClock}, 1};
    probe.block = std::min<Bytes>(probe.block, bench.model().limits().max_transfer);
    probe.commands = GiB / probe.block;
    run(bench.model(), bench.loop(), probe);
    const Picoseconds begin = bench.loop().now() + params_->time("fold_delay");
    while (!bench.loop().empty()) bench.loop().step();
    const auto& detailed = dynamic_cast<const DetailedUfs&>(bench.model());
    return static_cast<double>(detailed.write_totals().folded * kPageSize) / to_seconds(bench.loop().now() - begin);
  }

 private:
  std::unique_ptr<Params> read_params() const {
    Reader reader(storage_, "ufs");
    reader.ignore("model");
    reader.ignore("fidelity");
    return std::make_unique<Params>(reader, detailed_ufs_params());
  }

  Node storage_;
  std::unique_ptr<Params> params_;
};

std::string microseconds(double seconds) { return fmt::format("{:.3f} us", seconds * 1e6); }
std::string gigabytes(double bytes_per_second) { return fmt::format("{:.3f} GB/s", bytes_per_second * 1e-9); }

}  // namespace

std::vector<DerivedParameter> derive_flow_parameters(const Node& storage) {
  const DetailedProbe detailed(storage);
  const Params& params = detailed.params();
  const Bytes large = params.bytes("max_transfer"), half = large / 2;
  const double link = static_cast<double>(large - half) / (detailed.latency(true, false, large) - detailed.latency(true, false, half));
  const double transfer = static_cast<double>(kPageSize) / link;
  const double random = detailed.latency(false, false, kPageSize, kWholeMap) - transfer;
  const double unmapped = detailed.latency(false, false, kPageSize, {{"map_cache_reach", "0 B"}});

  // All reads on the first die; its stripe is small, so read-ahead would take it for streams.
  const Bytes unit = static_cast<Bytes>(params.number("planes")) * params.bytes("page");
  Changes one_die = kFreeHost;
  one_die.insert(one_die.end(), {{"map_cache_reach", "100000 GB"}, {"read_ahead", "0 B"}});
  const double die_page = detailed.time({false, false, kPageSize, unit, 32}, one_die);
  const double die_unit = detailed.time({false, false, unit, unit, 32}, one_die);
  const double crossing = static_cast<double>(unit - kPageSize) / (die_unit - die_page);

  const StorageProbe stream{true, true, large, 2 * GiB, 32, {kClock}, 1000, 1000};
  const double fast = static_cast<double>(large) / detailed.time(stream, {{"slc_buffer", "10 GB"}});
  const double slow = static_cast<double>(large) / detailed.time(stream, {{"slc_buffer", "0 B"}});
  const bool buffered = params.bytes("slc_buffer") > 0;

  std::vector<DerivedParameter> derived{
      {"link_bandwidth", gigabytes(link), "sequential reads one at a time, slope between the two largest blocks"},
      {"latency_sequential", microseconds(detailed.latency(true, false, kPageSize) - transfer), "4 KiB sequential reads one at a time"},
      {"latency_random", microseconds(random), "4 KiB random reads one at a time, all mapped"},
      {"latency_write", microseconds(detailed.latency(true, true, kPageSize) - transfer), "4 KiB writes one at a time"},
      {"map_cache_miss", microseconds(unmapped - to_seconds(params.time("command_overhead")) - transfer - random),
       "4 KiB random reads one at a time, none mapped"},
      {"media_time", microseconds(die_page), "4 KiB reads on one die with a full queue"},
      {"media_bandwidth", gigabytes(crossing), "reads on one die with a full queue, slope from 4 KiB to one page of each plane"},
      {"media_channels", fmt::format("{}", params.number("channels")), "channels"},
      {"media_dies", fmt::format("{}", params.number("channels") * params.number("dies_per_channel")), "channels times dies of each"},
      {"media_unit", fmt::format("{} KiB", unit / KiB), "one page of each plane of a die"},
      {"write_bandwidth", gigabytes(buffered ? fast : slow), "sequential writes with a full queue into the SLC buffer"},
      {"write_bandwidth_sustained", gigabytes(slow), "the same without an SLC buffer"},
  };
  if (buffered)
    derived.push_back({"fold_bandwidth", gigabytes(detailed.fold_rate()), "time to empty the SLC buffer after 1 GiB of writes"});
  return derived;
}

}  // namespace vitro::hw
