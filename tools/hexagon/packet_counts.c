// A QEMU TCG plugin that counts executed packets by function and thread: for Hexagon, what QEMU calls an instruction is a VLIW packet.
//
//   qemu-hexagon -cpu v67 -plugin libvitro_packet_counts.so,fd=5 PROGRAM      5: a file of sizeof(struct packet_table) bytes
//
// Counters live in that file, so that they can be read while the program runs and after it was killed; a program that is
// started again goes on counting. What a block has of one function is counted when its first packet runs: a callback knows its thread,
// which QEMU's inline counters do not. Debian ships no qemu-plugin.h: the entry points of plugin interface 1 are declared here.
#include "engine/kernels/hexagon/packet_counts.h"
#include "engine/kernels/hexagon/matrix_call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORTED __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct plugin_info;
struct plugin_block;
struct plugin_insn;
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*translated)(plugin_id, struct plugin_block*));
extern size_t qemu_plugin_tb_n_insns(const struct plugin_block* block);
extern struct plugin_insn* qemu_plugin_tb_get_insn(const struct plugin_block* block, size_t index);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct plugin_insn* insn, void (*executed)(unsigned int, void*), int registers,
                                                   void* data);
extern void qemu_plugin_register_vcpu_mem_cb(struct plugin_insn* insn, void (*accessed)(unsigned int, uint32_t, uint64_t, void*),
                                             int registers, int accesses, void* data);
extern void* qemu_plugin_insn_haddr(const struct plugin_insn* insn);
extern uint64_t qemu_plugin_insn_vaddr(const struct plugin_insn* insn);
extern const void* qemu_plugin_insn_data(const struct plugin_insn* insn);
extern size_t qemu_plugin_insn_size(const struct plugin_insn* insn);
extern const char* qemu_plugin_insn_symbol(const struct plugin_insn* insn);

EXPORTED int qemu_plugin_version = 1;

static struct packet_table* table;
static bool matrix_unit = true;
enum { kWrites = 2 };

// matrix_unit.cpp
extern void vitro_matrix_unit(unsigned char* base, uint32_t address);

static struct packet_count* entry_of(const char* symbol) {
  uint32_t i = 0;
  for (; i < table->count; ++i) {
    if (strncmp(table->entries[i].symbol, symbol, kPacketSymbol - 1) == 0) return &table->entries[i];
  }
  if (i == kPacketEntries) return &table->entries[i - 1];  // the last one takes the rest
  strncpy(table->entries[i].symbol, symbol, kPacketSymbol - 1);
  __atomic_store_n(&table->count, i + 1, __ATOMIC_RELEASE);
  return &table->entries[i];
}

// A word of a packet is an HVX instruction when its class (bits 31:28) is 1 or 2 with bit 27 set; without that bit these are
// compare-and-jump instructions. Parse bits 15:14 of zero mark a duplex of two scalar instructions.
static bool is_vector_word(uint32_t word) {
  const uint32_t class = word >> 28;
  return (word & 0xc000u) != 0 && (class == 1 || class == 2) && (word >> 27 & 1) != 0;
}

// Packets of one function that follow one another in a block.
struct run {
  struct packet_count* entry;
  uint32_t packets, vector_packets;
};

static void executed(unsigned int thread, void* data) {
  const struct run* run = data;
  if (thread >= kPacketThreads) thread = kPacketThreads - 1;
  run->entry->packets[thread] += run->packets;
  run->entry->vector_packets[thread] += run->vector_packets;
}

static void asked(unsigned int thread, uint32_t access, uint64_t address, void* base) {
  (void)thread, (void)access;
  vitro_matrix_unit(base, (uint32_t)address);
}

static void translated(plugin_id id, struct plugin_block* block) {
  (void)id;
  struct run* run = NULL;
  for (size_t i = 0, n = qemu_plugin_tb_n_insns(block); i < n; ++i) {
    struct plugin_insn* packet = qemu_plugin_tb_get_insn(block, i);
    const char* symbol = qemu_plugin_insn_symbol(packet);
    if (matrix_unit && symbol != NULL && strcmp(symbol, VITRO_MATRIX_DOORBELL) == 0) {
      unsigned char* base = (unsigned char*)qemu_plugin_insn_haddr(packet) - qemu_plugin_insn_vaddr(packet);
      qemu_plugin_register_vcpu_mem_cb(packet, asked, 0, kWrites, base);
    }
    struct packet_count* entry = entry_of(symbol != NULL && *symbol != 0 ? symbol : "?");
    if (run == NULL || run->entry != entry) {
      run = calloc(1, sizeof *run);  // as long as the program: blocks are translated again, but seldom
      if (run == NULL) abort();
      run->entry = entry;
      qemu_plugin_register_vcpu_insn_exec_cb(packet, executed, 0, run);
    }
    ++run->packets;
    const unsigned char* data = qemu_plugin_insn_data(packet);
    bool vector = false;
    for (size_t at = 0; at + 4 <= qemu_plugin_insn_size(packet); at += 4) {
      uint32_t word;
      memcpy(&word, data + at, sizeof word);
      vector = vector || is_vector_word(word);
    }
    run->vector_packets += vector;
  }
}

EXPORTED int qemu_plugin_install(plugin_id id, const struct plugin_info* info, int argc, char** argv) {
  (void)info;
  int fd = -1;
  for (int i = 0; i < argc; ++i) {
    if (strncmp(argv[i], "fd=", 3) == 0) fd = atoi(argv[i] + 3);
    if (strcmp(argv[i], "matrix=worker") == 0) matrix_unit = false;
  }
  void* memory = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return 1;
  table = memory;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  return 0;
}
