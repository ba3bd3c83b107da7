// Turns an operator and a slice into the KernelCall of one step.
#pragma once
#include "engine/graph/lowering.hpp"
#include "engine/parts/attention/kv_staging.hpp"
#include "engine/parts/ffn/expert_plan.hpp"
#include "engine/parts/lora/lora_bank.hpp"
#include "engine/parts/products/products_config.hpp"
#include "engine/parts/weights/residency.hpp"
#include "engine/transformer/buffers.hpp"
#include "engine/transformer/embedding_rows.hpp"
#include "engine/transformer/sampling.hpp"

namespace vitro {

class UnitPlacement;

// What one step has in common for all its calls.
struct StepContext {
  Batch rows;                   // every (sequence, position)
  Batch sampled;                // those whose next token is wanted
  std::uint32_t first_row = 0;  // of a chunk, in the tensors that cross layers
  std::uint32_t table_width = 1;
  Sampling sampling;
  bool choose = true;                                            // false: logits only
  ExpertPlan experts;                                            // of the layer at hand
  Slice staged{0, 0};                                            // KV heads that StagedKv::unit attends to
  std::vector<AdapterRun> adapters = {}, sampled_adapters = {};  // of the rows, of the sampled ones
};

// The weights of layers' products once more, in another form and for one unit (llm.npu, T-MAN 3).
struct WeightCopy {
  const WeightStore* weights = nullptr;
  const Residency* residency = nullptr;
  std::size_t unit = 0;
};

// Keys and values once more, in fp16, for the one unit that can not read them as they are kept.
struct StagedKv {
  const KvStaging* staging = nullptr;
  std::size_t unit = 0;
};

// Which of a unit's products have the accelerator's contract. The output matrix stays on cores that hand layers' products over.
enum class OwnContract : std::uint8_t { none, of_layers, of_all };

struct CallOptions {
  VariantId matmul;            // where the weights' format allows it; kFloat elsewhere
  VariantId prefill_matmul{};  // of steps with more rows than `products.decode_rows`; none: the same
  VariantId attention{};       // none: as other operators
  bool report_active = false;
  std::vector<bool> accelerators = {};  // by unit: these carry products out by `products`
  VariantId accelerator_matmul{};       // of products in contracts of their own, in place of `matmul`; none: the same
  std::vector<OwnContract> own = {};    // by unit; empty: none
  ProductMethods products = {};
  WeightCopy copy = {};
  const EmbeddingRows* embedding = nullptr;  // in flash; null: a weight like others
  StagedKv staged = {};
  const LoraBank* adapters = nullptr;  // Requires: not null where the graph has bypasses
  bool scales_query = false;           // attention that has the choice (ops::Attention)
  Role rope_factors = Role::rope_factors;
  const UnitPlacement* placement = nullptr;  // whose experts may have shares of their own; null: they have those of their phase
};

// The same elements under other extents.
inline View reshaped(View view, std::uint32_t a, std::uint32_t b, std::uint32_t c = 0) {
  view.shape = {a, b, c};
  return view;
}
// Rows [part.first, part.first + part.count) of a matrix, or those elements of a vector [N]. Requires: tiles are not cut.
View rows_of_part(View view, const Slice& part);

// Whether a way to carry a product out exists for weights of a format: look-ups and their layout need planes of few bits.
bool applies(Method method, Format format);

// What bypasses of whole matrices compute, and how often they access an element as MNN-LLM counts it (Table 3): two operands for each
// multiply-add, and each element of a result. What a bypass adds its result to is not part of it there.
struct BypassCounts {
  std::uint64_t macs = 0, accesses = 0;
};
// Adds what the queues of a phase hold.
void count_bypasses(const UnitQueues& queues, BypassCounts& counts);

// What operators carry that only move data, and the bytes that they read and write. `scores`: those that attention's parts pass on, which
// the whole keeps to itself.
struct MoveCounts {
  std::uint64_t calls = 0;
  Bytes read = 0, written = 0;
  Bytes scores_read = 0, scores_written = 0;
};
// Adds what the queues of a phase hold.
void count_moves(const UnitQueues& queues, MoveCounts& counts);

// Calls that make_attention() fills in.
bool keeps_or_reads_kv(const KernelCall& call);

class CallBuilder {
 public:
  CallBuilder(const OperatorGraph& graph, const ModelConfig& config, const WeightStore& weights, const Residency& residency,
              const Buffers& buffers, const KvCache& kv, CallOptions options);

  // The work of a phase, per unit, by their shares of it.
  UnitQueues build(const Phase& phase, const StepContext& step, const Shares& shares) const;

 private:
  struct Site {  // where in the model and on which unit a call is made
    std::size_t unit = 0;
    const Phase* phase = nullptr;
    const StepContext* step = nullptr;
    const ExpertPlan::Group* expert = nullptr;
  };
  void append_group(const OperatorGroup& group, const Site& site, const Shares& shares, std::vector<WorkItem>& queue) const;
  void append_slices(const OperatorGroup& group, const Site& site, Slice share, std::vector<WorkItem>& queue) const;
  KernelCall gather_of_expert(const Operator& from, const KernelCall& product, const Site& site) const;
  void append_call(OperatorId id, Slice slice, const Site& site, WorkItem& item) const;
  void append_bypass(OperatorId id, const Site& site, const KernelCall& call, WorkItem& item) const;
  void make_move(const Operator& op, std::uint32_t rows, KernelCall& call) const;
  void make_attention(OperatorId id, const Site& site, KernelCall& call) const;
  std::uint32_t slice_step(const OperatorGroup& group) const;
  // A share of the KV heads as a slice of `heads` heads, which are as many for each of them.
  Slice in_heads(Slice share, std::uint32_t heads) const;
  View input(OperatorId consumer, OperatorId producer, const Site& site) const;
  View tensor(const Operator& op, const Site& site, std::size_t copy) const;
  std::pair<std::uint32_t, std::uint32_t> rows_of(const Operator& op, const Site& site) const;
  void add_weight(const Operator& op, Role role, Slice slice, const Site& site, KernelCall& call, WorkItem& item) const;
  bool in_phase(OperatorId id, const Phase& phase) const;
  bool has_own_work(const Site& site, const Shares& shares) const;
  Slice share_of_group(const OperatorGroup& group, const Site& site, const Shares& shares) const;
  Shares shares_of_expert(const OperatorGroup& group, const Site& site, const Shares& shares) const;
  const Weight& weight_for(const Operator& op, Role role, const Site& site) const;
  VariantId contract_of(const Operator& op, const Weight& weight, const Site& site) const;
  Method method_of(const Operator& op, const Site& site) const;
  Batch batch_of(const Operator& op, const Site& site) const { return op.rows == RowSet::sampled ? site.step->sampled : site.step->rows; }

  const OperatorGraph& graph_;
  const ModelConfig& config_;
  const WeightStore& weights_;
  const Residency& residency_;
  const Buffers& buffers_;
  const KvCache& kv_;
  CallOptions options_;
};

}  // namespace vitro
