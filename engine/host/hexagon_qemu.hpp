// A Hexagon worker in qemu-hexagon: the transport of machines without a Hexagon.
#pragma once
#include "engine/host/hexagon_transport.hpp"

namespace vitro {

struct QemuHexagonOptions {
  std::string worker;                        // program; empty: the one that this build made
  std::string counter;                       // TCG plugin that counts packets; empty: the one that this build made, if any
  Bytes inbound = GiB, outbound = 64 * MiB;  // address space: pages appear when they are touched
  bool matrix_unit = true;                   // of the plugin; false: the worker multiplies in its own code, a hundred times slower
};

// True when this build has a worker, and qemu-hexagon is on the PATH.
bool have_qemu_hexagon();

// Throws ConfigError when there is no worker program or no qemu-hexagon, RunError when there is no shared memory.
std::unique_ptr<HexagonTransport> make_qemu_hexagon(QemuHexagonOptions options = {});

}  // namespace vitro
