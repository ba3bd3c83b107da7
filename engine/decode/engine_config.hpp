// What the `engine:` and `memory:` parts of an experiment may say.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/kernels/variants.hpp"
#include "engine/model/bundle_layout.hpp"
#include "engine/moe/moe_config.hpp"

namespace vitro {

struct Sampling {
  float temperature = 0;  // 0: greedy
  std::uint32_t top_k = 0;
  float top_p = 1;
};

enum class FunctionKind : std::uint8_t { compute, replay, draw };

// `engine.clusters:` of the policies that work neuron by neuron; engine/ffn says what each means, and
// engine/ffn/cluster_policy.hpp what each of them starts from.
struct ClusterConfig {
  std::string pipeline = "cluster", eviction = "step_lru";
  std::uint32_t neurons = 64;  // most of one cluster
  std::string io_core;         // issues all reads; empty: the last of the units
  std::uint32_t io_depth = 0;  // reads in flight; 0: as many as the storage has slots for
  Bytes staging = 4 * MiB;
  std::uint32_t dense_rows = 16;
  std::optional<float> threshold;  // |act(gate)| above which a neuron is active; none: the model's own by layer, else 0
  bool predictors = true;          // those of the model, if it has any; else every gate is computed
  bool measure = false;            // computes every gate beside the predictor, to know its recall and precision
  bool keep_silent = true;         // blocks that a predictor named stay, whether a neuron of theirs fired or not
  bool bundle = true;              // Gate, Up and Down of a neuron side by side in flash; else matrix by matrix
  bool two_phases = true;          // Up and Down only after Gate, where the layout has first parts; else whole blocks
  bool cache = true;               // false: no neuron stays in DRAM, each that fires is read
  std::uint32_t window = 0;        // of the eviction "window", in tokens; 0: as long as the budget allows
  bool report_bound = false;       // metrics.belady_hit_rate
};

// `engine.hybrid:` of the neuron-cluster policy: an accelerator beside the cores (PowerInfer-2, section 4.1).
struct HybridConfig {
  // What it takes when a step has up to `batch` rows.
  struct Split {
    std::uint32_t batch = 1;
    double hot = 0;        // share of each FFN's neurons that it computes densely: the first ones of the file, the hottest
    double attention = 0;  // share of the heads, and of the rows of their projections
    double head = 0;       // share of the vocabulary
  };
  std::string unit;               // "npu"; empty: cores alone
  std::vector<Split> splits;      // by ascending batch; a larger step has the last one's
  std::uint32_t cluster = 512;    // neurons of a hot cluster, the unit of the hot region
  std::optional<double> in_dram;  // share of all FFN bytes that hot clusters may take; none: what the splits ask for
  bool prefill = true;            // whole prefills on the accelerator (section 4.1.1)
};

// `engine.products:` how an accelerator carries out products, by the rows that they have. Methods that do not apply to a matrix's
// format (look-up in float16 weights) are left to its variant.
struct ProductMethods {
  Method decode = Method::automatic, prefill = Method::automatic;
  std::uint32_t decode_rows = 1;  // a product with up to so many rows is one of decoding
  bool share_precompute = true;   // tables are made once for products with the same input (T-MAN 5)

  Method of(std::size_t rows) const { return rows <= decode_rows ? decode : prefill; }
};

struct EngineConfig {
  std::string policy = "dense";
  std::vector<std::string> units;  // names; empty: `threads` fastest cores
  std::uint32_t threads = 1;
  std::string kernels = "auto";  // kernel set of the host CPU
  CodeProducts code_products = CodeProducts::automatic;
  std::uint32_t look_up_bits = 0;  // the model has to have a matrix of such codes in Layout::lut; 0: nothing is asked
  VariantId matmul;                // numeric contract of matrix products
  VariantId prefill_matmul{};      // of those with more rows than `products.decode_rows`; none: the same
  VariantId attention{};           // of attention; none: that of the other operators
  bool repack = true;              // tiled layouts where the variant can use them
  // The FFN neuron by neuron, and how it lies in flash; none: whole matrices.
  std::optional<BundleForm> bundles;
  Format kv_format = Format::f32;
  bool kv_per_query_head = false;  // keys and values are kept once for each query head, not for each KV head
  std::uint32_t kv_block_tokens = 16;
  std::optional<std::uint32_t> kv_dram_tokens;  // positions of a sequence that stay in DRAM; none: all (engine/attention/kv_flash.hpp)
  bool kv_prefetch = true;
  bool embedding_in_flash = false;  // rows are read as tokens need them
  std::uint32_t prefill_chunk = 128;
  Bytes read_ahead = 0;  // of the mmap policy
  ClusterConfig clusters;
  HybridConfig hybrid;
  MoeConfig moe;
  ProductMethods products;
  double outliers = 0;         // of the llm_npu policy: share of the accelerator's products that cores compute beside it
  std::uint32_t sessions = 0;  // of an accelerator, each of which maps so much and no more; 0: as many as the model takes
  FunctionKind function = FunctionKind::compute;
  std::string record, replay;  // recordings to write, to read
  bool numerics() const { return function == FunctionKind::compute; }
};

struct MemoryConfig {
  std::optional<Bytes> budget;        // of everything in DRAM
  std::optional<double> ffn_in_dram;  // share of FFN bytes that may be cached; exclusive with budget
};

}  // namespace vitro
