#include "engine/parts/ffn/experts/moe_config.hpp"

#include <charconv>

namespace vitro {
namespace {

double share_of_expert(const Reader& reader, const Node& node) {
  double share = -1;
  const std::string text = node.is_scalar() ? node.text() : "";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc{} || end != text.data() + text.size() || !(share >= 0 && share <= 1))
    fail_at(node.origin(), reader.name_of("loads"), "holds something else than shares (expected numbers of 0 to 1)");
  return share;
}

ExpertLoads read_loads(Reader& reader) {
  ExpertLoads loads;
  for (const Node& layer : reader.list("loads")) {
    if (!layer.is_list())
      fail_at(layer.origin(), reader.name_of("loads"), "is not a list of lists (expected a share for each expert, by layer)");
    std::vector<double>& shares = loads.emplace_back();
    for (const Node& share : layer.items()) shares.push_back(share_of_expert(reader, share));
  }
  return loads;
}

std::uint32_t count_of(Reader& reader, std::string_view key, std::uint32_t otherwise) {
  return static_cast<std::uint32_t>(reader.integer(key, 1, 1 << 16, otherwise));
}

}  // namespace

MoeConfig read_moe(Reader reader, const std::vector<std::string>& drifts, const std::vector<std::string>& places) {
  MoeConfig moe;
  for (const auto& [key, value] : {std::pair("graphs", &moe.graphs), std::pair("tiers", &moe.tiers), std::pair("groups", &moe.groups),
                                   std::pair("residency", &moe.residency), std::pair("side_by_side", &moe.side_by_side)}) {
    *value = reader.boolean(key, *value);
  }
  moe.exact = reader.choice("shapes", {"fixed", "exact"}, "fixed") == "exact";
  moe.overflow = reader.choice("overflow", {"drop", "cpu"}, "drop") == "cpu" ? Overflow::cpu : Overflow::drop;
  moe.group = static_cast<std::uint32_t>(reader.integer("group", 1, 64, moe.group));
  if (reader.has("cold") && reader.text("cold", "") == "by_time")
    moe.cold_by_time = true;
  else
    moe.cold = reader.share("cold", moe.cold);
  moe.max_drop = reader.share("max_drop", moe.max_drop);
  moe.max_padding = reader.share("max_padding", moe.max_padding);
  const std::string rank = reader.choice("rank", {"attention_output", "router_weight", "random"}, "attention_output");
  moe.ranking = rank == "random" ? Ranking::random : rank == "router_weight" ? Ranking::router_weight : Ranking::attention_output;
  moe.base_of = reader.choice("base_of", {"pairs", "rows"}, "pairs") == "rows" ? BaseOf::rows : BaseOf::pairs;
  moe.comes = reader.choice("beyond", {"cores", "load"}, "cores") == "load";
  moe.place = reader.choice("place", places, moe.place);
  if (moe.cold_by_time && moe.place != MoeConfig{}.place)
    reader.fail("place", "can not be combined with cold: by_time (expected load, or cold as a share)");
  moe.drift = reader.choice("drift", drifts, moe.drift);
  moe.resident = static_cast<Bytes>(reader.quantity("resident", Dimension::bytes, 0));
  moe.base = count_of(reader, "base", 0);
  moe.capacity = count_of(reader, "capacity", 0);
  if (moe.capacity > 0 && moe.tiers) reader.fail("capacity", "can not be combined with tiers (expected tiers: off, or base)");
  moe.shape_multiple = count_of(reader, "shape_multiple", 0);
  moe.graph_rows = count_of(reader, "graph_rows", 0);
  const double host = reader.quantity("host_per_token", Dimension::time, 0);
  if (host > 1) reader.fail("host_per_token", "is longer than 1 s (expected microseconds, such as 20 us)");
  moe.host_per_token = from_seconds(host);
  if (reader.has("multiples")) {
    moe.multiples.clear();
    for (const std::int64_t times : reader.integers("multiples", 1, 1024)) {
      if (!moe.multiples.empty() && times <= moe.multiples.back())
        reader.fail("multiples", "is not ascending (expected for example [1, 2, 4])");
      moe.multiples.push_back(static_cast<std::uint32_t>(times));
    }
    if (moe.multiples.empty()) reader.fail("multiples", "is empty (expected for example [1, 2, 4])");
  } else {
    std::vector<Node> multiples;
    for (const std::uint32_t times : moe.multiples) multiples.push_back(Node::scalar(std::to_string(times)));
    reader.rewrite("multiples", Node::list(std::move(multiples)));
  }
  moe.calibration = reader.text("calibration", "");
  if (reader.has("loads")) {
    if (!moe.calibration.empty()) reader.fail("loads", "can not be combined with calibration (expected one of the two)");
    moe.loads = read_loads(reader);
  }
  reader.finish();
  return moe;
}

}  // namespace vitro
