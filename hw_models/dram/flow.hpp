// DRAM at flow fidelity: requests are fluid and share bandwidth max-min fairly down the tree of ports. Rates change only
// when a flow starts or ends; times are whole picoseconds. With a part or a table of efficiencies the total depends on how the
// agents use it: chunk sizes and strides, how many read at a time, the share of writes (efficiency.hpp).
#pragma once
#include <vector>

#include "hw_models/dram/dram.hpp"
#include "hw_models/dram/efficiency.hpp"
#include "hw_models/dram/fair_share.hpp"
#include "hw_models/odometer.hpp"
#include "hw_models/params.hpp"
#include "hw_models/registry.hpp"

namespace vitro::hw {

class FlowDram final : public DramModel {
 public:
  FlowDram(const Site& site, const Params& params);
  static std::vector<ParamSpec> params();

  PortId add_port(const PortSpec& spec) override;
  void submit(const DramRequest& request, Callback done) override;
  DramTotals totals() override;
  double bytes_moved(Picoseconds begin, Picoseconds end) override;
  double peak_rate(Picoseconds begin, Picoseconds end) override;

 private:
  struct Port {
    double cap = 0;
    std::size_t parent = 0;
    Claim claim;
    std::vector<std::size_t> children;  // with flows below them at the moment, ascending
    std::vector<std::uint32_t> flows;   // slots, in order of arrival
    bool summed = false;                // since its flows or those below it changed
    bool shared = false;                // likewise
    double wanted = 0;                  // by all of them together, whatever its cap
    bool content = true;                // it can give all of them what they want, and so can those below it
    double budget = -1;                 // that it was last shared with
    bool busy() const { return !children.empty() || !flows.empty(); }
  };
  struct Flow {
    std::size_t port = 0;
    double remaining = 0;          // bytes, at `since`
    double limit = 0;              // bytes per second that the agent can take
    double reads = 1, writes = 1;  // efficiency of its pattern, alone
    double slowest = 1;            // time per byte of the slower of them
    double rate = 0;
    Picoseconds since{0}, finish{0};
    double written = 0;  // share of its bytes
    Claim claim;
    Callback done;
  };

  void wake();
  void reshare(Picoseconds now);  // recomputes all rates and the next completion
  void enter(std::uint32_t slot);
  void leave(std::uint32_t slot);
  bool share_sustained();  // true: every flow gets its limit, and shares were not worked out
  // Both are for what has changed; their callers ask that, since mostly it has not.
  void sum_demands(Port& port);
  void share(Port& port, double budget);
  double sustained();                        // total of the mix that the present shares make
  void settle(Flow& flow, Picoseconds now);  // accounts for what moved since its rate was set
  void settle_total(Picoseconds now);
  void arm(Picoseconds next);  // for the first completion

  Context& context_;
  FlowEfficiency efficiency_;
  bool crowds_ = false;                 // the bandwidth is the part's own: a measured one contains what streams cost one another
  Picoseconds least_, least_in_order_;  // that a request takes, of chunks anywhere and of one stream
  Label label_;
  Track track_;
  std::vector<Port> ports_;
  std::vector<Flow> slots_;
  std::vector<std::uint32_t> free_, flows_;  // slots: without a flow; with one, in order of arrival
  std::vector<Claim*> scratch_;
  std::vector<FlowEfficiency::Use> uses_;
  std::vector<Callback> finished_;
  Picoseconds armed_ = Picoseconds::max();
  double total_rate_ = 0;
  Picoseconds total_since_{0};
  bool completing_ = false;
  DramTotals totals_;
  Odometer moved_;
};

}  // namespace vitro::hw
