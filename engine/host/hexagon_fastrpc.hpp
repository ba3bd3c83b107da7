// A Hexagon worker on a phone's compute DSP, reached through FastRPC: the vendor's library starts it and shares memory with it, requests go
// through the mailbox as everywhere. Never run on a phone (docs/design/hexagon.md says what tests show in its place).
#pragma once
#include <chrono>

#include "engine/host/hexagon_transport.hpp"

namespace vitro {

struct FastrpcHexagonOptions {
  std::string library;                       // empty: VITRO_FASTRPC of the environment, else libcdsprpc.so, as the system's loader finds it
  Bytes inbound = GiB, outbound = 64 * MiB;  // a phone has these pages from the start; each below 2 GiB
  std::chrono::milliseconds grace{200};      // from "stop" in the mailbox to the end of its process by force
  std::chrono::milliseconds patience{5000};  // from there to giving the regions up
};

// Whether the library is there, with all functions that are needed; `why` says what is missing.
bool have_fastrpc(std::string& why);

// Throws ConfigError when the library or one of its functions is missing, RunError when there is no shared memory.
// Each start() is a session, and so a process, of its own on the DSP; its loop is one invocation, which returns when the loop ends.
std::unique_ptr<HexagonTransport> make_fastrpc_hexagon(FastrpcHexagonOptions options = {});

}  // namespace vitro
