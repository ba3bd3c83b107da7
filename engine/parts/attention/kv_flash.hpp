// KvFlash: keys and values in flash, read back layer by layer while others are computed (MNN-LLM, section 4.1).
#pragma once
#include <deque>
#include <optional>
#include <vector>

#include "engine/machine/machine.hpp"
#include "engine/parts/attention/kv_cache.hpp"
#include "engine/parts/attention/kv_sums.hpp"

namespace vitro {

struct KvFlashOptions {
  bool prefetch = true;  // a layer is read while the one before it computes what follows its attention; else when it attends
  bool checksums = false;  // what is read is held against what was written (kv_sums.hpp)
  UnitId issuer{};       // the core that issues reads and writes
};

struct KvFlashStats {
  Bytes written = 0, read = 0;
  Bytes verified = 0;                   // of those read: held against their checksums
  std::uint64_t read_again = 0;         // requests that brought other bytes than were written, and were repeated
  std::uint64_t writes = 0, reads = 0;  // requests
  Picoseconds reading{0};               // with a read outstanding
  Picoseconds stalled{0};               // of it, while attention waited
  Picoseconds writing{0};               // with a write outstanding
  Picoseconds held_up{0};               // of it, while the next layer of a prompt waited for its slots
};

// Moves what KvCache says. Full blocks that do not stay are written while the next step computes and leave DRAM at its end. The file
// holds layer after layer, and blocks of one layer by their place: what a layer needs is few long reads, and neighbours leave in one
// write. All of one layer lands at once, so attention sums up in the order of positions, as if nothing had ever left; buffers of one layer
// serve all of them.
//
// A prompt may be computed layer by layer. Keys and values that will not stay are then made in the buffers of their layer, written from
// there once, and not read at all; what was in flash before the prompt is read once. A layer's first chunk may begin while the last blocks
// of the layer before are on their way out of buffers that it does not need yet.
//
// With checksums each slice has one, taken as it is written. What a read brings is held against it before attention sees it; a read that
// brought other bytes is done once more, and then the step fails and names file, sequence, layer and offset.
//
// Lives on the policy's executor. Between steps reads for the next one's first layer may be in flight: settle() before it dies.
class KvFlash {
 public:
  // Makes the file. Throws RunError when there is no room for it, ConfigError when there is none for the checksums. Requires:
  // kv.tiered(); it outlives this.
  KvFlash(Machine& machine, KvCache& kv, KvFlashOptions options);

  // A step of these rows, of which `kv` knows nothing yet, begins. Throws RunError, after which end_step() is due, too.
  Task<void> begin_step(const std::vector<SeqPos>* rows);
  // The same for a prompt's rows, of one sequence, that go through a layer together. Extends the sequence; copies have to run first.
  Task<void> begin_prompt(const std::vector<SeqPos>* rows, std::vector<KvCache::BlockCopy>* copies);
  // Waits until `layer` may make keys and values of the prompt's positions below `end`.
  Task<void> writable(std::uint32_t layer, std::uint32_t end);
  // `layer` has made them: what is full can be written.
  void computed(std::uint32_t layer, std::uint32_t end);

  // Waits for what attention of `layer` needs. Throws RunError when it could not be read.
  Task<void> landed(std::uint32_t layer);
  // Attention of `layer` is done: its buffers are free.
  void attended(std::uint32_t layer);
  // Waits for the step's writes. `failed`: joins all there is and says nothing of it, for another error is on its way.
  Task<void> end_step(bool failed);
  // A sequence rests from here on: its full blocks that do not stay leave now and not with its next step. Requires: between steps.
  Task<void> put_away(std::uint32_t sequence);
  Task<void> settle() { return end_step(true); }

  const KvFlashStats& stats() const { return stats_; }

 private:
  // What a landing slot holds, or will once its read is done.
  struct Held {
    std::uint32_t layer = 0;
    KvCache::Landing slice;
    friend bool operator==(const Held&, const Held&) = default;
  };
  // Outstanding requests of one kind: a span in the trace from the first to the last.
  struct Outstanding {
    TrackId track;
    std::uint32_t requests = 0;
    Picoseconds since{0}, total{0};
  };
  // What moves in one request: neighbours in the file and in memory.
  struct Run {
    std::uint32_t layer = 0, place = 0, count = 0;
    Bytes memory = 0;
  };
  // Writes of a prompt from the slots of one layer, which the next layer needs again.
  struct Batch {
    Batch(Executor& executor, std::uint32_t at_layer, std::uint32_t first) : layer(at_layer), begin(first), scope(executor) {}
    std::uint32_t layer, begin;  // position of the first of them
    TaskScope scope;
  };
  std::size_t most_in_request() const;
  void queue_leaving();
  Task<void> land(const std::vector<SeqPos>* rows);
  void issue_reads(std::uint32_t layer);
  Task<void> read(std::uint32_t layer, std::size_t first, std::size_t count, Pattern pattern);
  Task<void> write_queued();
  Task<void> write(Run run);
  Task<void> join_prompt(bool failed);
  [[noreturn]] void fail_as_damaged(std::uint32_t layer, std::size_t first, Bytes begin, Bytes damage) const;
  Extent extent(std::uint32_t layer, std::uint32_t place, std::size_t count) const;
  void begins(Outstanding& outstanding);
  void ends(Outstanding& outstanding, std::string_view name);

  Machine& machine_;
  KvCache& kv_;
  KvFlashOptions options_;
  FileId file_{};
  std::optional<KvSums> sums_;  // of slices, by layer and place; none: nothing is checked
  TaskScope reads_, writes_;
  std::vector<KvCache::Landing> landing_;  // of the step, by slot
  std::vector<std::optional<Held>> held_;  // by slot
  std::vector<KvCache::Leaving> leaving_;  // of the step
  std::vector<Run> queued_;                // writes of the step, and how many have begun
  std::size_t begun_ = 0;
  std::vector<KvCache::Fresh> fresh_;     // of the prompt
  std::vector<std::size_t> fresh_slots_;  // of each
  std::vector<bool> made_;                // by slot: its slice is made here, not read
  std::size_t full_ = 0, written_ = 0;    // of fresh_, in the layer at hand
  std::uint32_t prompt_end_ = 0;
  std::deque<Batch> batches_;  // oldest first
  Outstanding reading_, writing_;
  KvFlashStats stats_;
};

}  // namespace vitro
