// ReadGroups: reads that are wanted together, inside the device. Each is handled, mapped and fetched from flash as one that comes alone.
// The link takes the group in one piece, in the order in which its reads get ready, from the time on at which none of them makes it wait.
// So the group ends when its last read would end one by one, and the link is not held meanwhile.
//
// Against reads one by one: nothing comes between a group's reads on the link, and the first of them are not there before the last.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "hw_models/storage.hpp"

namespace vitro::hw {

class ReadGroups {
 public:
  // What the link has to do with a group.
  struct LinkTransfer {
    Picoseconds begin{0};      // from then on it never waits for a read of the group
    Picoseconds transfers{0};  // what it takes, alone
    Bytes bytes = 0;
  };
  struct Group {
    std::vector<TimedRead> reads;
    Picoseconds submitted{0};
    std::uint32_t leader = 0;  // the command that stands for it
    LinkTransfer transfer;           // when all are ready

   private:
    friend class ReadGroups;
    struct Ready {
      Picoseconds when;
      Bytes length;
    };
    std::vector<Ready> ready;
  };

  // Of one read: on the link, beside its bytes.
  ReadGroups(Picoseconds transfer_overhead, BytesPerSecond link) : transfer_overhead_(transfer_overhead), link_(link) {}

  // The number of a new group, which has not entered yet.
  std::uint32_t add(std::span<const TimedRead> reads, std::uint32_t leader, Picoseconds now) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(groups_.size()));
      groups_.emplace_back();
    }
    const std::uint32_t number = free_.back();
    free_.pop_back();
    Group& group = groups_[number];
    group.reads.assign(reads.begin(), reads.end());
    group.submitted = now;
    group.leader = leader;
    group.transfer = {};
    group.ready.clear();
    return number;
  }

  // How long before the last of its reads is ready a group may want the link: the longest transfer of any since none was inside.
  Picoseconds head_start() const { return head_start_; }
  void enters(std::uint32_t number) {
    ++inside_;
    Picoseconds transfers{0};
    for (const TimedRead& read : groups_[number].reads) transfers += transfer_overhead_ + transfer_time(read.request.length, link_);
    head_start_ = std::max(head_start_, transfers);
  }

  // One of its reads could take the link at `when`. True: it was the last one, and the group has its transfer.
  bool note_ready(std::uint32_t number, Picoseconds when, Bytes length) {
    Group& group = groups_[number];
    std::size_t place = group.ready.size();
    group.ready.push_back({when, length});
    for (; place > 0 && group.ready[place - 1].when > when; --place) group.ready[place] = group.ready[place - 1];
    group.ready[place] = {when, length};
    if (group.ready.size() < group.reads.size()) return false;
    if (--inside_ == 0) head_start_ = Picoseconds(0);
    for (const auto& [ready, bytes] : group.ready) {
      group.transfer.begin = std::max(group.transfer.begin, ready - group.transfer.transfers);
      group.transfer.transfers += transfer_overhead_ + transfer_time(bytes, link_);
      group.transfer.bytes += bytes;
    }
    return true;
  }

  void remove(std::uint32_t number) {
    groups_[number].reads.clear();
    free_.push_back(number);
  }

  const Group& operator[](std::uint32_t number) const { return groups_[number]; }
  // Whether a read of some group, waiting or inside, ends there.
  bool one_ends_at(std::uint64_t address) const {
    return std::ranges::any_of(groups_, [address](const Group& group) {
      return std::ranges::any_of(group.reads, [address](const TimedRead& read) {
        return !read.request.sequential && read.request.address + read.request.length == address;
      });
    });
  }

 private:
  Picoseconds transfer_overhead_;
  BytesPerSecond link_;
  std::uint32_t inside_ = 0;  // groups that have entered and have no transfer
  Picoseconds head_start_{0};
  std::vector<Group> groups_;
  std::vector<std::uint32_t> free_;
};

}  // namespace vitro::hw
