// `engine.weights:` how the weights of a model come into DRAM, and how they lie in the file that is read.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/config.hpp"
#include "engine/model/bundle_layout.hpp"
#include "engine/parts/weights/eviction.hpp"
#include "engine/parts/weights/look_ahead_rule.hpp"

namespace vitro {

// FFN neurons behind a cache. engine/parts/ffn/neuron_cluster says what each key means.
struct NeuronCacheConfig {
  std::string eviction = "step_lru";
  AdmissionRule admission = AdmissionRule::rule;
  double window = 0;  // of the eviction "window", in tokens; 0: as long as the budget allows
  Bytes staging = 4 * MiB;
  bool bundle = true;         // Gate, Up and Down of a neuron side by side in flash; else matrix by matrix
  bool two_phases = true;     // Up and Down only after Gate, where the layout has first parts; else whole blocks
  bool cache = true;          // false: no neuron stays in DRAM, each that fires is read
  bool report_bound = false;  // metrics.belady_hit_rate
};

// Whole experts behind a cache (expert_residency.hpp).
struct ExpertCacheConfig {
  Bytes budget = 0;         // of the cache; 0: what memory leaves
  bool look_ahead = true;   // the next layer's router is asked on this layer's input, and what it names is read ahead
  std::string ahead = "router";  // what is: a rule of look_ahead_rule.hpp
  Bytes neurons_ahead = 0;   // of neurons behind a cache: most that is read ahead for a layer; 0: nothing
  std::uint32_t window = 8;  // requests in flight
  bool calibrated = false;   // its rule knows the loads of engine.ffn.experts before the first token
};

struct WeightsConfig {
  std::string kind = "dram";
  Bytes read_ahead = 128 * KiB;     // of kind `paged`
  bool repack = true;               // tiled layouts where the matmul variant can use them
  bool embedding_in_flash = false;  // rows of the token embedding are read as tokens need them (MNN-LLM, section 4.1)
  NeuronCacheConfig neurons;        // of kind `bundles`; its eviction also of kind `experts`
  ExpertCacheConfig experts;        // of kind `experts`
  // How the FFN lies in flash, of kind `bundles` and where it is computed by neuron; none: as whole matrices.
  std::optional<BundleForm> bundles;
};

// `evictions`, `aheads`: the names that there are. by_neuron: FFNs are computed so, and lie in bundles whatever the kind. Throws
// ConfigError.
WeightsConfig read_weights(Reader reader, const std::vector<std::string>& kinds, const std::vector<std::string>& evictions,
                           bool by_neuron = false, const std::vector<std::string>& aheads = look_ahead_rules().names());

}  // namespace vitro
