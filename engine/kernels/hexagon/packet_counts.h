// The counters that the plugin and its reader share.
#pragma once
#include <stdint.h>

enum { kPacketSymbol = 48, kPacketEntries = 256 };

struct packet_count {
  char symbol[kPacketSymbol];  // of the function, cut to fit
  uint64_t packets;            // executed
  uint64_t vector_packets;     // of these, with at least one HVX instruction
};

struct packet_table {
  uint32_t count, reserved;
  struct packet_count entries[kPacketEntries];
};
