// DRAM at flow fidelity: requests are fluid and share bandwidth max-min fairly down the tree of ports. Rates change only
// when a flow starts or ends; times are whole picoseconds. With a part or a table of efficiencies the total depends on how the
// agents use it: chunk sizes and strides, how many read at a time, the share of writes (efficiency.hpp).
#pragma once
#include <deque>
#include <vector>

#include "hw_models/cumulative_sum.hpp"
#include "hw_models/dram.hpp"
#include "hw_models/dram/efficiency.hpp"
#include "hw_models/dram/fair_share.hpp"
#include "hw_models/dram/rate_cache.hpp"
#include "hw_models/params.hpp"
#include "hw_models/registry.hpp"

namespace vitro::hw {

class FlowDram final : public DramModel, public ReplayableDram {
 public:
  FlowDram(const Site& site, const Params& params);
  static std::vector<ParamSpec> params();

  PortId add_port(const PortSpec& spec) override;
  void submit(const DramRequest& request, Callback done) override;
  DramTotals totals() override;
  double bytes_moved(Picoseconds begin, Picoseconds end) override;
  double peak_rate(Picoseconds begin, Picoseconds end) override;

  void listen(DramListener* listener) override { listener_ = listener; }
  void set_rate(double bytes_per_second) override;
  void count(double read, double written) override;

 private:
  struct Flow;
  struct Port {
    double cap = 0;
    Port* parent = nullptr;
    std::size_t number = 0;
    Claim claim;
    std::vector<Port*> children;  // that had flows below them at some time, by number
    std::vector<Flow*> flows;     // in order of arrival
    std::vector<Claim*> order;    // of those that want something, as they are shared out; while `sorted`
    double weights = 0;           // theirs
    double wanted = 0;            // by all of them together, whatever its cap
    double budget = -1;           // that it was last shared with
    bool changed = false;         // its flows have, since demands were summed up
    bool sorted = false;          // since a demand of `order` changed
    bool shared = false;          // since its flows or those below it changed; not kept for a single flow
    bool content = true;          // it can give all of them what they want, and so can those below it
    bool listed = false;          // among the children of its parent
  };
  struct Flow {
    Claim claim;           // its demand: bytes per second that the agent can take
    double length = 0;     // bytes
    double remaining = 0;  // of them, at `since`
    double rate = 0;
    Picoseconds since{0}, finish{0};
    Port* port = nullptr;
    double written = 0;  // share of its bytes
    Callback done;
  };

  void wake();
  void reshare(Picoseconds now);  // sets all rates and the next completion
  void enter(Flow& flow);
  void leave(Flow& flow);
  void list(Port& port);         // among the children of its parent
  void note_change(Port& port);  // its flows have
  const double* rates();         // of all flows, as they were found or work_out() gives them
  void work_out();               // rates_
  void sum_demands(Port* port);  // of a port whose flows have changed, and up the tree as far as that shows
  bool covers_demands() const;   // memory does, of all flows together. Requires: the ports do
  bool share_sustained();        // true: every flow gets its limit, and shares were not worked out
  void share(Port& port, double budget);
  void sort(Port& port);                     // order
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
  std::deque<Port> ports_;  // by number
  std::deque<Flow> slots_;
  std::vector<Flow*> free_, flows_;           // slots without a flow; flows in order of arrival
  std::vector<RateCache::Number> kinds_;      // in that order
  std::vector<FlowEfficiency::Use> uses_;     // likewise, of memory; their rates are those of the last mix that was looked at
  std::vector<FlowEfficiency::Use> by_port_;
  double slowest_ = 0, always_ = 0;  // time per byte of the slowest pattern so far; a total that any mix of them reaches
  std::vector<Port*> changed_;       // whose flows changed since demands were summed up
  RateCache cache_;
  std::vector<double> rates_;  // that were worked out last
  std::vector<Callback> finished_;
  Picoseconds armed_ = Picoseconds::max();
  double total_rate_ = 0;
  Picoseconds total_since_{0};
  bool completing_ = false;
  DramTotals totals_;
  CumulativeSum moved_;
  DramListener* listener_ = nullptr;
};

}  // namespace vitro::hw
