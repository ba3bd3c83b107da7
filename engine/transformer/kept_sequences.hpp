// Sequences that outlive the request that made them, by name: a conversation goes on from its keys and values, and of its next prompt only
// what is new is computed.
#pragma once
#include <map>
#include <string>

#include "engine/transformer/kept_in.hpp"
#include "engine/transformer/kv_transfer.hpp"

namespace vitro {

struct KeptSequence {
  std::uint32_t sequence = 0;  // in the KV cache
  std::int32_t next = 0;       // was chosen, and has no position yet: the prompt that goes on begins with it
};

class KeptSequences {
 public:
  // longest: by name, the positions that a sequence may have when it is kept. For flash it makes a file with a place for each of them, so
  // that a folder which fills up later does no harm. Throws RunError when there is no room. Requires: the pointers outlive it.
  KeptSequences(Machine* machine, Transformer* model, KeptIn where, const std::map<std::string, std::uint32_t>& longest);

  // What was kept under the name. It is no longer kept if the request `replaces` it, else what comes is a copy that shares its blocks.
  // Requires: there is one.
  Task<KeptSequence> resume(std::string name, bool replaces);
  // In place of what had the name before. The sequence is this object's from here on. grown: it is what resume() gave last under this name,
  // and what a file has of it need not be written again.
  Task<void> keep(std::string name, KeptSequence ended, bool grown);
  // Those in DRAM, for messages: `2 kept sequences, "a" of 120 positions and "b" of 33`; empty: there is none.
  std::string in_dram() const;

 private:
  struct Kept {
    KeptSequence sequence;          // its number is that of the cache in DRAM alone
    BlocksInFile place;             // in flash
    std::uint32_t adapter = 0, length = 0, first = 0;
    bool there = false;
  };

  Machine& machine_;
  Transformer& model_;
  const KeptIn where_;
  std::optional<KvSums> sums_;  // of the file; none: it is not checked, or there is none
  std::map<std::string, Kept> kept_;
};

}  // namespace vitro
