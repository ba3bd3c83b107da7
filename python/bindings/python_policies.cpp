#include "python_policies.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/base/check.hpp"
#include "engine/parts/brought_policies.hpp"
#include "engine/parts/register_parts.hpp"
#include "python_eviction.hpp"
#include "python_placement.hpp"

namespace py = pybind11;

namespace vitro {
namespace {

// What has left is not asked for again: that a block comes back can not be said.
class PythonKeep final : public KvKeep {
 public:
  PythonKeep(PolicyClassPtr type, const KvKeepOptions& o) : object_(std::move(type), attributes(o)) {
    object_.call([&](const py::object& self) {
      if (object_.type().has("capacity")) {
        const std::uint64_t end = std::uint64_t{o.kept_blocks} + 1;
        capacity_ = number_below(end, object_.type(), "capacity", self.attr("capacity")(), fmt::format("0 to {} blocks", o.kept_blocks));
      }
      if (object_.type().has("forgets_unseen")) forgets_ = py::bool_(self.attr("forgets_unseen")());
    });
  }

  std::uint32_t capacity() const override { return capacity_; }
  bool forgets_unseen() const override { return forgets_; }
  bool stays(std::uint32_t block, std::uint32_t full) const override {
    if (object_.failed()) return true;
    return object_.call([&](const py::object& self) {
      PolicyClass& type = object_.type();
      const py::object answer = self.attr("stays")(block, full);
      const std::string where = fmt::format("block {} of {}", block, full);
      if (!py::isinstance<py::bool_>(answer)) refuse(type, "stays", answer, "True or False, for " + where);
      const bool stays = py::cast<bool>(answer);
      type.decisions.add(std::uint64_t{block} << 33 | std::uint64_t{full} << 1 | std::uint64_t{stays});
      if (block >= gone_at_.size()) gone_at_.resize(block + 1, kNever);
      if (!stays && gone_at_[block] > full) {
        gone_at_[block] = full;
        const auto gone = static_cast<std::uint32_t>(std::ranges::count_if(gone_at_, [full](std::uint32_t at) { return at <= full; }));
        if (full - gone < capacity_) {
          refuse(type, "stays", answer, fmt::format("True for {}: capacity() says that {} stay", where, capacity_));
        }
      }
      return stays;
    });
  }

 private:
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
  static PolicyValues attributes(const KvKeepOptions& o) {
    return {{"kept_blocks", std::int64_t{o.kept_blocks}}, {"sink_blocks", std::int64_t{o.sink_blocks}}};
  }

  mutable PolicyObject object_;
  mutable std::vector<std::uint32_t> gone_at_;  // by block: the least number of full ones at which it did not stay
  std::uint32_t capacity_ = 0;
  bool forgets_ = true;
};

class PythonDrift final : public ExpertDrift {
 public:
  explicit PythonDrift(PolicyClassPtr type) : object_(std::move(type), {}) {}
  std::optional<ExpertLoads> follow(const LoadsSeen& seen) override {
    if (object_.failed()) return std::nullopt;
    return object_.call([&](const py::object& self) -> std::optional<ExpertLoads> {
      PolicyClass& type = object_.type();
      const py::object answer = self.attr("follow")(seen.expected, seen.observed, seen.overflowed, seen.overlap, seen.max_drop);
      type.decisions.add(std::uint64_t{answer.is_none()});
      if (answer.is_none()) return std::nullopt;
      const std::string expected = fmt::format("None, or {} lists of {} shares, each of 0 or more and a list's sum 1", seen.expected.size(),
                                               seen.expected.front().size());
      ExpertLoads loads;
      try {
        loads = py::cast<ExpertLoads>(answer);
      } catch (const py::cast_error&) {
        refuse(type, "follow", answer, expected);
      }
      bool fits = loads.size() == seen.expected.size();
      for (std::size_t layer = 0; fits && layer < loads.size(); ++layer) {
        double sum = 0;
        for (const double share : loads[layer]) fits = fits && share >= 0, sum += share;
        fits = fits && loads[layer].size() == seen.expected[layer].size() && std::abs(sum - 1) < 1e-6;
      }
      if (!fits) refuse(type, "follow", answer, expected);
      for (const std::vector<double>& layer : loads) {
        for (const double share : layer) type.decisions.add(std::bit_cast<std::uint64_t>(share));
      }
      return loads;
    });
  }

 private:
  PolicyObject object_;
};

py::list rows_of(const std::vector<ExpertChoice>& choices) {
  py::list rows;
  for (const ExpertChoice& choice : choices) rows.append(py::make_tuple(choice.ids, choice.weights));
  return rows;
}

class PythonLookAhead final : public LookAheadRule {
 public:
  PythonLookAhead(PolicyClassPtr type, const LookAheadOptions& o) : object_(std::move(type), attributes(o)) {}
  void chose(std::int16_t layer, const std::vector<ExpertChoice>& choices) override {
    if (object_.failed() || !object_.type().has("chose")) return;
    object_.call([&](const py::object& self) { self.attr("chose")(layer, rows_of(choices)); });
  }
  void want(std::int16_t layer, const std::vector<ExpertChoice>& guess, std::vector<bool>& wanted) override {
    if (object_.failed()) return;
    object_.call([&](const py::object& self) {
      PolicyClass& type = object_.type();
      const py::object answer = self.attr("want")(layer, rows_of(guess));
      const std::string expected = fmt::format("experts of layer {}, 0 to {}", layer, wanted.size() - 1);
      if (!py::isinstance<py::iterable>(answer)) refuse(type, "want", answer, expected);
      for (const py::handle item : answer) {
        const std::uint32_t expert = number_below(wanted.size(), type, "want", item, expected);
        wanted[expert] = true;
        type.decisions.add(std::uint64_t{expert});
      }
      type.decisions.add(~std::uint64_t{0});
    });
  }

 private:
  static PolicyValues attributes(const LookAheadOptions& o) {
    return {{"experts", std::int64_t{o.experts}}, {"used", std::int64_t{o.used}}};
  }

  PolicyObject object_;
};

void register_policy(const PolicyClassPtr& type, const py::handle& row) {
  const auto text = py::cast<std::string>(row["description"]);
  if (type->kind == "eviction") {
    const auto by = py::cast<std::string>(row["by"]);
    if (by == "log") return evictions().add(logged_eviction(type, py::cast<std::string>(row["rule"])));
    evictions().add(by == "future" ? foresighted_eviction(type) : python_eviction(type, text));
  } else if (type->kind == "keep") {
    const bool follows_budget = py::cast<bool>(row["follows_budget"]);
    kv_keep_rules().add({type->name, text, follows_budget, [type](const KvKeepOptions& o) -> std::unique_ptr<KvKeep> {
                           return std::make_unique<PythonKeep>(type, o);
                         }});
  } else if (type->kind == "drift") {
    drift_rules().add({type->name, text, [type]() -> std::unique_ptr<ExpertDrift> { return std::make_unique<PythonDrift>(type); }});
  } else if (type->kind == "place") {
    place_rules().add(python_placement(type, text));
  } else {
    look_ahead_rules().add({type->name, text, [type](const LookAheadOptions& o) -> std::unique_ptr<LookAheadRule> {
                              return std::make_unique<PythonLookAhead>(type, o);
                            }});
  }
}

void forget_policy(const PolicyClass& type) {
  if (type.kind == "eviction") evictions().remove(type.name);
  if (type.kind == "keep") kv_keep_rules().remove(type.name);
  if (type.kind == "drift") drift_rules().remove(type.name);
  if (type.kind == "look_ahead") look_ahead_rules().remove(type.name);
  if (type.kind == "place") place_rules().remove(type.name);
}

}  // namespace

void bind_policy_types(py::module_& m) { bind_held(m); }

BroughtToRun::BroughtToRun(const py::list& rows) {
  try {
    for (const py::handle row : rows) {
      auto type = std::make_shared<PolicyClass>();
      type->type = py::reinterpret_borrow<py::object>(row["class"]);
      type->kind = py::cast<std::string>(row["kind"]);
      type->name = py::cast<std::string>(row["name"]);
      type->title = py::cast<std::string>(row["title"]);
      type->methods = py::cast<std::set<std::string, std::less<>>>(row["methods"]);
      register_policy(type, row);
      classes_.push_back(std::move(type));
    }
  } catch (...) {
    for (const PolicyClassPtr& type : classes_) forget_policy(*type);
    throw;
  }
}

BroughtToRun::~BroughtToRun() {
  for (const PolicyClassPtr& type : classes_) forget_policy(*type);
}

nlohmann::ordered_json BroughtToRun::report(double run_seconds) const {
  auto rows = nlohmann::ordered_json::array();
  for (const PolicyClassPtr& type : classes_) {
    if (!type->failure.empty()) throw RunError(type->failure);
    if (type->objects == 0) continue;  // this run did not name it
    const double seconds = to_seconds(type->spent);
    nlohmann::ordered_json row{{"name", type->name}, {"kind", type->kind}, {"objects", type->objects}};
    if (type->calls > 0) {
      row["calls"] = type->calls;
      row["us_per_call"] = seconds / static_cast<double>(type->calls) * 1e6;
      row["seconds"] = seconds;
      row["share_of_run"] = run_seconds > 0 ? seconds / run_seconds : 0;
      row["decisions"] = type->decisions.hex();
      row["by_token"] = type->by_token;
    }
    if (type->foresight.accesses > 0) {
      row["accesses"] = type->foresight.accesses;
      row["unforeseen"] = type->foresight.unforeseen;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace vitro
