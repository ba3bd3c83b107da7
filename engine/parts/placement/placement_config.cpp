#include "engine/parts/placement/placement_config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/parts/placement/placement.hpp"

namespace vitro {
namespace {

std::vector<std::string> read_names(Reader& reader, std::string_view key, std::string_view example) {
  std::vector<std::string> names;
  if (!reader.has(key)) return names;
  const Node& given = *reader.raw(key);
  for (const Node& name : given.is_scalar() ? std::vector<Node>{given} : reader.list(key)) {
    if (!name.is_scalar()) {
      fail_at(name.origin(), reader.name_of(key),
              fmt::format("has an entry that is not the name of a unit (expected names such as {})", example));
    }
    if (std::ranges::find(names, name.text()) != names.end()) {
      fail_at(name.origin(), reader.name_of(key), fmt::format("\"{}\" is named twice (expected each unit once)", name.text()));
    }
    names.push_back(name.text());
  }
  if (names.empty()) reader.fail(key, fmt::format("is empty (expected names such as {})", example));
  return names;
}

double share_of(const Reader& reader, const Node& node) {
  double share = -1;
  if (!node.is_scalar() || !parse_quantity(node.text(), Dimension::ratio, share) || share < 0 || share > 1) {
    fail_at(node.origin(), reader.name_of("hot_by_layer"),
            fmt::format("{} is no share (expected 0% to 100% for each layer, or a list of them for the experts of each)",
                        node.is_scalar() ? fmt::format("\"{}\"", node.text()) : "an entry"));
  }
  return share;
}

std::vector<std::vector<double>> read_by_layer(Reader& reader) {
  std::vector<std::vector<double>> layers;
  for (const Node& layer : reader.list("hot_by_layer")) {
    std::vector<double>& shares = layers.emplace_back();
    if (!layer.is_list()) shares.push_back(share_of(reader, layer));
    else
      for (const Node& expert : layer.items()) shares.push_back(share_of(reader, expert));
    if (shares.empty()) fail_at(layer.origin(), reader.name_of("hot_by_layer"), "has an empty list (expected a share for each expert)");
  }
  if (layers.empty()) reader.fail("hot_by_layer", "is empty (expected a share for each layer)");
  return layers;
}

std::vector<PlacementConfig::Split> read_splits(Reader& reader) {
  std::vector<PlacementConfig::Split> splits;
  for (Reader& split : reader.maps("splits")) {
    PlacementConfig::Split next;
    next.batch = static_cast<std::uint32_t>(split.integer("batch", 1, 1024));
    if (!splits.empty() && next.batch <= splits.back().batch) split.fail("batch", "is not ascending");
    next.hot = split.share("hot", 0);
    if (split.has("hot_by_layer")) {
      next.hot_by_layer = read_by_layer(split);
      next.by_layer_at = fmt::format("{}: {}", split.raw("hot_by_layer")->origin().str(), split.name_of("hot_by_layer"));
    }
    if (split.has("streamed")) {
      next.streamed = split.share("streamed", 0);
      next.streamed_at = fmt::format("{}: {}", split.raw("streamed")->origin().str(), split.name_of("streamed"));
      if (next.hot_by_layer.empty() && next.streamed > next.hot) {
        split.fail("streamed", fmt::format("is {:g}%, more than the {:g}% that are hot (expected a part of hot)", 100 * next.streamed,
                                           100 * next.hot));
      }
    }
    next.attention = split.share("attention", 0);
    next.head = split.share("head", 0);
    split.ignore("why");
    split.finish();
    splits.push_back(next);
  }
  if (splits.empty()) reader.fail("splits", "is empty (expected entries such as {batch: 1, hot: 25%})");
  return splits;
}

// "ahead", "needed", or the list that a plan has.
GraphLoadConfig read_graphs(Reader& reader) {
  GraphLoadConfig graphs;
  const Node* given = reader.raw("graphs");
  if (given == nullptr || given->is_scalar()) {
    if (reader.choice("graphs", {"ahead", "needed"}, "ahead") == "needed") graphs.loading = GraphLoading::needed;
    return graphs;
  }
  graphs.loading = GraphLoading::listed;
  for (Reader& entry : reader.maps("graphs")) {
    StepGraphs next;
    next.batch = static_cast<std::uint32_t>(entry.integer("batch", 1, 1024));
    if (!graphs.listed.empty() && next.batch <= graphs.listed.back().batch) entry.fail("batch", "is not ascending");
    next.from_start = entry.choice("loaded", {"from_start", "at_change"}, "at_change") == "from_start";
    next.name = entry.text("name", fmt::format("decode_b{}", next.batch));
    entry.finish();
    graphs.listed.push_back(std::move(next));
  }
  return graphs;
}

// Activations of an accelerator's matmuls beside others on the cores: W4A16 there, int8 here.
VariantId read_activations(Reader& reader, const PlacementConfig& placement) {
  const std::string name = reader.choice("activations", activations_choices(), "same");
  if (name == "same") return VariantId::none;
  // Other kinds say themselves that they need an accelerator, and `unit` may be a core that stands in for one.
  if (placement.kind == "cores" && placement.unit.empty() && std::ranges::all_of(placement.units, is_core_name)) {
    reader.fail("activations", "is of an accelerator's matmuls (expected one among the units, such as npu or hexagon)");
  }
  return variant::by_key(name);
}

// How the worker of a Hexagon carries matmuls out; a simulated one has its device file.
void read_stages(Reader& reader, PlacementConfig& placement) {
  for (const std::string_view key : {"hvx_threads", "stage_buffers", "spill", "transport"}) {
    if (!reader.has(key)) continue;
    if (std::ranges::count(placement.units, "hexagon") + std::ranges::count(placement.graph_units, "hexagon") == 0 &&
        placement.unit != "hexagon") {
      reader.fail(key, "is of a Hexagon's worker (expected hexagon among the units)");
    }
    if (key == "hvx_threads") {
      placement.hvx_threads = static_cast<std::uint32_t>(reader.choice(key, {"1", "2", "4"}, "4")[0] - '0');
    } else if (key == "spill") {
      const auto& names = hexagon::kSpillNames;
      const std::string place = reader.choice(key, {std::begin(names), std::end(names)}, names[0]);
      placement.spill = static_cast<hexagon::Spill>(std::ranges::find(names, place) - std::begin(names));
    } else if (key == "transport") {
      const auto& names = kWorkerTransportNames;
      const std::string way = reader.choice(key, {std::begin(names), std::end(names)}, names[0]);
      placement.transport = static_cast<WorkerTransport>(std::ranges::find(names, way) - std::begin(names));
    } else {
      placement.stage_buffers = static_cast<std::uint32_t>(reader.choice(key, {"0", "1", "2"}, "2")[0] - '0');
    }
  }
}

void read_keys(Reader& reader, PlacementConfig& placement) {
  const Node* given = reader.raw("attention_keys");
  if (given == nullptr || given->is_scalar()) {
    const std::string shapes = reader.choice("attention_keys", {"chunks", "powers", "visible"}, "visible");
    placement.key_shapes = shapes == "powers" ? KeyShapes::powers : shapes == "chunks" ? KeyShapes::chunks : KeyShapes::visible;
    return;
  }
  placement.key_shapes = KeyShapes::listed;
  for (const std::int64_t keys : reader.integers("attention_keys", 1, 1 << 24)) {
    if (!placement.keys.empty() && keys <= placement.keys.back())
      reader.fail("attention_keys", "is not ascending (expected for example [1024, 4096])");
    placement.keys.push_back(static_cast<std::uint32_t>(keys));
  }
  if (placement.keys.empty()) reader.fail("attention_keys", "is empty (expected for example [1024, 4096])");
}

}  // namespace

bool is_core_name(const std::string& name) { return name.starts_with("cpu"); }

bool is_gpu_name(const std::string& name) { return name.starts_with("gpu"); }

const std::vector<std::string>& activations_choices() {
  static const std::vector<std::string> kChoices{"same", "fp16", "int8", "int8_tables", "int16_tables"};
  return kChoices;
}

PlacementConfig read_placement(Reader reader, const Registry<PlacementKind>& kinds) {
  PlacementConfig placement;
  placement.kind = reader.choice("kind", kinds.names(), placement.kind);
  if (const Node* options = reader.raw("options")) placement.options = *options;
  placement.units = read_names(reader, "units", "cpu0");
  if (!placement.units.empty() && reader.has("threads")) {
    reader.fail("threads", fmt::format("can not be combined with {} (expected one of the two)", reader.name_of("units")));
  }
  const Node* const threads = reader.raw("threads");
  if (threads == nullptr || (threads->is_scalar() && threads->text() == "auto")) {
    placement.threads = 0;
    reader.choice("threads", {"auto"}, "auto");
  } else {
    placement.threads = static_cast<std::uint32_t>(reader.integer("threads", 1, 1024));
  }
  placement.balanced = reader.choice("balance", {"even", "rates"}, "even") == "rates";
  if (!placement.units.empty()) reader.forget("threads");
  placement.unit = reader.text("unit", "");
  if (placement.kind == "unit" && !placement.unit.empty()) {  // the usual one, where none is named
    if (placement.units.empty()) placement.units = {placement.unit};
    placement.unit.clear();
  }
  if (reader.has("splits")) placement.splits = read_splits(reader);
  if (placement.kind == "cores" && !placement.splits.empty() != !placement.unit.empty()) {
    if (placement.unit.empty())
      reader.fail("unit", "is missing: splits state the shares of an accelerator (expected its name, such as npu)");
    reader.fail("splits", "is missing (expected entries such as {batch: 1, hot: 25%})");
  }
  placement.graphs = read_graphs(reader);
  placement.prefill = reader.boolean("prefill", true);
  placement.graph_units = read_names(reader, "graph_units", "ane0");
  placement.attention_on_unit = reader.choice("attention", {"unit", "cores"}, "unit") == "unit";
  read_keys(reader, placement);
  placement.stages_kv = reader.choice("kv", {"cores", "staged"}, "cores") == "staged";
  placement.outliers = reader.quantity("outliers", Dimension::ratio, 0);
  if (placement.outliers < 0 || placement.outliers >= 1) {
    reader.fail("outliers", "leaves nothing for the accelerator (expected 0% to below 100%)");
  }
  if (placement.kind == "layers") {
    placement.head = reader.share("head", 0);
  } else if (reader.has("head")) {
    reader.fail("head",
                fmt::format("is a share of what kind layers leaves to the cores, and the kind is {} (remove the key, or use kind layers; "
                            "with kind cores each entry of {} may have one)",
                            placement.kind, reader.name_of("splits")));
  }
  placement.sessions = static_cast<std::uint32_t>(reader.integer("sessions", 1, 64, 0));
  placement.activations = read_activations(reader, placement);
  read_stages(reader, placement);
  reader.finish();
  return placement;
}

}  // namespace vitro
