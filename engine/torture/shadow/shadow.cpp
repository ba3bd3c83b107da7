#include "engine/torture/shadow/shadow.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/torture/shadow/findings.hpp"

namespace vitro {
namespace {

bool overlap(Bytes a, Bytes a_end, Bytes b, Bytes b_end) { return a < b_end && b < a_end; }

std::string shown(const ReadRequest& read) {
  return fmt::format("a read of {} bytes at {} of file {}", read.from.length, read.from.offset, static_cast<std::uint32_t>(read.from.file));
}

}  // namespace

void Shadow::found(std::string what) { add_finding(findings_, std::move(what)); }

void Shadow::doubt(std::string what) { add_finding(doubts_, std::move(what)); }

void Shadow::request_begins() {
  doubts_.clear();
  brought_.clear();
  kv_read_ = kv_written_ = 0;
}

void Shadow::request_ends(bool well) {
  for (std::string& what : doubts_) {
    if (well) found(std::move(what));
  }
  doubts_.clear();
}

Shadow::Ticket Shadow::read_begins(const ReadRequest& request) {
  ++counts_.reads;
  const Bytes begin = request.into_offset, end = begin + request.from.length;
  for (const auto& [ticket, other] : reads_) {
    if (other.into.id() != request.into.id()) continue;
    if (overlap(begin, end, other.into_offset, other.into_offset + other.from.length)) {
      doubt(fmt::format("{} goes where {} is to land", shown(request), shown(other)));
    }
  }
  for (const Part& part : computing_) {
    if (part.lease == request.into.id() && overlap(begin, end, part.begin, part.end)) {
      doubt(fmt::format("{} goes where {} still computes", shown(request), part.who));
    }
  }
  leases_[request.into.id()].put(begin, end, {Holds::Kind::coming});
  reads_[next_] = request;
  return next_++;
}

void Shadow::read_ends(Ticket ticket, const IoResult& result) {
  const ReadRequest request = reads_.at(ticket);
  reads_.erase(ticket);
  bool whole = result.status.ok();
  const auto file = scratch_.find(request.from.file);
  if (file != scratch_.end()) kv_read_ += request.from.length;  // failed or not, as the engine counts
  if (whole && file != scratch_.end()) {
    for (const ShadowBytes::Run& run : file->second.runs(request.from.offset, request.from.offset + request.from.length)) {
      if (run.holds.kind != Holds::Kind::from_file) whole = false;
    }
    if (!whole) doubt(fmt::format("{} brings what was not written there", shown(request)));
  } else if (whole) {
    if (const auto place = weights_.at(request.from.file, request.from.offset)) brought_[place->weight->role] += request.from.length;
  }
  const Holds holds{whole ? Holds::Kind::from_file : Holds::Kind::failed, request.from.file, request.from.offset};
  leases_[request.into.id()].put(request.into_offset, request.into_offset + request.from.length, holds);
}

Shadow::Ticket Shadow::write_begins(const WriteRequest& request) {
  scratch_[request.to.file].put(request.to.offset, request.to.offset + request.to.length, {Holds::Kind::coming});
  writes_[next_] = request;
  return next_++;
}

void Shadow::write_ends(Ticket ticket, const IoResult& result) {
  const Extent to = writes_.at(ticket).to;
  writes_.erase(ticket);
  if (result.status.ok()) kv_written_ += to.length;
  scratch_[to.file].put(to.offset, to.offset + to.length, {result.status.ok() ? Holds::Kind::from_file : Holds::Kind::failed});
}

void Shadow::gave_up(const Lease& range, Bytes offset, Bytes length) {
  for (const Part& part : computing_) {
    if (part.lease == range.id() && overlap(offset, offset + length, part.begin, part.end)) {
      doubt(fmt::format("{} bytes at {} are given up, and {} still computes with them", length, offset, part.who));
    }
  }
  for (const auto& [ticket, read] : reads_) {
    if (read.into.id() == range.id() && overlap(offset, offset + length, read.into_offset, read.into_offset + read.from.length)) {
      doubt(fmt::format("{} bytes at {} are given up, and {} is to land there", length, offset, shown(read)));
    }
  }
  if (const auto known = leases_.find(range.id()); known != leases_.end()) known->second.put(offset, offset + length, {});
}

Shadow::Ticket Shadow::calls_begin(const Chain& calls) {
  for (const KernelCall& call : calls) {
    look(call, next_);
    carry_out(call);
  }
  return next_++;
}

void Shadow::calls_end(Ticket ticket) {
  std::erase_if(computing_, [ticket](const Part& part) { return part.owner == ticket; });
}

Bytes Shadow::brought(Role role) const {
  const auto found = brought_.find(role);
  return found == brought_.end() ? 0 : found->second;
}

}  // namespace vitro
