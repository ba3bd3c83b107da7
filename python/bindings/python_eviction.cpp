// python_eviction() and Belady's rule with data of Python: python_eviction.hpp.
#include "python_eviction.hpp"

#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "engine/base/check.hpp"
#include "engine/parts/weights/belady.hpp"

namespace py = pybind11;

namespace vitro {
namespace {

using Held = std::function<bool(std::uint32_t)>;

// What victim() may ask, for as long as it runs.
class HeldBack {
 public:
  bool at(std::int64_t block) const {
    if (held_ == nullptr) throw py::value_error("held() can be asked while victim() runs, and no longer");
    if (block < 0 || block >= blocks_) throw py::index_error(fmt::format("held({}): expected 0 to {}", block, blocks_ - 1));
    return (*held_)(static_cast<std::uint32_t>(block));
  }
  explicit HeldBack(std::uint32_t blocks) : blocks_(blocks) {}

 private:
  friend class HeldDuring;
  std::int64_t blocks_;
  const Held* held_ = nullptr;
};

class HeldDuring {
 public:
  HeldDuring(HeldBack& back, const Held& held) : back_(back) { back_.held_ = &held; }
  HeldDuring(const HeldDuring&) = delete;
  HeldDuring& operator=(const HeldDuring&) = delete;
  ~HeldDuring() { back_.held_ = nullptr; }

 private:
  HeldBack& back_;
};

py::list list_of(std::span<const std::uint32_t> blocks) {
  py::list list(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) list[i] = blocks[i];
  return list;
}

class PythonEviction final : public Eviction {
 public:
  PythonEviction(PolicyClassPtr type, const EvictionOptions& o)
      : object_(std::move(type), attributes(o)), there_(o.blocks), each_(object_.type().has("touch_each")) {
    const py::gil_scoped_acquire gil;
    seen_ = py::cast(HeldBack(o.blocks));
    back_ = py::cast<HeldBack*>(seen_);
  }
  PythonEviction(const PythonEviction&) = delete;
  PythonEviction& operator=(const PythonEviction&) = delete;
  ~PythonEviction() override {
    const py::gil_scoped_acquire gil;
    seen_ = py::object();
  }

  void insert(std::uint32_t block) override {
    there_[block] = true;
    tell("insert", [block](const py::object& o) { o.attr("insert")(block); });
  }
  void touch(std::uint32_t block) override {
    if (each_) return touch_each(std::span(&block, 1));
    tell("touch", [block](const py::object& o) { o.attr("touch")(block); });
  }
  void touch_each(std::span<const std::uint32_t> blocks) override {
    if (blocks.empty()) return;
    if (each_) return tell("touch_each", [&](const py::object& o) { o.attr("touch_each")(list_of(blocks)); });
    tell("touch", [&](const py::object& o) {  // one change of threads' owner for all of them
      object_.type().calls += blocks.size() - 1;
      const py::object touch = o.attr("touch");
      for (const std::uint32_t block : blocks) touch(block);
    });
  }
  void erase(std::uint32_t block) override {
    there_[block] = false;
    tell("erase", [block](const py::object& o) { o.attr("erase")(block); });
  }
  void newcomer(std::uint32_t block) override {
    tell("newcomer", [block](const py::object& o) { o.attr("newcomer")(block); });
  }
  std::optional<std::uint32_t> victim(const Held& held) override { return choose("victim", held); }
  std::optional<std::uint32_t> victim_at_any_price(const Held& held) override {
    return choose(object_.type().has("victim_at_any_price") ? "victim_at_any_price" : "victim", held);
  }
  void weigh(std::uint32_t block, float weight) override {
    tell("weigh", [block, weight](const py::object& o) { o.attr("weigh")(block, weight); });
  }
  void next_layer() override {
    tell("next_layer", [](const py::object& o) { o.attr("next_layer")(); });
  }
  std::vector<std::uint32_t> next_token() override {
    std::vector<std::uint32_t> left;
    PolicyClass& type = object_.type();
    if (type.has("next_token") && !object_.failed()) {
      object_.call([&](const py::object& o) {
        const py::object answer = o.attr("next_token")();
        if (!answer.is_none()) left = leaving(answer);
      });
    }
    for (const std::uint32_t block : left) type.decisions.add(std::uint64_t{block});
    type.by_token.push_back(type.decisions.value());
    return left;
  }

 private:
  static PolicyValues attributes(const EvictionOptions& o) {
    return {{"blocks", std::int64_t{o.blocks}}, {"capacity", std::int64_t{o.capacity}}, {"window", o.window},
            {"layers", std::int64_t{o.layers}}};
  }
  template <class Work>
  void tell(std::string_view method, const Work& work) {
    if (object_.type().has(method) && !object_.failed()) object_.call(work);
  }
  std::optional<std::uint32_t> choose(const char* method, const Held& held) {
    if (object_.failed()) return std::nullopt;
    PolicyClass& type = object_.type();
    const std::optional<std::uint32_t> chosen = object_.call([&](const py::object& o) -> std::optional<std::uint32_t> {
      const HeldDuring during(*back_, held);
      const py::object answer = o.attr(method)(seen_);
      if (answer.is_none()) return std::nullopt;
      const std::uint32_t block = number_below(there_.size(), type, method, answer, "the number of a resident block, or None");
      if (!there_[block]) refuse(type, method, answer, "a block that is resident, which this one is not, or None");
      if (held(block)) refuse(type, method, answer, "a block that the layer at hand does not use, so that held(block) is false, or None");
      return block;
    });
    type.decisions.add(chosen ? std::uint64_t{*chosen} : ~std::uint64_t{0});
    return chosen;
  }
  std::vector<std::uint32_t> leaving(const py::object& answer) const {
    const PolicyClass& type = object_.type();
    constexpr const char* kExpected = "a list of resident blocks, each once, or None";
    if (!py::isinstance<py::iterable>(answer)) refuse(type, "next_token", answer, kExpected);
    std::vector<std::uint32_t> left;
    std::vector<bool> there = there_;
    for (const py::handle item : answer) {
      const std::uint32_t block = number_below(there_.size(), type, "next_token", item, kExpected);
      if (!there[block]) refuse(type, "next_token", answer, kExpected);
      there[block] = false;
      left.push_back(block);
    }
    return left;
  }

  PolicyObject object_;
  std::vector<bool> there_;  // by block
  bool each_;
  py::object seen_;
  HeldBack* back_ = nullptr;  // in seen_
};

using Ends = py::array_t<std::uint64_t, py::array::c_style | py::array::forcecast>;
using Blocks = py::array_t<std::uint32_t, py::array::c_style | py::array::forcecast>;

// (ends, blocks): of each run of a layer the end of its blocks in the second.
AccessLog log_of(const py::object& given, std::uint32_t blocks) {
  const auto [ends, all] = py::cast<std::pair<Ends, Blocks>>(given);
  AccessLog log;
  std::uint64_t begin = 0;
  for (py::ssize_t i = 0; i < ends.size(); ++i) {
    const std::uint64_t end = ends.at(i);
    if (end < begin || end > static_cast<std::uint64_t>(all.size())) throw RunError("belady: the accesses of the first run are damaged");
    const auto* data = all.data();
    log.emplace_back(data + begin, data + end);
    for (const std::uint32_t block : log.back()) {
      if (block >= blocks) throw RunError("belady: the first run had more blocks than this one (expected the same experiment)");
    }
    begin = end;
  }
  return log;
}

void hand_over(PolicyClass& policy, std::uint32_t number, const AccessLog& log) {
  const py::gil_scoped_acquire gil;
  std::vector<std::uint64_t> ends;
  std::vector<std::uint32_t> all;
  for (const std::vector<std::uint32_t>& step : log) {
    all.insert(all.end(), step.begin(), step.end());
    ends.push_back(all.size());
  }
  try {
    policy.type(number, Ends(static_cast<py::ssize_t>(ends.size()), ends.data()),
                Blocks(static_cast<py::ssize_t>(all.size()), all.data()));
  } catch (const std::exception& error) {  // a destructor calls this
    if (policy.failure.empty()) policy.failure = fmt::format("the accesses of {} can not be written down: {}", policy.name, error.what());
  }
}

}  // namespace

void bind_held(py::module_& m) { py::class_<HeldBack>(m, "Held").def("__call__", &HeldBack::at, py::arg("block")); }

EvictionRule python_eviction(const PolicyClassPtr& type, const std::string& description) {
  return {type->name, description,
          [type](const EvictionOptions& o) -> std::unique_ptr<Eviction> { return std::make_unique<PythonEviction>(type, o); }};
}

EvictionRule logged_eviction(const PolicyClassPtr& log, const std::string& rule) {
  return {log->name, "writes down what its cache is asked for", [log, rule](const EvictionOptions& o) {
            const std::uint32_t number = log->objects++;
            return logged(make_eviction(rule, o), [log, number](const AccessLog& found) { hand_over(*log, number, found); });
          }};
}

EvictionRule foresighted_eviction(const PolicyClassPtr& future) {
  return {future->name, "what is used again last, as a first run found", [future](const EvictionOptions& o) {
            const py::gil_scoped_acquire gil;
            AccessLog log;
            try {
              log = log_of(future->type(future->objects++), o.blocks);
            } catch (const py::error_already_set& error) {
              explain(*future, error);
            }
            // Lives in the class, which outlives the rule.
            return belady(log, o, std::shared_ptr<Foresight>(future, &future->foresight));
          }};
}

}  // namespace vitro
