// Context: all that a device model sees of the simulation around it.
#pragma once
#include <cstdint>
#include <string_view>

#include "engine/base/rng.hpp"
#include "engine/base/units.hpp"
#include "hw_models/callback.hpp"

namespace vitro::hw {

enum class Track : std::uint32_t {};

// What an event was, for the event hash: the device that scheduled it and one of its own kinds.
struct Label {
  std::uint16_t device = 0, kind = 0;
};

// One thread. Time never runs back; events of equal time come in the order in which they were scheduled, unless the
// simulation shuffles them to show that nothing depends on it.
class Context {
 public:
  virtual ~Context() = default;

  virtual Picoseconds now() const = 0;
  virtual void at(Picoseconds when, Label label, Callback action) = 0;  // Requires: when >= now()
  virtual std::uint16_t device(std::string_view name) = 0;              // a number for labels; by order of registration
  virtual Rng& rng(std::string_view stream) = 0;                        // independent of all other streams

  virtual bool tracing() const = 0;
  virtual Track track(std::string_view group, std::string_view name) = 0;
  virtual void span(Track track, Picoseconds begin, Picoseconds end, std::string_view name) = 0;
  virtual void counter(Track track, double value) = 0;
};

}  // namespace vitro::hw
