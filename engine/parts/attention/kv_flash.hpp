// KvFlash: keys and values in flash, read back layer by layer while others are computed (MNN-LLM, section 4.1).
#pragma once
#include <optional>
#include <vector>

#include "engine/machine/machine.hpp"
#include "engine/parts/attention/kv_cache.hpp"

namespace vitro {

struct KvFlashOptions {
  std::uint32_t window = 0;  // of attention, in positions; 0: all
  bool prefetch = true;      // a layer is read while the one before it computes what follows its attention; else when it attends
  UnitId issuer{};           // the core that issues reads and writes
};

struct KvFlashStats {
  Bytes written = 0, read = 0;
  Picoseconds reading{0};  // with a read outstanding
  Picoseconds stalled{0};  // of it, while attention waited
};

// Moves what KvCache says. Full blocks behind the threshold are written while the next step computes and leave DRAM at its end. The
// file holds layer after layer, and blocks of one layer by their place: what a layer needs is few long reads. All of one layer lands at
// once, so attention sums up in the order of positions, as if nothing had ever left; buffers of one layer serve all of them.
// Lives on the policy's executor. Between steps reads for the next one's first layer may be in flight: settle() before it dies.
class KvFlash {
 public:
  // Makes the file. Throws RunError when there is no room for it. Requires: kv.tiered(); it outlives this.
  KvFlash(Machine& machine, KvCache& kv, KvFlashOptions options);

  // A step of these rows, of which `kv` knows nothing yet, begins. Throws RunError, after which end_step() is due, too.
  Task<void> begin_step(const std::vector<SeqPos>* rows);
  // Waits for what attention of `layer` needs. Throws RunError when it could not be read.
  Task<void> landed(std::uint32_t layer);
  // Attention of `layer` is done: its buffers are free.
  void attended(std::uint32_t layer);
  // Waits for the step's writes. `failed`: joins all there is and says nothing of it, for another error is on its way.
  Task<void> end_step(bool failed);
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
  void issue_reads(std::uint32_t layer);
  Task<void> read(std::uint32_t layer, std::size_t first, std::size_t count, Pattern pattern);
  Task<void> write(KvCache::Leaving block);
  Extent extent(std::uint32_t layer, std::uint32_t place, std::size_t count) const;
  void begins(Outstanding& outstanding);
  void ends(Outstanding& outstanding, std::string_view name);

  Machine& machine_;
  KvCache& kv_;
  KvFlashOptions options_;
  FileId file_{};
  TaskScope reads_, writes_;
  std::vector<KvCache::Landing> landing_;  // of the step, by slot
  std::vector<std::optional<Held>> held_;  // by slot
  std::vector<KvCache::Leaving> leaving_;  // of the step
  Outstanding reading_, writing_;
  KvFlashStats stats_;
};

}  // namespace vitro
