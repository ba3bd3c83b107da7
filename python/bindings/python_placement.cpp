#include "python_placement.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <limits>

namespace py = pybind11;

namespace vitro {
namespace {

class PythonPlacement final : public ExpertPlacement {
 public:
  PythonPlacement(PolicyClassPtr type, const PlaceOptions& o) : object_(std::move(type), attributes(o)), options_(o) {}

  std::vector<ExpertGraph> place(const LayerToPlace& at) override {
    if (object_.failed()) return {};
    return object_.call([&](const py::object& self) {
      py::list rooms;
      for (const UnitRoom& room : at.rooms) rooms.append(py::make_tuple(room.graphs, room.bytes));
      const py::object answer = self.attr("place")(at.layer, at.load.expected, at.load.capacity, rooms, at.rows);
      const std::string expected = fmt::format("a list of (experts, rows) or (experts, rows, unit), for layer {}", at.layer);
      if (!py::isinstance<py::iterable>(answer)) refuse(object_.type(), "place", answer, expected);
      std::vector<ExpertGraph> graphs;
      for (const py::handle item : answer) graphs.push_back(graph_of(at.layer, item, expected));
      add_to_decisions(graphs);
      return graphs;
    });
  }

 private:
  static PolicyValues attributes(const PlaceOptions& o) {
    return {{"layers", std::int64_t{o.layers}},        {"experts", std::int64_t{o.experts}},
            {"units", std::int64_t{o.by_load.units}},  {"group", std::int64_t{o.by_load.group}},
            {"multiple", std::int64_t{o.multiple}},    {"chunk", std::int64_t{o.chunk}},
            {"expert_bytes", static_cast<std::int64_t>(o.expert_bytes)}};
  }

  ExpertGraph graph_of(std::size_t layer, const py::handle& item, const std::string& expected) const {
    const PolicyClass& type = object_.type();
    const py::ssize_t parts = py::isinstance<py::sequence>(item) ? py::len(item) : 0;
    if (parts != 2 && parts != 3) refuse(type, "place", item, expected);
    const auto tuple = py::cast<py::list>(item);
    if (!py::isinstance<py::iterable>(tuple[0])) refuse(type, "place", item, expected);
    ExpertGraph graph;
    const std::string experts = fmt::format("experts 0 to {}, for layer {}", options_.experts - 1, layer);
    for (const py::handle expert : tuple[0])
      graph.experts.push_back(static_cast<std::uint16_t>(number_below(options_.experts, type, "place", expert, experts)));
    constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
    graph.rows = number_below(kMost, type, "place", tuple[1], fmt::format("whole numbers of rows, for layer {}", layer));
    if (parts == 2 || tuple[2].is_none()) return graph;
    const std::string units = fmt::format("units 0 to {} or None, for layer {}", options_.by_load.units - 1, layer);
    graph.unit = number_below(options_.by_load.units, type, "place", tuple[2], units);
    return graph;
  }

  void add_to_decisions(const std::vector<ExpertGraph>& graphs) {
    Hash& decisions = object_.type().decisions;
    for (const ExpertGraph& graph : graphs) {
      for (const std::uint16_t expert : graph.experts) decisions.add(std::uint64_t{expert});
      decisions.add(std::uint64_t{graph.rows} << 32 | (graph.unit ? *graph.unit + 1 : 0));
    }
    decisions.add(~std::uint64_t{0});
  }

  PolicyObject object_;
  PlaceOptions options_;
};

}  // namespace

PlaceRule python_placement(const PolicyClassPtr& type, const std::string& description) {
  return {type->name, description,
          [type](const PlaceOptions& o) -> std::unique_ptr<ExpertPlacement> { return std::make_unique<PythonPlacement>(type, o); }};
}

}  // namespace vitro
