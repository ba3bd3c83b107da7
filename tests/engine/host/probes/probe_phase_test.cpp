#include "engine/host/probes/probe_phase.hpp"

#include <gtest/gtest.h>

#include "engine/host/host_machine.hpp"
#include "engine/host/probes/probe_calls.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/ops/variants.hpp"

namespace vitro {
namespace {

class ProbePhase : public testing::Test {
 protected:
  ProbePhase() {
    HostOptions options;
    options.units = 2;
    options.share_cores = true;
    host_ = make_host_machine(options, function_, trace_);
  }
  static PhasePart part(std::uint32_t rows, std::vector<std::size_t> units, std::uint32_t copies = 1) {
    PhasePart part;
    part.shape.variant = variant::kFloat;
    part.shape.format = Format::f16;
    part.shape.rows = rows;
    part.shape.columns = 64;
    part.units = std::move(units);
    part.copies = copies;
    return part;
  }
  ComputeFunction function_;
  NullTrace trace_;
  std::unique_ptr<MachineHost> host_;
};

TEST_F(ProbePhase, each_part_has_times_and_bytes_of_its_own) {
  const PhaseTimes times = probe_phase(*host_, {part(64, {0}), part(32, {1}, 4)}, 3);
  ASSERT_EQ(times.seconds.size(), 2u);
  for (const std::vector<double>& seconds : times.seconds) {
    ASSERT_EQ(seconds.size(), 3u);
    for (const double s : seconds) EXPECT_GT(s, 0);
  }
  const auto read = [&](std::size_t i) { return times.counts[i].read[static_cast<std::size_t>(Placement::dram)]; };
  EXPECT_GE(read(0), 64 * 64 * 2u);
  EXPECT_GE(read(1), 4 * 32 * 64 * 2u);
  EXPECT_EQ(times.counts[1].macs, 4 * 32 * 64u);
}

TEST_F(ProbePhase, units_of_a_part_share_its_rows) {
  EXPECT_EQ(probe_phase(*host_, {part(64, {0, 1})}, 1).counts[0].macs, 64 * 64u);
  EXPECT_THROW(probe_phase(*host_, {part(kTileRows, {0, 1})}, 1), ConfigError);  // half of a tile each
}

}  // namespace
}  // namespace vitro
