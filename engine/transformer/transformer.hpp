// One forward step of a model over a batch of (sequence, position) rows, whatever machine and whatever residency.
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "engine/graph/graph_options.hpp"
#include "engine/machine/task_scope.hpp"
#include "engine/parts/attention/kv_flash.hpp"
#include "engine/parts/ffn/ffn_block.hpp"
#include "engine/parts/placement/placement.hpp"
#include "engine/parts/weights/phase_runner.hpp"
#include "engine/transformer/call_builder.hpp"
#include "engine/transformer/look_ahead.hpp"
#include "engine/transformer/part_times.hpp"
#include "engine/transformer/phase_calls.hpp"

namespace vitro {

struct TransformerOptions {
  UnitPlacement* placement = nullptr;                 // outlives the transformer
  VariantId matmul{}, prefill_matmul{}, attention{};  // EngineConfig
  VariantId accelerator_matmul{};                     // PlacementConfig::activations
  Format kv_format = Format::f32;
  bool kv_per_query_head = false;
  std::uint32_t kv_block_tokens = 16;
  const KvKeepRule* kv_keep = nullptr;  // null: all keys and values stay in DRAM
  std::uint32_t kv_dram_tokens = 0, kv_sinks = 0;
  std::optional<Bytes> kv_room;  // most that a rule which follows the budget may take; none: what is free but for `claimed`
  Bytes claimed = 0;             // by what comes into DRAM later: weights
  bool kv_prefetch = true, kv_checksums = false;
  std::uint32_t max_rows = 1;  // of one step
  std::uint32_t span = 0;      // rows of a prompt that may go through a layer together; 0: none beyond a step's
  std::uint32_t max_sampled = 1;
  std::uint32_t max_tokens = 1;    // positions over all sequences
  std::uint32_t max_position = 1;  // longest sequence
  std::uint32_t sequences = 1;     // at a time
  std::uint32_t first_sequence = 0;  // KvPlacement
  bool report_active = false;
  ProductMethods products;  // of accelerators among the units
  WeightCopy copy;
  EmbeddingRows* embedding = nullptr;  // in flash; null: it is among the weights
  Fuse fuse = Fuse::all;               // what passes make of the operator graph
  Format activations = Format::f32;    // or f16: queries are scaled before they meet keys then (MNN-LLM 5.3)
  const LoraBank* adapters = nullptr;  // that sequences may have (KvCache::create); null: none
  GraphLoadConfig graphs;              // of units with static shapes
  bool value = false;                  // steps end in the model's value head, not in logits: nothing is drawn
};

// What the graphs of a step on units of static shapes follow from.
struct StepSize {
  std::uint32_t rows = 1, sampled = 1, sequences = 1;
  bool decodes = false;
  bool sure = true;  // else a step may have this size, and another one as well
  friend auto operator<=>(const StepSize&, const StepSize&) = default;
  static StepSize decode(std::uint32_t sequences, bool sure) { return {sequences, sequences, sequences, true, sure}; }
};

struct StepInput {
  std::vector<SeqPos> rows;            // each sequence's positions ascending
  std::vector<std::int32_t> tokens;    // per row
  std::vector<std::uint32_t> sampled;  // indices into rows whose next token is wanted
  // Identity of each draw; empty: that of the row. Several draws from one row (forks of a prompt) name it repeatedly.
  std::vector<SeqPos> sampled_as;
  bool choose = true;     // false: compute logits, draw nothing
  bool decodes = false;  // goes on with what the last step chose: what a trace calls it
  Sampling sampling;
  std::vector<StepSize> next;  // sizes that the next step may have, likely ones first: their graphs are loaded during this one
  // Above 0: the rows, of one sequence, go layer by layer in chunks of so many. Values are those of a step for each chunk, to the bit.
  std::uint32_t chunk_rows = 0;
};

// Rows of a step that is not computed.
Batch rows_alone(std::size_t count);

class Transformer {
 public:
  // Leases activations and KV address space. Throws ConfigError when the budget is too small. `ffn`: what carries out the
  // FFNs; neither of its two: the phases do, operator by operator.
  Transformer(Machine& machine, const ModelConfig& config, const WeightStore& weights, Residency& residency, GraphCache& graphs, Ffn ffn,
              TransformerOptions options);

  KvCache& kv() { return kv_; }
  std::uint32_t vocab() const { return config_.vocab; }
  std::uint32_t max_rows() const { return options_.max_rows; }
  std::uint32_t span() const { return options_.span; }  // TransformerOptions

  // Extends the sequences of `input.rows`, computes, and returns the chosen token of each sampled row (none with
  // choose = false). Throws RunError when a unit or the storage fails.
  Task<std::vector<std::int32_t>> step(StepInput input);
  // Waits for what a step began for the next one. Requires: called after the last step, whether it failed or not.
  Task<void> settle();

  // Throws ConfigError when the weights of one item of some step exceed the memory that there is for them, but for rows of the embedding,
  // which follow from the tokens. Requires: the weights are loaded.
  void check_room() const;

  // Loads the graphs of the placement's attention, so that no step waits for them.
  Task<void> load_attention_graphs();

  // Loads the graphs of decode steps that the placement lists as loaded from the start (PowerInfer-2, section 5).
  Task<void> load_listed_graphs();
  // Of launches on accelerators, by whichever way they come there.
  GraphLoads graph_loads() const;

  // Lets the placement's cores learn how fast they are beside one another (CoreBalance): phases of the first layer and the output matrix,
  // on whatever the activations hold. Does nothing where cores share evenly. Weights have to be loaded.
  Task<void> measure_cores();

  // Logits [sampled rows, vocab] of the last step; null when nothing is computed (phantom).
  const float* logits() const { return buffers_.host_data<float>("logits"); }
  // The value head's answer for each sampled row of the last step. Requires: TransformerOptions::value.
  const float* values() const { return buffers_.host_data<float>("value"); }
  bool kv_checksums() const { return options_.kv_checksums; }  // of keys and values in scratch files
  KvFlash* kv_tier() { return kv_flash_ ? &*kv_flash_ : nullptr; }                            // null: all keys and values are in DRAM
  const KvFlashStats* kv_flash() const { return kv_flash_ ? &kv_flash_->stats() : nullptr; }  // null: all of it is in DRAM
  const PartTimes& part_times() const { return part_times_; }
  std::vector<PartWindow> take_part_windows() { return part_windows_.take(); }  // of all steps until the first call
  const BypassCounts& bypass_counts() const { return bypass_counts_; }
  const MoveCounts& move_counts() const { return move_counts_; }

 private:
  using PhaseList = std::span<const Phase>;
  struct Chunk;  // of a prompt that goes layer by layer
  Task<std::vector<std::int32_t>> compute(const StepInput* input);
  Task<std::vector<std::int32_t>> compute_by_layer(StepInput* input);
  Chunk chunk_at(const StepInput& input, SeqPos front, std::uint32_t first) const;
  PhaseList stage_of(std::size_t rows, std::size_t stage) const;
  // What a step does around its phases, and a chunk of a layer only where it is the first or the last one.
  struct Around {
    bool lands = true;          // waits for keys and values in flash before attention
    bool frees = true;          // gives their buffers to the next layer after it
    bool prepares_next = true;  // begins what the next layer's FFN needs
    bool alone = true;          // all rows of the layer: a guess of what the next one's router chooses is of all that it chooses
  };
  Task<std::vector<std::int32_t>> run_phases(StepContext* context, PhaseList phases, Around around);
  StepContext context_of(const StepInput& input) const;
  void find_adapters(const StepInput& input, StepContext& context) const;
  void prepare_ffn(std::int16_t layer, const StepContext& context);
  Task<void> extend(const StepInput* input);
  Task<void> run_copies(std::vector<KvCache::BlockCopy> copies);
  Task<void> run_alone(Chain chain);
  void log_splits() const;
  Shares shares_of(const Phase& phase, std::size_t rows) const;
  Slice staged_heads(std::size_t rows) const;  // of the unit for which keys and values are staged
  void begin_staging(const std::vector<SeqPos>& rows, const StepContext& context);
  // `layer`: of whose blocks the tables are wanted; none: of all.
  void write_operands(const StepInput& input, const StepContext& context, std::optional<std::uint32_t> layer);
  Task<void> run_ffn(const Phase* phase, const StepContext* context);
  Task<void> learn_balance(const Phase* phase, const StepContext* step);
  Task<void> run_routed(const Phase* phase, const StepContext* context);
  std::vector<UnitChain> graphs_of(const StepSize& size, const StepInput& like) const;
  bool loads_ahead(const StepSize& size) const;
  std::string name_of(const StepSize& size) const;
  void begin_graphs(const StepInput& input);
  Task<void> load_graphs(std::vector<UnitChain> graphs);
  std::vector<float> attention_norms(std::uint32_t rows) const;
  bool take_routing(const std::vector<Outcome>& outcomes, const Phase& phase, StepContext& context);
  Task<void> look_ahead(const Phase* phase, const StepContext* context);
  bool attends_alone(std::size_t rows) const { return attention_graphs_.unit != nullptr && rows == attention_graphs_.rows; }
  PhaseList phases_of(std::size_t rows) const { return attends_alone(rows) ? alone_phases_ : phases_; }

  Machine& machine_;
  ModelConfig config_;
  TransformerOptions options_;
  UnitPlacement& placement_;
  const std::vector<ComputeUnit*> units_;
  AttentionGraphs attention_graphs_;
  Ffn ffn_;
  std::shared_ptr<const OperatorGraph> owned_graph_;
  const OperatorGraph& graph_;
  Buffers buffers_;
  KvCache kv_;
  std::optional<KvStaging> staging_;  // none: every unit reads keys and values as they are
  std::vector<Phase> phases_;
  std::vector<Phase> alone_phases_;                       // of steps whose attention is one unit's
  std::vector<Phase> layer_phases_, layer_alone_phases_;  // the same, each of one layer: of prompts that go layer by layer
  PartTimes part_times_{};
  PartWindows part_windows_;
  BypassCounts bypass_counts_;
  MoveCounts move_counts_;
  CallBuilder builder_;
  PhaseCalls phase_calls_;
  Residency& residency_;
  GraphCache& graphs_;
  std::set<StepSize> sizes_begun_;  // whose graphs are loaded, or on their way
  TaskScope loads_;
  PhaseRunner runner_;
  std::optional<LookAhead> look_ahead_;  // none: nobody wants to know of experts ahead of their layer
  std::optional<KvFlash> kv_flash_;  // none: no sequence gets so long
};

}  // namespace vitro
