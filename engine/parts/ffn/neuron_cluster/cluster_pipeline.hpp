// Runs the clusters of one layer: computing on units, reading on one I/O core, as soon as what each stage needs is there
// (PowerInfer-2, section 4.3: Pred, GIO, GC, UDIO, UDC; Pred has happened before).
#pragma once
#include <boost/container/small_vector.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "engine/machine/signal.hpp"
#include "engine/machine/task_scope.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster_admission.hpp"
#include "engine/parts/ffn/neuron_cluster/neuron_store.hpp"
#include "engine/parts/ffn/neuron_cluster/ready_clusters.hpp"
#include "engine/parts/ffn/neuron_cluster/unit_lanes.hpp"
#include "engine/parts/placement/graph_cache.hpp"

namespace vitro {

enum class PipelineKind : std::uint8_t {
  none,     // read, then compute, then read, then compute: nothing overlaps
  matrix,   // reading overlaps computing, but Up and Down wait until every Gate cluster is through (Figure 6a)
  cluster,  // a cluster of the next matrix starts as soon as its inputs are there (Figure 6b)
};

// The calls of a cluster's two computing stages, appended to the chain of one dispatch.
struct ClusterCalls {
  std::function<void(const Cluster&, Chain&)> gate;  // GC; its outcome is the ActiveSet
  std::function<void(const Cluster&, Chain&)> rest;  // UDC, into the cluster's partial sum
};

struct PipelineStats {
  std::uint64_t hits = 0, misses = 0;  // blocks that were used
};

class ClusterPipeline {
 public:
  struct Options {
    PipelineKind kind = PipelineKind::cluster;
    std::vector<ComputeUnit*> units;        // of steps that test gates
    std::vector<ComputeUnit*> dense_units;  // of steps that compute every neuron; empty: the same
    std::uint32_t unit_depth = 1;           // calls under way at each unit: with two, the next one is there when one ends
    UnitId io_core{};
    std::uint32_t io_depth = 8;
    std::uint32_t io_together = 1;  // of those, most that are one submission and are taken as one, in steps that test gates; 1: one by one
    // A block that was named counts as used although none of its neurons fired: it will be named for the next tokens as well.
    // False: only blocks with a neuron that fired do, and stay.
    bool keep_silent = false;
    std::vector<std::uint32_t>* accesses = nullptr;  // every block that hit or missed, in that order; null: not kept
  };
  ClusterPipeline(Machine& machine, GraphCache& graphs, NeuronStore& store, Options options);

  // All clusters of a layer, as planned. every_neuron: the gate's outcome does not matter (prefill computes all); it
  // returns when their partial sums are complete. What stays in the cache is decided in cluster order, whatever finishes
  // first. Throws RunError.
  Task<void> run(std::vector<Cluster>* clusters, ClusterCalls calls, bool every_neuron);

  // Begins to read for the layer after the one in work, which computes every neuron: its run() comes later and finds what has
  // come (PowerInfer-2, section 4.1.1). It takes slots only when all loads of the layer in work have theirs.
  void read_ahead(std::vector<Cluster>* clusters);

  // Waits for reads of layers that will not run, after a failure.
  Task<void> settle();

  PipelineStats stats() const { return {admission_.hits(), admission_.misses()}; }

 private:
  using Stage = Cluster::Stage;
  using Taken = boost::container::small_vector<Cluster*, 4>;  // mostly one
  struct Read {
    Cluster* cluster = nullptr;
    NeuronStore::Piece piece;
  };
  struct Layer {
    Layer(Executor& executor, std::vector<Cluster>* its_clusters, bool dense)
        : clusters(its_clusters), every_neuron(dense), ready(*its_clusters), lanes(executor), scope(executor) {}
    std::vector<Cluster>* clusters;
    ClusterCalls calls;
    bool every_neuron;
    std::size_t next_load = 0, next_admission = 0, next_rest = 0;
    std::uint32_t wave = 0;
    ReadyClusters ready;
    UnitLanes lanes;
    std::vector<std::uint32_t> activations;  // by unit: KernelCall::activations of its last product
    std::optional<std::uint32_t> reading_unit;  // of the units, that which issues reads; none: it computes whenever it can
    std::deque<Read> reads;
    std::size_t under_way = 0;  // reads
    std::size_t idle_lanes = 0;  // of those that read together: without a submission under way
    std::vector<std::pair<Cluster*, Landed>> to_move;  // what move() has to copy
    bool moving = false;
    TaskScope scope;
  };

  Layer& begin(std::vector<Cluster>* clusters, bool every_neuron);
  Task<void> compute(Layer* layer, ComputeUnit* unit, std::uint32_t index);
  Task<void> read(Layer* layer);
  Task<void> read_together(Layer* layer);
  bool units_copy(const Layer& layer) const;
  [[noreturn]] void throw_read_error(const Cluster& cluster, const IoResult& result) const;
  Task<void> move(Layer* layer);
  static bool arrived(Layer& layer, Cluster& cluster);  // true: it was the last read that the cluster waits for
  static void note_activations(Chain& chain, std::uint32_t* last);
  static std::vector<Landed> take_landed(std::span<Cluster* const> clusters);
  void drop_landed(Layer& layer);
  Task<void> guarded(Task<void> task, Layer* layer);
  Cluster* pick(Layer& layer) const;
  Taken take(Layer& layer) const;
  static bool goes_on(const Layer& layer) { return !layer.ready.all_done() && !layer.scope.stop_requested(); }
  bool whole_wave_past(const Layer& layer, Stage stage) const;
  void advance(Layer& layer);
  static void look_at_reads(Layer& layer);
  void start_loads(Layer& layer);
  void start_rest(Layer& layer, Cluster& cluster);
  void finish(Layer& layer, Cluster& cluster);
  void push_reads(Layer& layer, Cluster& cluster, std::span<const BlockLoad> loads, Bytes offset, Bytes length);
  static void set_active(const Layer& layer, std::span<Cluster* const> clusters, const std::vector<Outcome>& outcomes);

  Machine& machine_;
  GraphCache& graphs_;
  NeuronStore& store_;
  Options options_;
  ClusterAdmission admission_;
  std::deque<std::unique_ptr<Layer>> layers_;  // the one in work, then those that are read ahead
  Signal reads_pushed_;
};

}  // namespace vitro
