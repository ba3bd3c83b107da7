#include "hw_models/ufs/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace vitro::hw {
namespace {

constexpr ParamSpec kCommon[] = {
    {"queue_depth", Dimension::none, "32", "UFS 3.1 and 4.0: 32 slots of one queue"},
    {"queues", Dimension::none, "1", "one command queue (PowerInfer-2 2.3.2)"},
    {"max_transfer", Dimension::bytes, "512 KiB", "one command of the usual driver limits"},
    {"issue_cycles", Dimension::none, "", ""},   // of the issuing core, per command: submission and completion
    {"issue_fixed", Dimension::time, "", ""},    // of the same, independent of its clock
    {"issuer_switch", Dimension::time, "", ""},  // serial time per command while cores share a queue
    {"command_overhead", Dimension::time, "1 us", "the controller's serial work for one command, order of magnitude"},
    {"controller_cores", Dimension::none, "1", "commands that the controller works on at a time"},
    {"map_cache_reach", Dimension::bytes, "", ""},  // address space whose map the controller holds
    {"map_fetches", Dimension::none, "1", "map pages that are fetched at a time"},
    {"link_bandwidth", Dimension::bandwidth, "", ""},  // flow: of the transfers; both: of the port to DRAM
    {"slc_buffer", Dimension::bytes, "16 GB", "vendors' turbo write buffers are some tens of GB; not read from this part"},
    {"rated_writes", Dimension::bytes, "0 B", "no figure"},  // of the host, over the device's life; 0: not rated
};

constexpr ParamSpec kFlow[] = {
    {"latency_sequential", Dimension::time, "", ""},  // of a command whose data was read ahead
    {"latency_random", Dimension::time, "", ""},
    {"transfer_overhead", Dimension::time, "0 us", "commands are handled while data of others cross the link"},
    {"latency_write", Dimension::time, "20 us", "into the device's write memory, order of magnitude"},
    {"map_cache_miss", Dimension::time, "", ""},                                                                   // one fetch alone
    {"media_time", Dimension::time, "0 us", "flash that is never the bottleneck of random reads"},                 // a die's, for 4 KiB
    {"media_bandwidth", Dimension::bandwidth, "1000 GB/s", "flash that is never the bottleneck of random reads"},  // a channel's
    {"media_channels", Dimension::none, "2", "channels of the detailed model"},
    {"media_dies", Dimension::none, "16", "dies of the detailed model, all channels"},
    {"media_unit", Dimension::bytes, "64 KiB", "four planes of 16 KiB"},  // what one operation of a die reads at most
    {"write_bandwidth", Dimension::bandwidth, "", ""},                    // while the SLC buffer has room
    {"write_bandwidth_sustained", Dimension::bandwidth, "1 GB/s", "TLC programming, order of magnitude"},
    {"write_memory", Dimension::bytes, "0 B", "writes go at the pace of the flash"},
    {"fold_bandwidth", Dimension::bandwidth, "500 MB/s", "emptying the SLC buffer when the host is quiet, order of magnitude"},
    {"completions", Dimension::none, "each", "a UFS controller completes each command", "each|together"},
};

constexpr ParamSpec kDetailed[] = {
    {"lanes", Dimension::none, "2", "UFS 3.1 and 4.0"},
    {"lane_rate", Dimension::bandwidth, "2.915 GB/s", "HS-G5 rate B, 23.32 Gb/s"},
    {"line_code", Dimension::ratio, "80%", "8b/10b"},
    {"protocol_efficiency", Dimension::ratio, "90%", "what framing and flow control leave for data, order of magnitude"},
    {"command_latency", Dimension::time, "3 us", "a command's way in and its response's way out, order of magnitude"},
    {"channels", Dimension::none, "2", "two channels in a thin package"},
    {"dies_per_channel", Dimension::none, "8", "eight stacked dies on each"},
    {"planes", Dimension::none, "4", "current dies"},
    {"page", Dimension::bytes, "16 KiB", "current dies"},
    {"pages_per_block", Dimension::none, "256", "order of magnitude"},
    {"read_time", Dimension::time, "45 us", "tR; public simulator configurations have 25 to 75 us"},
    {"program_time", Dimension::time, "640 us", "tPROG of TLC per page; public simulator configurations have 185 to 1900 us"},
    {"slc_program_time", Dimension::time, "350 us", "tPROG with one bit per cell; public simulator configurations have 185 to 1900 us"},
    {"erase_time", Dimension::time, "5 ms", "order of magnitude"},
    {"channel_rate", Dimension::bandwidth, "3.6 GB/s", "Toggle and ONFI interfaces of 3.6 GT/s, 8 bits wide"},
    {"read_ahead", Dimension::bytes, "1 MiB", "of each stream; order of magnitude"},
    {"read_streams", Dimension::none, "8", "order of magnitude"},
    {"retry_probability", Dimension::ratio, "0.2%", "reads that have to be sensed again, order of magnitude"},
    {"retry_time", Dimension::time, "60 us", "order of magnitude"},
    {"flash_capacity", Dimension::bytes, "256 GB", "a usual size"},
    {"filled", Dimension::ratio, "50%", "half of it holds data"},
    {"overprovision", Dimension::ratio, "7%", "the difference of GB and GiB"},
    {"write_memory", Dimension::bytes, "8 MiB", "order of magnitude"},
    {"fold_delay", Dimension::time, "1 ms", "quiet time before folding starts, order of magnitude"},
};

constexpr std::string_view zero_of(Dimension dimension) {
  switch (dimension) {
    case Dimension::time:
      return "0 us";
    case Dimension::bytes:
      return "0 B";
    case Dimension::bandwidth:
      return "0 GB/s";
    case Dimension::ratio:
      return "0%";
    default:
      return "0";
  }
}

template <std::size_t N, std::size_t M>
std::vector<ParamSpec> join(const ParamSpec (&own)[N], const ParamSpec (&foreign)[M]) {
  std::vector<ParamSpec> specs(std::begin(kCommon), std::end(kCommon));
  specs.insert(specs.end(), std::begin(own), std::end(own));
  for (const ParamSpec& spec : foreign) {
    if (std::ranges::any_of(own, [&](const ParamSpec& mine) { return mine.key == spec.key; })) continue;
    specs.push_back(spec.choices.empty() ? ParamSpec{spec.key, spec.dimension, zero_of(spec.dimension), "read at the other fidelity"}
                                         : spec);
  }
  return specs;
}

}  // namespace

std::vector<ParamSpec> flow_ufs_params() { return join(kFlow, kDetailed); }
std::vector<ParamSpec> detailed_ufs_params() { return join(kDetailed, kFlow); }

std::uint32_t count(const Params& params, std::string_view key) {
  const double value = params.number(key);
  if (value < 1 || value > 65536 || value != static_cast<std::uint32_t>(value)) {
    params.fail(key, fmt::format("{} is not a count (expected a whole number from 1 to 65536)", value));
  }
  return static_cast<std::uint32_t>(value);
}

BytesPerSecond rate(const Params& params, std::string_view key) {
  const BytesPerSecond value = params.bandwidth(key);
  if (!(value.value > 0)) params.fail(key, "0 (expected more)");
  return value;
}

}  // namespace vitro::hw
