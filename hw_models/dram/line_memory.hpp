// LineMemory: the boundary between traffic and memory, one line at a time. Behind it stand our own channels (channels.hpp) or
// anybody else's DRAM at a TLM-2.0 socket (hw_models/tlm/target_memory.hpp).
#pragma once
#include <cstdint>

#include "engine/base/units.hpp"

namespace vitro::hw {

class LineSink {
 public:
  virtual void line_finished(std::uint32_t tag) = 0;  // now; may push again
  virtual void room() = 0;                            // a line that was refused may fit now

 protected:
  ~LineSink() = default;
};

class LineMemory {
 public:
  virtual ~LineMemory() = default;

  virtual void connect(LineSink& sink) = 0;  // Requires: before the first line; the sink outlives the memory's last event
  // False when the queue that the line belongs to is full; room() is called when that may have changed.
  virtual bool try_push(std::uint64_t address, bool write, std::uint32_t tag) = 0;
  virtual Bytes capacity() const = 0;  // whole lines
  virtual Bytes line() const { return 32; }
};

}  // namespace vitro::hw
