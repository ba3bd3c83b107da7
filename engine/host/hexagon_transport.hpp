// How the CPU reaches a Hexagon worker: two shared regions and a program that polls them (engine/kernels/hexagon/protocol.hpp).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.hpp"
#include "engine/base/units.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro {

struct PacketCount {
  std::string function;
  std::uint64_t packets = 0, vector_packets = 0;             // executed; of these, with HVX instructions
  std::array<std::uint64_t, hexagon::kThreads> of_thread{};  // executed, by each thread of the worker
};

// Used from one thread at a time, but for clean(), which two may call for different bytes. Regions live as long as the transport, whatever
// becomes of workers.
class HexagonTransport {
 public:
  virtual ~HexagonTransport() = default;
  virtual std::string name() const = 0;
  virtual std::span<std::byte> inbound() = 0;   // the worker reads it
  virtual std::span<std::byte> outbound() = 0;  // the worker writes it

  // Starts a worker on the regions as they are. Requires: there is none.
  virtual Status start() = 0;
  virtual bool alive() = 0;
  virtual std::string exit_reason() { return {}; }  // why it is not alive, where that is known
  virtual int process() const { return -1; }  // of the worker, where it is a process of this machine
  // Ends the worker, by force if need be; after it nothing writes the regions but the CPU.
  virtual void stop() = 0;

  // Cache maintenance: what the CPU wrote here is about to be read by the worker; what the worker wrote here is about to be
  // read by the CPU.
  virtual void clean(const void* begin, Bytes length) = 0;
  virtual void invalidate(const void* begin, Bytes length) = 0;

  // Executed so far by all workers of this transport; empty where nothing counts.
  virtual std::vector<PacketCount> packets() const { return {}; }
};

using HexagonTransportFactory = std::function<std::unique_ptr<HexagonTransport>()>;

}  // namespace vitro
