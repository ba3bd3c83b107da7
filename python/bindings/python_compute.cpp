#include "python_compute.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace vitro {
namespace {

constexpr std::uint16_t kCallEnds = 0;  // kind of the events of a unit

using Kernel = std::pair<std::string, std::string>;  // contract and weight format

// By value: a model may keep it for longer than its unit lives.
struct SeenWork {
  hw::Work work;
  Kernel kernel;
};

// What capabilities() may say. A set flag is 1.
void set_capability(hw::DispatchCosts& dispatch, const std::string& key, double value, const std::string& who) {
  const std::map<std::string, std::uint32_t*> counts{{"graph_axis", &dispatch.graph_axis},
                                                     {"graph_count", &dispatch.graph_count},
                                                     {"shape_multiple", &dispatch.shape_multiple}};
  const std::map<std::string, Bytes*> bytes{{"session_limit", &dispatch.session_limit}, {"graph_weights", &dispatch.graph_weights}};
  const std::map<std::string, bool*> flags{{"static_graphs", &dispatch.static_graphs}, {"fixed_batch", &dispatch.fixed_batch}};
  const std::map<std::string, Picoseconds*> times{
      {"build_ps", &dispatch.build}, {"load_ps", &dispatch.load}, {"switch_graph_ps", &dispatch.switch_graph}};
  std::vector<std::string> known;
  for (const auto& [name, at] : counts) known.push_back(name);
  for (const auto& [name, at] : bytes) known.push_back(name);
  for (const auto& [name, at] : flags) known.push_back(name);
  for (const auto& [name, at] : times) known.push_back(name);
  const auto is_whole = [&](double most) { return value >= 0 && value <= most && std::floor(value) == value; };
  const auto fail = [&](const std::string& expected) {
    throw RunError(fmt::format("the device model {}: capabilities() says {}: {} (expected {})", who, key, value, expected));
  };
  if (const auto found = flags.find(key); found != flags.end()) {
    if (value != 0 && value != 1) fail("True or False");
    *found->second = value == 1;
  } else if (const auto count = counts.find(key); count != counts.end()) {
    if (!is_whole(1e9) || (key == "shape_multiple" && value < 1)) fail("a whole number");
    *count->second = static_cast<std::uint32_t>(value);
  } else if (const auto size = bytes.find(key); size != bytes.end()) {
    if (!is_whole(1e15)) fail("a whole number of bytes");
    *size->second = static_cast<Bytes>(value);
  } else if (const auto time = times.find(key); time != times.end()) {
    if (!is_whole(9e15)) fail("a whole number of picoseconds");
    *time->second = Picoseconds(static_cast<std::int64_t>(value));
  } else {
    throw RunError(fmt::format("the device model {}: capabilities() says {}, which is none (expected some of: {})", who, key,
                               fmt::join(known, ", ")));
  }
}

class PythonCompute final : public hw::ComputeModel {
 public:
  PythonCompute(const hw::Site& site, const hw::Params& params, ModelClassPtr type, bool core)
      : context_(site.context),
        dram_(*site.dram),
        port_(core ? site.port : dram_.add_port({site.name, params.bandwidth("bandwidth"), site.port, 1})),
        device_(context_.device(site.name)),
        full_clock_(core ? params.frequency("clock").value : 0),
        clock_{full_clock_},
        model_(params, type) {
    for (const auto& [key, value] : model_.ask<std::map<std::string, double>>("capabilities")) {
      set_capability(dispatch_, key, value, type->name);
    }
    dispatch_.wake_up = params.time(core ? "wake_up" : "launch");
    dispatch_.hand_back = params.time(core ? "hand_back" : "synchronise");
    if (core) dispatch_.spin = params.time("spin");
  }

  const hw::DispatchCosts& dispatch() const override { return dispatch_; }
  hw::KernelCost kernel(std::string_view variant, std::string_view format) override {
    // Tables may price some ways of a format apart, and some operators by themselves; a class prices contracts and formats.
    const bool is_operator = variant == "op" || variant == "softmax" || variant == "int8_activations";
    if (is_operator || format.find('.') != std::string_view::npos) return {};
    const Kernel key(variant, format);
    const auto [found, is_new] = kernels_.try_emplace(key);
    if (is_new) {
      found->second = {static_cast<std::uint16_t>(named_.size()), model_.ask<bool>("prices", key.first, key.second)};
      named_.push_back(&found->first);
    }
    return found->second;
  }
  std::string objection(std::string_view op, std::string_view format) const override {
    return model_.ask<std::string>("objection", std::string(op), std::string(format));
  }

  void submit(const hw::Work& work, hw::Callback done) override {
    VITRO_CHECK(!busy_, "a unit runs one call at a time");
    const Picoseconds now = context_.now();
    busy_ = true;
    stolen_ = Picoseconds(0);
    done_ = done;
    computed_ = model_.serve(now, SeenWork{work, *named_.at(work.kernel)}) - now;
    if (slowed_ > 1) computed_ = Picoseconds(static_cast<std::int64_t>(static_cast<double>(computed_.count()) * slowed_));
    const Bytes bytes = work.read_bytes + work.written_bytes;
    if (bytes == 0) return context_.at(now + computed_, {device_, kCallEnds}, [this] { end_call(); });
    dram_.submit({.port = port_, .length = bytes, .written = work.written_bytes, .pace = computed_}, [this] { end_call(); });
  }
  void preempt(Picoseconds duration) override {
    if (busy_) stolen_ += duration;
  }
  void set_clock_scale(double share) override {
    clock_.value = full_clock_ * share;
    slowed_ = 1 / share;
  }
  Picoseconds computed() const override { return computed_; }
  Hertz clock() const override { return clock_; }

 private:
  void end_call() {
    if (stolen_.count() > 0) {
      const Picoseconds end = context_.now() + std::exchange(stolen_, Picoseconds(0));
      return context_.at(end, {device_, kCallEnds}, [this] { end_call(); });
    }
    busy_ = false;
    done_();
  }

  hw::Context& context_;
  hw::DramModel& dram_;
  hw::PortId port_;
  std::uint16_t device_;
  double full_clock_;  // Hz; 0 of an accelerator
  Hertz clock_;
  double slowed_ = 1;
  mutable Served model_;
  hw::DispatchCosts dispatch_;
  const Kernel none_;  // of a call without weights
  std::map<Kernel, hw::KernelCost> kernels_;
  std::vector<const Kernel*> named_{&none_};  // by KernelCost::id

  bool busy_ = false;
  Picoseconds computed_{0}, stolen_{0};  // of the last call; by system work, still to be added to the call in progress
  hw::Callback done_;
};

}  // namespace

std::unique_ptr<hw::ComputeModel> make_python_compute(const hw::Site& site, const hw::Params& params, ModelClassPtr type, bool core) {
  return std::make_unique<PythonCompute>(site, params, std::move(type), core);
}

void bind_compute_types(py::module_& m) {
  py::class_<SeenWork> work(m, "Work");
  const auto of = [&work](const char* name, auto member) {
    work.def_property_readonly(name, [member](const SeenWork& seen) { return seen.work.*member; });
  };
  work.def_property_readonly("variant", [](const SeenWork& seen) { return seen.kernel.first; });
  work.def_property_readonly("format", [](const SeenWork& seen) { return seen.kernel.second; });
  of("rows", &hw::Work::rows);
  of("columns", &hw::Work::columns);
  of("depth", &hw::Work::depth);
  of("read_bytes", &hw::Work::read_bytes);
  of("weight_bytes", &hw::Work::weight_bytes);
  of("written_bytes", &hw::Work::written_bytes);
  of("macs", &hw::Work::macs);
  of("elementwise", &hw::Work::elementwise);
  of("elements", &hw::Work::elements);
  of("lookups", &hw::Work::lookups);
  of("conversions", &hw::Work::conversions);
  of("weight_bits", &hw::Work::weight_bits);
  of("group", &hw::Work::group);
  of("row_runs", &hw::Work::row_runs);
  of("sequence_rows", &hw::Work::sequence_rows);
  of("query_heads", &hw::Work::query_heads);
  of("shared_macs", &hw::Work::shared_macs);
  of("tile_queries", &hw::Work::tile_queries);
}

}  // namespace vitro
