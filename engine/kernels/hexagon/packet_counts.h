// The counters that the plugin and its reader share.
#pragma once
#include <stdint.h>

enum { kPacketSymbol = 48, kPacketEntries = 256, kPacketThreads = 8 };

struct packet_count {
  char symbol[kPacketSymbol];  // of the function, cut to fit
  // By thread, in the order in which they start; the last one takes the rest. Each thread writes its own alone.
  uint64_t packets[kPacketThreads];         // executed
  uint64_t vector_packets[kPacketThreads];  // of these, with at least one HVX instruction
};

struct packet_table {
  uint32_t count, reserved;
  struct packet_count entries[kPacketEntries];
};
