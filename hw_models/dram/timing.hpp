// What a DRAM part is: its organisation and its timing, in clock cycles of the command clock CK (WCK:CK = 4:1).
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/config.hpp"
#include "engine/base/units.hpp"

namespace vitro::hw {

using Cycle = std::int64_t;
inline constexpr Cycle kNever = std::int64_t{1} << 62;

// Of one channel; every count is a power of two. A line is what one burst moves: 16 beats of 16 bits.
struct DramOrganisation {
  std::uint32_t channels = 4, ranks = 1, groups = 4, banks = 4;  // banks per group
  std::uint32_t rows = 65536, columns = 1024;
  static constexpr Bytes kLine = 32;
  static constexpr std::uint32_t kColumnsPerLine = 16;

  std::uint32_t lines_per_row() const { return columns / kColumnsPerLine; }
  std::uint32_t banks_per_rank() const { return groups * banks; }
  std::uint32_t banks_per_channel() const { return ranks * banks_per_rank(); }
  Bytes capacity() const { return Bytes{channels} * banks_per_channel() * rows * lines_per_row() * kLine; }
};

// Names as in JESD209-5B, without their n. Activation is two commands (ACT-1, ACT-2) that lie at most `aad` apart; all
// distances count from ACT-1.
struct DramTiming {
  Picoseconds clock{1250};
  Cycle bl_min = 0, bl_max = 0, cl = 0, cwl = 0, rcd = 0, rp = 0, rpab = 0, ras = 0, rc = 0, wr = 0, rtp = 0, ppd = 0, ccds = 0, ccdl = 0,
        wtrs = 0, wtrl = 0, aad = 0, cs = 0, rrd = 0, faw = 0, refi = 0, refi_pb = 0, rfc_ab = 0, rfc_pb = 0, pbr2act = 0;

  Cycle read_latency() const { return cl + bl_min; }  // from RD to the last beat
  Cycle write_latency() const { return cwl + bl_min; }
  Cycle write_to_precharge() const { return cwl + bl_min + wr; }
  BytesPerSecond peak(const DramOrganisation& org) const {
    return {static_cast<double>(org.channels * DramOrganisation::kLine) / (static_cast<double>(bl_min) * to_seconds(clock))};
  }
};

// One row of the timing table: LPDDR5-6400 as public simulators cite JESD209-5B.
struct TimingRow {
  std::string_view key;
  Cycle DramTiming::* member;
  Picoseconds value;  // at 6400 MT/s
  bool in_clocks;     // a property of the burst or the command bus: the same number of clocks at every data rate
};
std::span<const TimingRow> timing_rows();

struct DramPart {
  std::string_view name;  // "lpddr5_6400"
  DramTiming timing;
  DramOrganisation organisation;
  Provenance kind;  // of the timing; `scaled` where no JEDEC-quoted set is public
  std::string_view source;

  // What lies between the part and its agents, when a line that finds another row open takes `latency` through it all.
  Picoseconds fabric(Picoseconds latency) const {
    return std::max(Picoseconds(0), latency - timing.clock * (timing.rp + timing.rcd + timing.read_latency() + 1));
  }
};
const std::vector<DramPart>& dram_parts();
const DramPart& dram_part(std::string_view name);  // Requires: it exists

}  // namespace vitro::hw
