#include "plan.hpp"

#include <nlohmann/json.hpp>

#include "composed.hpp"
#include "engine/app/experiment.hpp"
#include "engine/app/plan.hpp"
#include "engine/app/plan/plan_profile.hpp"

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

Json rows_of(const std::vector<BatchReuse>& batches) {
  Json out = Json::array();
  for (const BatchReuse& batch : batches) {
    Json buckets = Json::array();
    for (const ReuseBucket& b : batch.buckets) {
      buckets.push_back({{"first", b.first},
                         {"neurons", b.neurons},
                         {"blocks", b.blocks},
                         {"named", b.named},
                         {"fired", b.fired},
                         {"mostly", b.mostly},
                         {"named_blocks", b.named_blocks},
                         {"reuse", b.reuse},
                         {"used_within", b.used_within}});
    }
    out.push_back({{"batch", batch.batch},
                   {"rows", batch.rows},
                   {"buckets", std::move(buckets)},
                   {"missing", batch.missing},
                   {"completed", batch.completed}});
  }
  return out;
}

}  // namespace

std::string plan_facts_text(const std::string& tree) { return plan_facts(unpacked_tree(tree)).dump(); }

std::string plan_profile_text(const std::string& text) {
  const Node node = parse_json(text, "profile");
  Reader reader(node, "");
  ReuseRequest request;
  const auto number = [&](const char* key, std::int64_t otherwise) {
    return static_cast<std::uint32_t>(reader.integer(key, 1, std::int64_t{1} << 31, otherwise));
  };
  request.neurons = number("neurons", 0);
  request.per_block = number("per_block", 1);
  request.buckets = number("buckets", request.buckets);
  request.tokens = number("tokens", request.tokens);
  request.predicts = reader.boolean("predicts", true);
  request.keep_named = reader.boolean("keep_named", true);
  request.experts = static_cast<std::uint32_t>(reader.integer("experts", 0, 1 << 16, 0));
  request.experts_used = static_cast<std::uint32_t>(reader.integer("experts_used", 0, request.experts, 0));
  request.seed = number("seed", 1);
  request.batches.clear();
  const std::vector<Node> none;
  for (const Node& node : reader.has("limits") ? reader.list("limits") : none) {
    Reader limit(node, reader.name_of("limits"));
    const auto bound = [&](const char* key) { return static_cast<std::uint32_t>(limit.integer(key, 0, std::int64_t{1} << 31)); };
    request.limits.push_back({bound("hot"), bound("reach")});
    limit.finish();
  }
  for (const Node& batch : reader.list("batches")) request.batches.push_back(static_cast<std::uint32_t>(std::stoul(batch.text())));
  Json out = Json::array();
  if (reader.has("recording")) {
    const Recording recording = Recording::load(reader.text("recording"));
    const bool hottest_first = reader.boolean("hottest_first", false);
    if (!reader.boolean("apart", false)) {
      out.push_back(rows_of(reuse_of(recording, hottest_first, request)));
    } else {
      for (const FfnReuse& ffn : reuse_by_ffn(recording, hottest_first, request)) {
        out.push_back({{"layer", ffn.layer}, {"expert", ffn.expert}, {"batches", rows_of(ffn.batches)}});
      }
    }
    reader.finish();
    return out.dump();
  }
  const DrawProfile profile = read_profile(reader.child("profile"));
  for (const Node& layer : reader.list("layers")) {
    out.push_back(rows_of(reuse_of(profile, static_cast<std::int16_t>(std::stoi(layer.text())), request)));
  }
  reader.finish();
  return out.dump();
}

}  // namespace vitro
