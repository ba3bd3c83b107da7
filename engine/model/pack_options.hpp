// What may be chosen about a packed file.
#pragma once
#include <optional>
#include <set>
#include <string_view>

#include "engine/model/neuron_order.hpp"
#include "engine/model/weights.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro {

struct PackOptions {
  // Formats of matrices to store as Layout::tiled (16 rows interleaved), where the row count allows it, and those to store as
  // Layout::lut, which goes first. The token embedding always stays Layout::rows: it is read row by row.
  std::set<Format> tiled = formats_with(Layout::tiled), lut{};
  std::set<Role> never_tiled{};         // roles that stay Layout::rows although their format could be tiled
  std::optional<BundleForm> bundles{};  // the FFN neuron by neuron, instead of as three matrices
  std::optional<Format> products{};     // the layers' products alone, in this format where rows are whole blocks of it
  NeuronOrder order{};                  // of the bundles' neurons; requires bundles
};

// `--layout` of the command line: rows, tiled, lut (tiled where a format has no such layout), or a form of bundles by its
// name (bundle_layout.hpp). With bundles the other matrices stay in rows, which every numeric contract reads.
// Throws ConfigError for other names.
PackOptions pack_options_of(std::string_view layout);

}  // namespace vitro
