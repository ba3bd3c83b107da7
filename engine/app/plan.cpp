#include "engine/app/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "engine/app/old_engine_keys.hpp"
#include "engine/base/hash.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/pack_plan.hpp"
#include "engine/ops/product_contract.hpp"
#include "engine/parts/engine_config.hpp"

namespace vitro {
namespace {

std::string name_of(const Node* part) {
  const Node* name = part == nullptr ? nullptr : part->find("name");
  return name != nullptr && name->is_scalar() ? name->text() : "one without a name";
}

// {value: 32, why: "..."} stands for 32, at any depth.
Node without_reasons(const Node& node) {
  if (node.is_list()) {
    std::vector<Node> items;
    for (const Node& item : node.items()) items.push_back(without_reasons(item));
    return Node::list(std::move(items), node.origin());
  }
  if (!node.is_map()) return node;
  if (const Node* value = node.find("value")) return without_reasons(*value);
  std::vector<Node::Entry> entries;
  for (const auto& [key, value] : node.entries()) {
    if (key != "why") entries.emplace_back(key, without_reasons(value));
  }
  return Node::map(std::move(entries), node.origin());
}

// Maps merge deeply, `over` wins; everything else is replaced as a whole.
Node merged(const Node& under, const Node& over) {
  if (!under.is_map() || !over.is_map()) return over;
  Node out = under;
  for (const auto& [key, value] : over.entries()) {
    const Node* below = under.find(key);
    out.set(key, below == nullptr ? value : merged(*below, value));
  }
  return out;
}

void check_fingerprint(Reader plan, std::string_view what, const std::string& found, const std::string& name) {
  const std::string own = plan.text("fingerprint");
  if (own == found) return;
  plan.fail("fingerprint",
            fmt::format("\"{}\" is the fingerprint of {}, but this experiment's {} is {} with fingerprint {} (expected a plan made for "
                        "it by `vitro plan`)",
                        own, name_of(&plan.node()), what, name, found));
}

double quantity_or(const Node* node, Dimension dimension, double otherwise) {
  double value = otherwise;
  if (node != nullptr && node->is_scalar()) parse_quantity(node->text(), dimension, value);
  return value;
}

void check_memory(Reader plan, const Node& experiment) {
  const auto fixed = static_cast<Bytes>(plan.quantity("fixed", Dimension::bytes));
  const auto hot = static_cast<Bytes>(plan.quantity("hot", Dimension::bytes));
  const auto ffn = static_cast<Bytes>(plan.quantity("ffn", Dimension::bytes));
  const Node *budget = experiment.find_path("memory.budget"), *share = experiment.find_path("memory.ffn_in_dram");
  const auto has = static_cast<Bytes>(quantity_or(budget, Dimension::bytes, 1e18));
  if (has < fixed + hot) {
    plan.fail(
        "fixed",
        fmt::format(
            "{} of fixed weights and {} of hot neurons do not fit into memory.budget: {} (expected {} or more, or a plan made for less)",
            format_bytes(fixed), format_bytes(hot), budget->text(), format_bytes(fixed + hot)));
  }
  // A page of slack: shares are written with a few digits.
  const double bytes = quantity_or(share, Dimension::ratio, 1) * static_cast<double>(ffn);
  if (bytes + static_cast<double>(kPageSize) < static_cast<double>(hot)) {
    plan.fail("hot", fmt::format(
                         "{} of hot neurons do not fit into memory.ffn_in_dram: {} of {} (expected {:.1f}% or more, or a plan made for "
                         "less)",
                         format_bytes(hot), share->text(), format_bytes(ffn), 100.0 * static_cast<double>(hot) / static_cast<double>(ffn)));
  }
}

bool same_splits(const Node& a, const Node& b) {
  return std::ranges::equal(a.items(), b.items(), [](const Node& one, const Node& other) {
    const Node *by_layer = one.find("hot_by_layer"), *others = other.find("hot_by_layer");
    if ((by_layer == nullptr ? "" : by_layer->to_json()) != (others == nullptr ? "" : others->to_json())) return false;
    return std::ranges::all_of(std::array{"batch", "hot", "streamed", "attention", "head"}, [&](const char* key) {
      const Dimension dimension = std::string_view(key) == "batch" ? Dimension::none : Dimension::ratio;
      return quantity_or(one.find(key), dimension, 0) == quantity_or(other.find(key), dimension, 0);
    });
  });
}

// Splits of the experiment's own would silently undo what the plan is for. Equal ones are those of a resolved experiment, read again.
void check_splits(const Node& own, const Node& chosen) {
  const Node *given = own.find_path("placement.splits"), *planned = chosen.find_path("placement.splits");
  if (given == nullptr || given->is_null() || planned == nullptr || same_splits(*given, *planned)) return;
  fail_at(given->origin(), given->written_as().empty() ? "engine.placement.splits" : given->written_as(),
          "can not be combined with engine.plan, which has splits of its own (expected one of the two)");
}

// What a key of contracts says; empty where it is absent, null or no choice, of which its reader has the list.
std::string contract_at(const Node& engine, std::string_view key, const std::vector<std::string>& choices) {
  const Node* node = engine.find_path(key);
  return node != nullptr && node->is_scalar() && std::ranges::count(choices, node->text()) > 0 ? node->text() : "";
}

// cores: of a core's products; accelerator: of an accelerator's own, none where it has that of the cores.
struct Contracts {
  VariantId cores{}, accelerator{};
  bool operator==(const Contracts&) const = default;
};

// None also for "same", and for what is not stated.
Contracts contracts_named(const std::string& cores, const std::string& accelerator) {
  return {variant::by_key(cores), variant::by_key(accelerator)};
}

// Whether an accelerator's products come to the same with the weights of each format that the model has.
bool same_in_all_formats(const Node& experiment, const Contracts& one, const Contracts& other) {
  if (one == other) return true;
  const nlohmann::ordered_json formats = plan_facts(experiment).at("contracts");
  for (const auto& [name, unused] : formats.items()) {
    const auto contract = [format = *format_by_name(name)](const Contracts& asked) {
      return product_contract({.all = asked.cores, .accelerator = asked.accelerator}, {.accelerator = true}, format, Layout::rows);
    };
    if (contract(one) != contract(other)) return false;
  }
  return true;
}

[[noreturn]] void refuse_contract(const Node& given, const std::string& key, const std::string& balanced_in, const std::string& expected) {
  fail_at(given.origin(), given.written_as().empty() ? key : given.written_as(),
          fmt::format("{} is another contract than that of engine.plan, whose shares were balanced in {} (expected {}: {}, or a plan made "
                      "with --set {}={})",
                      given.text(), balanced_in, key, expected, key, given.text()));
}

// A plan's shares follow from what matmuls take in the contracts that it was made in. Another name for what the model's weights come to
// is no other contract.
void check_contracts(const Node& experiment, const Node& own, const Node& chosen) {
  const char *const cores_key = "products.numerics", *const accelerator_key = "placement.activations";
  const std::string cores = contract_at(chosen, cores_key, numerics_choices()), stated = contract_at(own, cores_key, numerics_choices());
  if (!cores.empty() && !stated.empty() && !same_in_all_formats(experiment, contracts_named(stated, ""), contracts_named(cores, ""))) {
    refuse_contract(*own.find_path(cores_key), "engine.products.numerics", cores, cores);
  }
  const std::string asked = contract_at(own, accelerator_key, activations_choices());
  if (asked.empty() || chosen.find_path("placement.unit") == nullptr) return;
  const std::string planned = contract_at(chosen, accelerator_key, activations_choices());
  const bool as_cores = planned.empty() || planned == "same";
  const std::string &run = stated.empty() ? cores : stated, &made = cores.empty() ? stated : cores;
  if (same_in_all_formats(experiment, contracts_named(run, asked), contracts_named(made, planned))) return;
  const std::string known = cores.empty() ? "" : fmt::format(" ({})", cores);
  refuse_contract(*own.find_path(accelerator_key), "engine.placement.activations", as_cores ? "that of the cores" + known : planned,
                  as_cores ? "same" : planned);
}

// The split of steps of so many sequences.
const Node& split_for(const Node& splits, std::int64_t batch) {
  const auto holds = [batch](const Node& split) { return batch <= quantity_or(split.find("batch"), Dimension::none, 1); };
  const auto found = std::ranges::find_if(splits.items(), holds);
  return found == splits.items().end() ? splits.items().back() : *found;
}

// Its shares of hot neurons, whichever FFN they are of.
std::vector<double> hot_shares(const Node& split) {
  std::vector<double> shares;
  const auto add = [&](const auto& self, const Node& node) -> void {
    for (const Node& item : node.items()) self(self, item);
    if (node.is_scalar()) shares.push_back(quantity_or(&node, Dimension::ratio, 0));
  };
  if (const Node* by_layer = split.find("hot_by_layer")) add(add, *by_layer);
  else shares.push_back(quantity_or(split.find("hot"), Dimension::ratio, 0));
  return shares;
}

// The graphs of decode steps, as engine.placement.graphs lists them. Each has to be what the splits that the run obeys come to.
Node read_graphs(Reader& plan, const Node& engine) {
  const Node &splits = *engine.find_path("placement.splits"), &unit = *engine.find_path("placement.unit");
  const Node *cluster = engine.find_path("ffn.clusters.hot_cluster"), &model = *plan.node().find("model");
  const double grain = quantity_or(cluster, Dimension::none, EngineConfig{}.ffn.clusters.hot_cluster);
  const double ffn = quantity_or(model.find("ffn"), Dimension::none, 0);
  const double kv_heads = quantity_or(model.find("kv_heads"), Dimension::none, 0);
  std::vector<Node> listed;
  for (Reader& graph : plan.maps("graphs")) {
    const std::int64_t batch = graph.integer("batch", 1, 1024);
    if (const std::string own = graph.text("unit"); own != unit.text()) {
      graph.fail("unit", fmt::format("\"{}\" would load this graph, but engine.placement.unit is {} (expected a plan made for it)", own,
                                     unit.text()));
    }
    const std::vector<double> hot = hot_shares(split_for(splits, batch));
    for (const std::int64_t own : graph.integers("hot_neurons", 0, 1 << 24)) {
      const auto near = [&](double share) { return std::abs(static_cast<double>(own) - share * ffn) < grain; };
      if (ffn == 0 || hot.empty() || std::ranges::any_of(hot, near)) continue;
      graph.fail("hot_neurons",
                 fmt::format("{} are not what the split of batch {} gives: {:.4f}%{} of {:.0f} (expected less than a cluster of {:.0f} "
                             "beside it)",
                             own, batch, 100 * hot[0], hot.size() > 1 ? " or another layer's share" : "", ffn, grain));
    }
    const double heads = kv_heads * quantity_or(split_for(splits, batch).find("attention"), Dimension::ratio, 0);
    if (const std::int64_t own = graph.integer("heads", 0, 1 << 16); kv_heads > 0 && std::abs(static_cast<double>(own) - heads) >= 1) {
      graph.fail("heads", fmt::format("{} are not what the split of batch {} gives (expected {:.2f} of {:.0f})", own, batch, heads,
                                      kv_heads));
    }
    std::vector<Node::Entry> entry;
    for (const char* key : {"batch", "name", "loaded"}) {
      if (const Node* value = graph.raw(key)) entry.emplace_back(key, *value);
    }
    listed.push_back(Node::map(std::move(entry), graph.node().origin()));
    graph.ignore("grows");
    graph.finish();
  }
  return Node::list(std::move(listed), plan.raw("graphs")->origin());
}

bool has(const Node& engine, std::string_view path) {
  const Node* found = engine.find_path(path);
  return found != nullptr && !found->is_null();
}

}  // namespace

std::string device_fingerprint(const Node& device) {
  Node told = device;
  if (device.find_path("cpu.phases") != nullptr) {  // how phases are simulated changes no result
    std::vector<Node::Entry> cpu = device.find("cpu")->entries();
    std::erase_if(cpu, [](const Node::Entry& entry) { return entry.first == "phases"; });
    told.set("cpu", Node::map(std::move(cpu)));
  }
  Hash hash;
  hash.add(told.to_json());
  return hash.hex();
}

std::string model_fingerprint(const Node& model) {
  Hash hash;
  if (const Node* gguf = model.find("gguf")) {
    const nlohmann::ordered_json identity = source_identity(Gguf::open(gguf->text()));
    hash.add(fmt::format("{} {}", identity.at("header_hash").get<std::string>(), identity.at("bytes").get<std::uint64_t>()));
  } else {
    const Node *shape = model.find("shape"), *format = model.find("format");
    hash.add(fmt::format("{} {}", shape == nullptr ? "" : shape->to_json(), format == nullptr ? "" : format->to_json()));
  }
  return hash.hex();
}

void apply_plan(Node& experiment) {
  const Node* path = experiment.find_path("engine.plan");
  if (path == nullptr || path->is_null()) return;
  if (!path->is_scalar()) fail_at(path->origin(), "engine.plan", "is not a path (expected a file that `vitro plan` wrote)");
  if (!std::filesystem::exists(path->text())) fail_at(path->origin(), "engine.plan", fmt::format("\"{}\" is not a file", path->text()));
  const Node file = load_yaml(path->text());
  Reader plan(file, "");
  if (!file.is_map() || !plan.has("vitro_plan")) {
    fail_at(path->origin(), "engine.plan", fmt::format("\"{}\" is not a plan (expected a file that `vitro plan` wrote)", path->text()));
  }
  if (const std::int64_t version = plan.integer("vitro_plan", 0, 1 << 20); version != kPlanVersion) {
    plan.fail("vitro_plan",
              fmt::format("plan version {} can not be read (expected {}: make the plan again with `vitro plan`)", version, kPlanVersion));
  }
  const Node* device = experiment.find("device");
  check_fingerprint(plan.child("device"), "device", device == nullptr || device->is_null() ? "none" : device_fingerprint(*device),
                    device == nullptr || device->is_null() ? "missing, a machine that was not measured" : name_of(device));
  const Node* model = experiment.find("model");
  if (model == nullptr || !model->is_map()) fail_at(experiment.origin(), "model", "is missing");
  const Node *gguf = model->find("gguf"), *shape = model->find("shape");
  check_fingerprint(plan.child("model"), "model", model_fingerprint(*model), gguf != nullptr ? gguf->text() : name_of(shape));
  check_memory(plan.child("memory"), experiment);

  const Node& own = *experiment.find("engine");
  Node chosen = canonical_engine(without_reasons(plan.child("engine").node()));
  check_splits(own, chosen);
  check_contracts(experiment, own, chosen);
  // Whoever says `threads` means other units than the plan's.
  if (own.find_path("placement.threads") != nullptr) chosen.set_path("placement.units", Node());
  const Node both = merged(chosen, own);
  // Splits that are none, the reader of the engine's keys refuses.
  if (plan.has("graphs") && has(both, "placement.splits") && !both.find_path("placement.splits")->items().empty() &&
      has(both, "placement.unit") && !has(both, "placement.graphs")) {
    if (Node graphs = read_graphs(plan, both); !graphs.items().empty()) chosen.set_path("placement.graphs", std::move(graphs));
  }
  experiment.set("engine", merged(chosen, own));
}

}  // namespace vitro
