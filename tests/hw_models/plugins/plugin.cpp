// One plug-in, built in several ways: as it should be, and with one fault each.
#include "hw_models/plugin.hpp"

#include <stdexcept>

namespace {

using namespace vitro;
using namespace vitro::hw;

constexpr ParamSpec kParams[] = {
    {"issue", Dimension::time, "", ""},
#ifndef WITHOUT_LINK
    {"link_bandwidth", Dimension::bandwidth, "1 GB/s", "any"},
#endif
};

class ConstantFlash final : public StorageModel {
 public:
  ConstantFlash(const Site& site, const Params& params)
      : context_(site.context), label_{site.context.device(site.name), 0}, issue_(params.time("issue")) {}
  const StorageLimits& limits() const override { return limits_; }
  Picoseconds issue_time(Hertz) const override { return issue_; }
  void submit(const IoRequest&, Callback done) override { context_.at(context_.now() + 2 * issue_, label_, done); }
  double bytes_moved(Picoseconds, Picoseconds) override { return 0; }

 private:
  Context& context_;
  Label label_;
  Picoseconds issue_;
  StorageLimits limits_{512 * KiB, 32};
};

#ifndef MODEL_NAME
#define MODEL_NAME "constant_flash.flow"
#endif

[[maybe_unused]] void add_models(Registry& registry) {
#ifdef THROWS
  throw std::runtime_error("no licence for this flash");
#endif
  registry.add(Entry<StorageModel>{
      MODEL_NAME, "a constant", {std::begin(kParams), std::end(kParams)}, {}, [](const Site& site, const Params& params) {
        return std::make_unique<ConstantFlash>(site, params);
      }});
}

[[maybe_unused]] void must_not_run(Registry&) { __builtin_trap(); }

}  // namespace

#ifdef FAULTY_INFO
extern "C" const PluginInfo vitro_plugin;
const PluginInfo vitro_plugin = {FAULTY_INFO, "faulty", "built for another version", must_not_run};
#else
VITRO_PLUGIN("constant", "for tests", add_models)
#endif
