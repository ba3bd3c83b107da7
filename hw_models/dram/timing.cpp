#include "hw_models/dram/timing.hpp"

#include <algorithm>

#include "engine/base/check.hpp"

namespace vitro::hw {
namespace {

constexpr Picoseconds kBaseClock{1250};
constexpr Picoseconds clocks(std::int64_t n) { return n * kBaseClock; }
constexpr Picoseconds ns(double n) { return Picoseconds(static_cast<std::int64_t>(n * 1000)); }

constexpr TimingRow kRows[] = {
    {"nBL_min", &DramTiming::bl_min, clocks(2), true},  {"nBL_max", &DramTiming::bl_max, clocks(4), true},
    {"nCCDS", &DramTiming::ccds, clocks(2), true},      {"nCCDL", &DramTiming::ccdl, clocks(4), true},
    {"nPPD", &DramTiming::ppd, clocks(2), true},        {"nAAD", &DramTiming::aad, clocks(8), true},
    {"nCS", &DramTiming::cs, clocks(2), true},          {"nCL", &DramTiming::cl, clocks(17), false},
    {"nCWL", &DramTiming::cwl, clocks(9), false},       {"nRCD", &DramTiming::rcd, clocks(15), false},
    {"nRP", &DramTiming::rp, clocks(15), false},        {"nRPab", &DramTiming::rpab, clocks(17), false},
    {"nRAS", &DramTiming::ras, clocks(34), false},      {"nRC", &DramTiming::rc, clocks(49), false},
    {"nWR", &DramTiming::wr, clocks(28), false},        {"nRTP", &DramTiming::rtp, clocks(8), false},
    {"nWTRS", &DramTiming::wtrs, clocks(5), false},     {"nWTRL", &DramTiming::wtrl, clocks(10), false},
    {"tRRD", &DramTiming::rrd, ns(5), false},           {"tFAW", &DramTiming::faw, ns(20), false},
    {"tREFI", &DramTiming::refi, ns(3906), false},      {"tREFIpb", &DramTiming::refi_pb, ns(488), false},
    {"tRFCab", &DramTiming::rfc_ab, ns(280), false},    {"tRFCpb", &DramTiming::rfc_pb, ns(140), false},
    {"tpbR2act", &DramTiming::pbr2act, ns(7.5), false},
};

// Times stay, clocks shrink: the array is as fast as before, only its interface is not. The clock is rounded up to whole
// picoseconds, so that no part is faster than its data rate.
DramTiming at_rate(std::int64_t megatransfers) {
  DramTiming timing;
  timing.clock = Picoseconds((8'000'000 + megatransfers - 1) / megatransfers);
  for (const TimingRow& row : kRows) {
    const Picoseconds unit = row.in_clocks ? kBaseClock : timing.clock;
    timing.*row.member = (row.value + unit - Picoseconds(1)) / unit;
  }
  return timing;
}

constexpr std::string_view kJedec = "JESD209-5B as cited by public simulator configurations, 16 Gb x16 die";
constexpr std::string_view kScaled = "times of LPDDR5-6400 kept, clocks scaled: no JEDEC-quoted set is public";

}  // namespace

std::span<const TimingRow> timing_rows() { return kRows; }

const std::vector<DramPart>& dram_parts() {
  static const std::vector<DramPart> parts = {
      {"lpddr5_6400", at_rate(6400), {}, Provenance::spec, kJedec},
      {"lpddr5x_8533", at_rate(8533), {}, Provenance::scaled, kScaled},
      {"lpddr5x_9600", at_rate(9600), {}, Provenance::scaled, kScaled},
      // Apple M2: LPDDR5-6400 on a 128-bit bus, 102.4 GB/s.
      {"m2_lpddr5_6400", at_rate(6400), {.channels = 8}, Provenance::scaled, "LPDDR5-6400 timing; eight x16 channels for the 128-bit bus"},
  };
  return parts;
}

const DramPart& dram_part(std::string_view name) {
  const auto& parts = dram_parts();
  const auto found = std::find_if(parts.begin(), parts.end(), [name](const DramPart& part) { return part.name == name; });
  VITRO_CHECK(found != parts.end(), "no such DRAM part");
  return *found;
}

}  // namespace vitro::hw
