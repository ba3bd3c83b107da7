// The hot region of PowerInfer-2's segmented cache (section 4.2): the first neurons of every FFN, which a packed file holds
// hottest first, stay in DRAM cluster by cluster and are computed densely by an accelerator (section 4.1.2), without predictor,
// gate test or reading on demand. How many depends on the rows of a step, so the region grows and shrinks with the batch
// (section 4.1.3). The coldest of the hot clusters may be streamed: read for every step, in long sequential reads, while the attention
// before their FFN runs (sections 4.4 and 5), into one buffer that the FFNs take in turns. Which experts of a mixture a step needs is known
// when the router has chosen: theirs are read then, and the chosen ones of a layer take the buffer one after the other.
#pragma once
#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/machine/task_scope.hpp"
#include "engine/ops/contract.hpp"
#include "engine/ops/product_contract.hpp"
#include "engine/parts/ffn/ffn_block.hpp"
#include "engine/parts/ffn/neuron_cluster/neuron_adapters.hpp"
#include "engine/parts/ffn/neuron_cluster/neuron_store.hpp"
#include "engine/parts/placement/graph_cache.hpp"

namespace vitro {

struct HotRegionOptions {
  struct Split {
    std::uint32_t sequences = 1;  // of a step: up to so many
    double hot = 0;               // share of each FFN's neurons
    std::vector<double> by_ffn = {};  // in place of it, of each FFN in the store's order; empty: all alike
    double streamed = 0;              // of these, the share of the neurons that does not stay: it is read for every step
    double of(std::uint32_t ffn) const { return by_ffn.empty() ? hot : by_ffn[ffn]; }
    double most() const { return by_ffn.empty() ? hot : *std::ranges::max_element(by_ffn); }
  };
  ComputeUnit* unit = nullptr;
  std::vector<Split> splits;            // by ascending sequences; larger steps have the last one's
  std::uint32_t cluster_neurons = 512;  // in which neurons become hot or cold
  std::optional<double> in_dram;        // most of all FFN bytes that may be hot; none: as much as may stay at all
  std::uint32_t max_rows = 1;           // over all groups of a step
  UnitId io_core{};
  std::uint32_t io_depth = 8;
  AskedContracts asked;
  std::uint32_t decode_rows = 1;  // a step of more rows is a prompt's
  Activation activation = Activation::relu;
  std::shared_ptr<const NeuronAdapters> adapters = {};  // null: none adapts an FFN
  bool shares_buffers = false;                          // it leases none, and share() comes before the first step
};

class HotRegion {
 public:
  // Leases its buffers. Throws ConfigError when the budget is too small.
  HotRegion(Machine& machine, GraphCache& graphs, NeuronStore& store, HotRegionOptions options);

  // Makes the first clusters of the FFNs of a layer that a step needs hot and the others cold, as a step of so many sequences wants it;
  // begins to read what is not there, and to load the graph of such steps. Decides at once and returns. When the region is full, clusters
  // of the FFN that was used least recently go, but never those of an FFN that was prepared and is not through yet, or whose reads are
  // under way; FFNs that do not fit side by side grow up to equal parts. Sequences, not rows: those of a prompt, or what an expert has of
  // them, are another number in the next step, and a region that followed them would be read again and again. rows: of the step, 0 where
  // they are not known.
  // Requires: the store is loaded, and no other step of these FFNs is in flight. experts: {-1} where the layer has one FFN.
  void prepare(std::int16_t layer, std::span<const std::int16_t> experts, std::uint32_t sequences, std::uint32_t rows = 0);
  // A step is through with the FFNs of a layer: what was prepared may go again, and the buffer is filled for the FFN that comes next.
  void release(std::int16_t layer);

  // Chains of the graphs that a step of so many rows and sequences launches where memory holds what it wants; of a mixture for each number
  // of rows that may meet an expert. Requires: the store is loaded.
  std::vector<UnitChain> graphs(std::uint32_t rows, std::uint32_t sequences);

  // Hot neurons of an FFN, from 0 on; those that the step at hand streams are the last of them.
  std::uint32_t neurons(std::int16_t layer, std::int16_t expert) const {
    return clusters_of(ffns_[store_.ffn_of(layer, expert)]) * options_.cluster_neurons;
  }

  // The sum over the hot neurons for one group, into `out` [R, width]; first_row: of the group among the step's rows.
  // Requires: prepare() came before, and there are hot neurons. Throws RunError.
  Task<void> run(std::int16_t layer, const FfnGroup* group, std::uint32_t first_row, View out);
  // What that run left of so many rows: activated neurons, until the next one.
  NeuronAdapters::Hidden hidden(std::int16_t layer, std::int16_t expert, std::uint32_t first_row, std::uint32_t rows) const {
    const std::uint32_t hot = neurons(layer, expert);
    return {wide(hidden_, first_row, rows, hot), shared_ > 0 ? rows_[hot / options_.cluster_neurons] : nullptr};
  }

  // From here on Gate, Up and activated neurons go to the first columns of these, [max_rows, neurons] each, in place of own buffers: for
  // who needs all neurons of a row side by side. Requires: no step has run.
  void share(Lease gate, Lease up, Lease hidden, std::uint32_t neurons);

  // What a step used of the cold blocks of an FFN, `named` of them by the predictor and `hits` found in DRAM; near: those among the named
  // that stand where the next hot cluster would be. The region shrinks from the next step on when the cold ones of a whole step do not fit
  // beside it and its coldest clusters are worth less there than cold blocks are.
  struct ColdUse {
    std::uint32_t named = 0, near = 0, hits = 0;
  };
  void used_cold(std::int16_t layer, std::int16_t expert, std::uint32_t sequences, const ColdUse& use);
  // The cold blocks that would be hot if there was one cluster more: [first, first + count) of the cache's numbering.
  std::pair<std::uint32_t, std::uint32_t> next_cluster(std::int16_t layer, std::int16_t expert) const;

  // Waits for all that prepare() began, and releases it.
  Task<void> settle();
  // After settle() and a failure: nothing is hot any more, as when the region was new. The cache has been cleared.
  void start_anew();
  bool failed() const { return !error_.empty(); }

 private:
  struct Ffn {
    std::uint32_t hot = 0;    // clusters of it that stay
    std::uint32_t streamed = 0;  // behind them, of the step that was prepared last
    std::uint32_t reads = 0;  // outstanding
    bool held = false;        // prepared, and not released
    bool waits = false;       // for its turn with the buffer of what is streamed
    IndexList row_offsets;    // of its hot neurons; null: to be looked up
    std::list<std::uint32_t>::iterator recency;
  };
  struct Read {
    std::uint32_t ffn = 0;
    NeuronStore::Piece piece;
  };
  // Clusters of an FFN that the buffer holds, or is being filled with.
  struct Stream {
    std::uint32_t ffn = ~0u, first = 0, clusters = 0;
    bool operator==(const Stream&) const = default;
  };
  static std::uint32_t clusters_of(const Ffn& ffn) { return ffn.hot + ffn.streamed; }
  std::uint32_t blocks_per_cluster() const {
    return (options_.cluster_neurons + store_.layout().per_block - 1) / store_.layout().per_block;
  }
  void start();
  std::uint32_t clusters(std::uint32_t ffn, std::uint32_t sequences) const;
  const HotRegionOptions::Split& split_of(std::uint32_t sequences) const;
  std::uint32_t asked(const HotRegionOptions::Split& split, std::uint32_t ffn) const;
  std::uint32_t streamed(const HotRegionOptions::Split& split, std::uint32_t ffn) const;
  std::uint32_t slot_of(std::uint32_t f, std::uint32_t neuron) const;
  void want_stream(std::uint32_t f, std::uint32_t sequences);
  void fill_stream();
  void log_stream(std::uint32_t f) const;
  class Turn;
  void end_turn(std::uint32_t f);
  void begin_reads();
  void judge();
  std::uint32_t most(std::uint32_t sequences) const;
  std::uint32_t make_room(std::uint32_t ffn, std::uint32_t wanted, std::uint32_t most);
  bool in_use(const Ffn& ffn) const { return ffn.held || ffn.reads > 0; }
  void set_hot(std::uint32_t ffn, std::uint32_t clusters);
  void queue_reads(std::uint32_t f, std::uint32_t block, std::uint32_t slot, Bytes begin);
  void make_hot(std::uint32_t ffn, std::uint32_t block, std::uint32_t& after);
  Task<void> read_all();
  Task<void> read(Read next);
  Task<void> prepare_graph(std::uint32_t clusters, std::uint32_t rows);
  Chain graph_calls(std::uint32_t clusters, std::uint32_t rows, bool prompt) const;
  Chain calls(std::int16_t layer, const FfnGroup& group, std::uint32_t first_row, const IndexList& rows, const IndexList& row_offsets,
              View out) const;
  View wide(const Lease& lease, std::uint32_t first_row, std::uint32_t rows, std::uint32_t neurons) const;

  Machine& machine_;
  GraphCache& graphs_;
  NeuronStore& store_;
  HotRegionOptions options_;
  std::uint32_t most_ = 0, hot_ = 0;                // clusters that may be hot, and are
  std::map<std::uint32_t, std::uint32_t> fitting_;  // by sequences: clusters beside which the cold blocks of a step fit, where fewer
  ColdUse step_;                                    // of the step in work
  std::uint32_t step_near_ = 0;                     // blocks that ColdUse::near is a part of
  std::uint32_t step_sequences_ = 1;
  std::int16_t last_layer_ = -1;
  bool settling_ = false;  // the region has just shrunk: this step is no measure
  std::vector<Ffn> ffns_;
  std::list<std::uint32_t> recency_;  // FFNs, least recently used first
  std::vector<IndexList> rows_;       // 0 to n - 1, by clusters
  Stream stream_;                      // of the buffer
  std::vector<Stream> streamed_last_;  // by FFN: what of it was streamed last
  std::deque<std::uint32_t> streams_;  // FFNs that wait for the buffer
  std::vector<Read> reads_;
  std::size_t next_read_ = 0, lanes_ = 0;  // lanes_: that read now
  std::string error_;  // of a read
  std::set<std::pair<std::uint32_t, std::uint32_t>> graphs_begun_;  // clusters, rows
  Signal read_done_;
  TaskScope scope_;
  Lease gate_, up_, hidden_;  // [max_rows, most neurons] each, or
  std::uint32_t shared_ = 0;  // [max_rows, so many] each
};

}  // namespace vitro
