// A shadow model of what is in DRAM: which byte of which file every byte holds, by the storage's completed reads alone. It stands beside
// the engine's caches and knows none of them: what a call computes with has to have been read, wholly and without an error, since it was
// given up last, and has to be what the call says that it is.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/machine/machine.hpp"
#include "engine/torture/shadow/shadow_bytes.hpp"
#include "engine/torture/shadow/shadow_weights.hpp"

namespace vitro {

// How much was looked at: a model that saw nothing finds nothing.
struct ShadowCounts {
  std::uint64_t reads = 0;      // of the storage
  std::uint64_t operands = 0;   // parts of memory that calls computed with and that reads had filled
  std::uint64_t decisions = 0;  // of caches and of their rules
  friend bool operator==(const ShadowCounts&, const ShadowCounts&) = default;
};

// What happens is told in the order in which the policy submits it and hears of its end. A step that fails may compute with anything, so
// what calls were found to do counts when request_ends() says that the tokens are there.
// Policy thread only.
class Shadow {
 public:
  using Ticket = std::uint64_t;

  void know(const WeightStore& weights) { weights_.add(weights); }

  // Of a file for keys and values: what was never written to it can not be read.
  void made(FileId file) { scratch_[file]; }
  Ticket read_begins(const ReadRequest& request);
  void read_ends(Ticket ticket, const IoResult& result);
  Ticket write_begins(const WriteRequest& request);
  void write_ends(Ticket ticket, const IoResult& result);

  // Calls that one submission runs one after the other.
  Ticket calls_begin(const Chain& calls);
  void calls_end(Ticket ticket);

  // Pages without memory hold nothing.
  void gave_up(const Lease& range, Bytes offset, Bytes length);

  void request_begins();
  void request_ends(bool well);

  // Bytes since the request began: that reads brought of weights with this role, and that were asked for of keys and values.
  Bytes brought(Role role) const;
  Bytes asked_kv() const { return kv_read_; }
  Bytes written_kv() const { return kv_written_; }

  void found(std::string what);
  const std::vector<std::string>& findings() const { return findings_; }
  const ShadowCounts& counts() const { return counts_; }

 private:
  // Bytes of one lease that an operation in flight has to itself.
  struct Part {
    Ticket owner = 0;
    std::uint64_t lease = 0;
    Bytes begin = 0, end = 0;
    std::string who;
  };
  void doubt(std::string what);
  // Whether reads have filled any part of it: all else is not this model's matter.
  ShadowBytes* filled(const View& view);
  void look(const KernelCall& call, Ticket ticket);
  void look_at_weights(const KernelCall& call, Ticket ticket);
  void look_at_embedding(const KernelCall& call, Ticket ticket);
  void look_at_rows(const KernelCall& call, Ticket ticket, std::uint32_t row, Bytes begin, Bytes end);
  void look_at_attention(const KernelCall& call, Ticket ticket);
  void look_at_bytes(const KernelCall& call, Ticket ticket, const View& view, Bytes begin, Bytes end, bool has_to_be_read);
  void carry_out(const KernelCall& call);
  void copy(const KernelCall& call);
  void append(const KernelCall& call);

  ShadowWeights weights_;
  std::map<std::uint64_t, ShadowBytes> leases_;  // by lease, from the first read into it on
  std::map<FileId, ShadowBytes> scratch_;        // of files for keys and values what is written
  std::map<Ticket, ReadRequest> reads_;
  std::map<Ticket, WriteRequest> writes_;
  std::vector<Part> computing_;  // what calls in flight read
  std::map<Role, Bytes> brought_;
  Bytes kv_read_ = 0, kv_written_ = 0;
  std::vector<std::string> doubts_, findings_;
  ShadowCounts counts_;
  Ticket next_ = 0;
};

}  // namespace vitro
