// What may be chosen about a packed file.
#pragma once
#include <optional>
#include <set>
#include <string_view>

#include "engine/model/neuron_order.hpp"
#include "engine/model/weights.hpp"

namespace vitro {

struct PackOptions {
  // Formats of matrices to store as Layout::tiled (16 rows interleaved), where the row count allows it. The token
  // embedding always stays Layout::rows: it is read row by row.
  std::set<Format> tiled{Format::q4_0, Format::q8_0};
  std::set<Role> never_tiled{};            // roles that stay Layout::rows although their format could be tiled
  std::optional<BundleForm> bundles{};     // the FFN neuron by neuron, instead of as three matrices
  NeuronOrder order{};                     // of the bundles' neurons; requires bundles
};

// `--layout` of the command line: rows, tiled, or a form of bundles by its name (bundle_layout.hpp). With bundles the other
// matrices stay in rows, which every numeric contract reads. Throws ConfigError for other names.
PackOptions pack_options_of(std::string_view layout);

}  // namespace vitro
