#include "hw_models/tlm/systemc_context.hpp"

#include <gtest/gtest.h>

#include <array>

#include "hw_models/dram/detailed.hpp"
#include "tests/hw_models/tlm/fresh_context.hpp"

namespace vitro::hw {
namespace {

std::unique_ptr<DramChannels> channels(Context& context) {
  const DramPart& part = dram_part("lpddr5_6400");
  return std::make_unique<DramChannels>(context, 1, part.timing, part.organisation, "mop4", ControllerPolicy{});
}

// Ends of three requests of one port: a read, a posted write, strided reads.
struct Traffic {
  Traffic(Context& on, DetailedDram& dram) : context(on) {
    const PortId port = dram.add_port({"a", {1e12}});
    dram.submit({port, 64 * KiB, 0, Picoseconds(0), 0}, [this] { ends[0] = context.now(); });
    dram.submit({port, 16 * KiB, 16 * KiB, Picoseconds(0), GiB}, [this] { ends[1] = context.now(); });
    dram.submit({port, 8 * KiB, 0, Picoseconds(0), 4096, 64, 4096}, [this] { ends[2] = context.now(); });
  }
  Context& context;
  std::array<Picoseconds, 3> ends{};
};

TEST(SystemCContext, systemc_time_changes_nothing) {
  EventLoop loop;
  DetailedDram plain({loop, "dram"}, channels(loop), {});
  Traffic expected(loop, plain);
  while (!loop.empty()) loop.step();

  FreshContext fresh;
  SystemCContext context("context");
  DetailedDram dram({context, "dram"}, channels(context), {});
  Traffic traffic(context, dram);
  sc_core::sc_start();
  EXPECT_EQ(traffic.ends, expected.ends);
}

}  // namespace
}  // namespace vitro::hw
