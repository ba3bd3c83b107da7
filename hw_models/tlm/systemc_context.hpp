// A Context whose time is SystemC's, with the default resolution of 1 ps: device models in a simulation of somebody else's.
#pragma once
#include <systemc>

#include "hw_models/event_loop.hpp"

namespace vitro::hw {

inline Picoseconds picoseconds(const sc_core::sc_time& t) { return Picoseconds(static_cast<std::int64_t>(t.value())); }

class SystemCContext final : public sc_core::sc_module, public Context {
 public:
  explicit SystemCContext(const sc_core::sc_module_name& name, std::uint64_t seed = 1);

  Picoseconds now() const override { return picoseconds(sc_core::sc_time_stamp()); }
  void at(Picoseconds when, Label label, Callback action) override;
  std::uint16_t device(std::string_view name) override { return loop_.device(name); }
  Rng& rng(std::string_view stream) override { return loop_.rng(stream); }
  bool tracing() const override { return false; }
  Track track(std::string_view, std::string_view) override { return {}; }
  void span(Track, Picoseconds, Picoseconds, std::string_view) override {}
  void counter(Track, double) override {}

 private:
  void run();

  EventLoop loop_;
  sc_core::sc_event wake_;
};

}  // namespace vitro::hw
