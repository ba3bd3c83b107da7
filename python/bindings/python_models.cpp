#include "python_models.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "hw_models/cumulative_sum.hpp"
#include "python_compute.hpp"
#include "served_model.hpp"

namespace py = pybind11;

namespace vitro {
namespace {

enum Kind : std::uint16_t { kServed };

struct SeenDramRequest {
  std::string port;
  double cap = 0;  // bytes per second: the least between the port and the memory controller
  hw::DramRequest request;
};

// Of requests on their way: one without a length is free.
template <class Item>
std::uint32_t free_slot(std::vector<Item>& items) {
  std::uint32_t slot = 0;
  while (slot < items.size() && items[slot].length > 0) ++slot;
  if (slot == items.size()) items.emplace_back();
  return slot;
}

class PythonDram final : public hw::DramModel {
 public:
  PythonDram(const hw::Site& site, const hw::Params& params, ModelClassPtr type)
      : context_(site.context), label_{site.context.device(site.name), kServed}, model_(params, std::move(type)) {}

  hw::PortId add_port(const hw::PortSpec& spec) override {
    ports_.push_back({std::string(spec.name), std::min(ports_[static_cast<std::size_t>(spec.parent)].cap, spec.cap.value)});
    return hw::PortId(ports_.size() - 1);
  }

  void submit(const hw::DramRequest& request, hw::Callback done) override {
    const Picoseconds now = context_.now();
    if (request.length == 0) return context_.at(now + request.pace, label_, done);
    const Port& port = ports_[static_cast<std::size_t>(request.port)];
    const Picoseconds end = model_.serve(now, SeenDramRequest{port.name, port.cap, request});
    settle();
    Moving moving{0, request.length, request.written, done};
    if (end > now) {
      moving.rate = static_cast<double>(request.length) / to_seconds(end - now);
    } else {
      moved_.add(now, now, static_cast<double>(request.length));
    }
    rate_ += moving.rate;
    ++busy_;
    const std::uint32_t slot = free_slot(moving_);
    moving_[slot] = moving;
    context_.at(end, label_, [this, slot] { finish(slot); });
  }

  hw::DramTotals totals() override { return totals_; }
  double bytes_moved(Picoseconds begin, Picoseconds end) override {
    settle();
    return moved_.sum(begin, end);
  }
  double peak_rate(Picoseconds begin, Picoseconds end) override {
    settle();
    return moved_.peak_rate(begin, end);
  }

 private:
  struct Port {
    std::string name;
    double cap;
  };
  struct Moving {  // evenly from submission to completion
    double rate = 0;
    Bytes length = 0;
    Bytes written = 0;
    hw::Callback done;
  };

  void settle() {
    const Picoseconds now = context_.now();
    moved_.add(since_, now, rate_ * to_seconds(now - since_));
    since_ = now;
  }
  void finish(std::uint32_t slot) {
    settle();
    const Moving ended = std::exchange(moving_[slot], {});
    rate_ = --busy_ == 0 ? 0 : rate_ - ended.rate;  // at rest no rounding is left over
    totals_.bytes_written += static_cast<double>(ended.written);
    totals_.bytes_read += static_cast<double>(ended.length - ended.written);
    hw::Callback done = ended.done;
    done();
  }

  hw::Context& context_;
  hw::Label label_;
  Served model_;
  std::vector<Port> ports_{{"memory controller", std::numeric_limits<double>::infinity()}};
  std::vector<Moving> moving_;
  hw::CumulativeSum moved_;
  hw::DramTotals totals_;
  Picoseconds since_{0};
  double rate_ = 0;
  std::size_t busy_ = 0;
};

// The model says when the last byte would have left the device; on its way it is DMA, which a busy DRAM makes later.
class PythonStorage final : public hw::StorageModel {
 public:
  PythonStorage(const hw::Site& site, const hw::Params& params, ModelClassPtr type)
      : context_(site.context),
        dram_(*site.dram),
        port_(site.port),
        model_(params, std::move(type)),
        limits_{params.bytes("max_transfer"), static_cast<std::uint32_t>(params.positive("queue_depth"))},
        issue_cycles_(params.number("issue_cycles")),
        issue_fixed_(params.time("issue_fixed")) {}

  const hw::StorageLimits& limits() const override { return limits_; }
  Picoseconds issue_time(Hertz core_clock) const override { return issue_fixed_ + from_seconds(issue_cycles_ / core_clock.value); }
  void submit(const hw::IoRequest& request, hw::Callback done) override {
    const Picoseconds now = context_.now();
    const Picoseconds pace = model_.serve(now, request) - now;
    const std::uint32_t slot = free_slot(commands_);
    commands_[slot] = {request.length, done};
    const Bytes written = request.write ? 0 : request.length;  // to DRAM, by a read of the flash
    dram_.submit({.port = port_, .length = request.length, .written = written, .pace = pace}, [this, slot] { finish(slot); });
  }
  double bytes_moved(Picoseconds begin, Picoseconds end) override { return moved_.sum(begin, end); }

 private:
  struct Command {
    Bytes length = 0;
    hw::Callback done;
  };
  void finish(std::uint32_t slot) {
    Command ended = std::exchange(commands_[slot], {});
    moved_.add(context_.now(), context_.now(), static_cast<double>(ended.length));
    ended.done();
  }

  hw::Context& context_;
  hw::DramModel& dram_;
  hw::PortId port_;
  Served model_;
  hw::StorageLimits limits_;
  double issue_cycles_;
  Picoseconds issue_fixed_;
  std::vector<Command> commands_;
  hw::CumulativeSum moved_;
};

std::optional<Dimension> dimension_named(const std::string& name) {
  constexpr std::pair<std::string_view, Dimension> kNames[] = {{"number", Dimension::none},         {"time", Dimension::time},
                                                               {"bytes", Dimension::bytes},         {"bandwidth", Dimension::bandwidth},
                                                               {"frequency", Dimension::frequency}, {"ratio", Dimension::ratio}};
  for (const auto& [known, dimension] : kNames) {
    if (known == name) return dimension;
  }
  return std::nullopt;
}

std::vector<hw::ParamSpec> params_of(ModelClass& type, const py::handle& rows) {
  std::vector<hw::ParamSpec> specs;
  for (const py::handle row : rows) {
    const std::string_view key = type.keep(row["key"]), fallback = type.keep(row["default"]), source = type.keep(row["source"]);
    const auto word = py::cast<std::string>(row["dimension"]);
    const std::optional<Dimension> dimension = dimension_named(word);
    const std::string where = fmt::format("{}.parameters: {}: ", type.name, key);
    if (!dimension) throw ConfigError(fmt::format("{}\"{}\" (expected number, time, bytes, bandwidth, frequency or ratio)", where, word));
    double value = 0;
    if (!fallback.empty() && !parse_quantity(fallback, *dimension, value)) {
      throw ConfigError(fmt::format("{}the default \"{}\" is none (expected {})", where, fallback, describe(*dimension)));
    }
    specs.push_back({key, *dimension, fallback, source});
  }
  return specs;
}

template <class Contract>
hw::Entry<Contract> entry_of(const ModelClassPtr& type, const py::handle& row, hw::Factory<Contract> make) {
  return {fmt::format("{}.{}", type->name, py::cast<std::string>(row["fidelity"])), py::cast<std::string>(row["description"]),
          params_of(*type, row["parameters"]), {}, std::move(make)};
}

template <class Contract, class Model>
hw::Factory<Contract> maker_of(const ModelClassPtr& type) {
  return [type](const hw::Site& site, const hw::Params& params) { return std::make_unique<Model>(site, params, type); };
}

}  // namespace

void bind_model_types(py::module_& m) {
  bind_compute_types(m);
  py::class_<SeenParams>(m, "Params").def("__getitem__", &SeenParams::at);
  const auto of = [](auto member) { return [member](const SeenDramRequest& seen) { return seen.request.*member; }; };
  py::class_<SeenDramRequest>(m, "DramRequest")
      .def_readonly("port", &SeenDramRequest::port)
      .def_readonly("cap", &SeenDramRequest::cap)
      .def_property_readonly("length", of(&hw::DramRequest::length))
      .def_property_readonly("written", of(&hw::DramRequest::written))
      .def_property_readonly("chunk", of(&hw::DramRequest::chunk))
      .def_property_readonly("stride", of(&hw::DramRequest::stride))
      .def_property_readonly("pace_ps", [](const SeenDramRequest& seen) { return seen.request.pace.count(); })
      .def_property_readonly("address", [](const SeenDramRequest& seen) {
        return seen.request.address == hw::kNextAddress ? std::nullopt : std::optional(seen.request.address);
      });
  py::class_<hw::IoRequest>(m, "IoRequest")
      .def_readonly("address", &hw::IoRequest::address)
      .def_readonly("length", &hw::IoRequest::length)
      .def_readonly("write", &hw::IoRequest::write)
      .def_readonly("sequential", &hw::IoRequest::sequential)
      .def_readonly("issuer", &hw::IoRequest::issuer);
}

hw::AddModels add_python_models(const py::list& models) {
  std::vector<hw::Entry<hw::DramModel>> drams;
  std::vector<hw::Entry<hw::StorageModel>> storages;
  std::vector<hw::Entry<hw::ComputeModel>> units;
  for (const py::handle row : models) {
    auto type = std::make_shared<ModelClass>();
    type->type = py::reinterpret_borrow<py::object>(row["class"]);
    type->name = py::cast<std::string>(row["name"]);
    const auto kind = py::cast<std::string>(row["kind"]);
    if (kind == "dram") {
      drams.push_back(entry_of<hw::DramModel>(type, row, maker_of<hw::DramModel, PythonDram>(type)));
    } else if (kind == "storage") {
      storages.push_back(entry_of<hw::StorageModel>(type, row, maker_of<hw::StorageModel, PythonStorage>(type)));
    } else {
      const bool core = kind == "core";
      units.push_back(entry_of<hw::ComputeModel>(type, row, [type, core](const hw::Site& site, const hw::Params& params) {
        return make_python_compute(site, params, type, core);
      }));
    }
  }
  return [drams = std::move(drams), storages = std::move(storages), units = std::move(units)](hw::Registry& registry) {
    for (const auto& entry : drams) registry.add(entry);
    for (const auto& entry : storages) registry.add(entry);
    for (const auto& entry : units) registry.add(entry);
  };
}

}  // namespace vitro
