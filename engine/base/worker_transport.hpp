// How the host reaches a Hexagon's worker (engine/host/hexagon_transport.hpp).
#pragma once
#include <cstdint>

namespace vitro {

enum class WorkerTransport : std::uint8_t { automatic, fastrpc, qemu };  // automatic: FastRPC where its library is, else qemu-hexagon
inline constexpr const char* kWorkerTransportNames[] = {"auto", "fastrpc", "qemu"};

}  // namespace vitro
