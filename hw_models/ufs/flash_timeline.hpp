// FlashTimeline: when dies and channels are busy with random reads, as times that are booked ahead. A command books all that
// it needs of the flash in one call when it gets there, so no event is spent on pages or sectors.
//
// As in the detailed model (nand.hpp), data lies stripe by stripe over the dies, a die reads one stripe at a time, first
// come first served, and is busy until its pages have crossed the channel, where the oldest command's sectors go first.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/base/units.hpp"

namespace vitro::hw {

class FlashTimeline {
 public:
  struct Spec {
    std::uint32_t channels = 1, dies = 1;  // dies of all channels; die d is on channel d % channels
    Picoseconds time{0};                   // that a die is busy with 4 KiB: sensed and across the channel
    Bytes unit = 0;                        // of one stripe: what one operation of a die reads at most
    BytesPerSecond channel, link;
  };

  explicit FlashTimeline(const Spec& spec)
      : spec_(spec),
        sector_(std::min(spec.time, transfer_time(kPageSize, spec.channel))),
        dies_(spec.dies, Picoseconds(0)),
        channels_(spec.channels) {}

  // When a command that reaches the dies now can take the link in one piece and never wait for flash on the way. `order`
  // grows from command to command as they entered the device, from 1 on. Requires: `now` never falls from call to call.
  Picoseconds read(Picoseconds now, std::uint64_t order, std::uint64_t address, Bytes length) {
    stripes_.clear();
    for (const std::uint64_t end = address + length; address < end;) {
      const std::uint64_t stripe = address / spec_.unit, next = std::min(end, (stripe + 1) * spec_.unit);
      stripes_.push_back(read_stripe(now, order, stripe % spec_.dies, next - address));
      address = next;
    }
    // When a stripe's first or last sector comes, the link has moved at most what came before.
    Picoseconds start = now;
    for (const Stripe& stripe : stripes_) {
      start = std::max({start, stripe.first - across_link_before(stripe.first), stripe.end - across_link_before(stripe.end)});
    }
    return start;
  }

  // When a map page of 4 KiB is here. Commands wait for it, so it is older than any. `place` modulo the dies is its die.
  Picoseconds read_map(Picoseconds now, std::uint64_t place) { return read_stripe(now, 0, place % spec_.dies, kPageSize).end; }

 private:
  struct Stripe {
    Picoseconds first, end;  // when its first and its last sector are here
    Bytes length = 0;
    // Bytes that came before `when`, evenly up to the last sector.
    double before(Picoseconds when) const {
      if (when <= first) return 0;
      if (when > end) return static_cast<double>(length);
      return static_cast<double>(length - kPageSize) * (to_seconds(when - first) / to_seconds(end - first));
    }
  };

  // Time on a channel that is spoken for, in order and apart.
  class Channel {
   public:
    // The end of `duration` from `from` on, in what others have left; then all between is busy.
    Picoseconds book(Picoseconds now, Picoseconds from, Picoseconds duration) {
      if (duration == Picoseconds(0)) return from;
      // Mostly it only makes the last of them longer.
      if (!busy_.empty() && busy_.back().begin <= from && from <= busy_.back().end) return busy_.back().end += duration;
      return book_apart(now, from, duration);
    }

    // For how long the channel is free from `from` on; `most` at most.
    Picoseconds free(Picoseconds from, Picoseconds most) const {
      const auto next = std::ranges::find_if(busy_, [from](const Span& span) { return span.end > from; });
      return next == busy_.end() ? most : std::clamp(next->begin - from, Picoseconds(0), most);
    }

    // The end of the time without a gap that holds `when`, which is booked.
    Picoseconds busy_until(Picoseconds when) const {
      return std::ranges::find_if(busy_, [when](const Span& span) { return span.end > when; })->end;
    }

   private:
    struct Span {
      Picoseconds begin, end;
    };

    Picoseconds book_apart(Picoseconds now, Picoseconds from, Picoseconds duration) {
      std::erase_if(busy_, [now](const Span& span) { return span.end < now; });
      const auto begin = std::ranges::find_if(busy_, [from](const Span& span) { return span.end >= from; });
      Span booked{from, from + duration};
      auto after = begin;
      for (; after != busy_.end() && after->begin < booked.end; ++after) {
        booked.end += after->end - std::max(after->begin, from);
        booked.begin = std::min(booked.begin, after->begin);
      }
      const Picoseconds end = booked.end;
      if (after != busy_.end() && after->begin == end) booked.end = (after++)->end;
      busy_.insert(busy_.erase(begin, after), booked);
      return end;
    }

    std::vector<Span> busy_;
  };

  Stripe read_stripe(Picoseconds now, std::uint64_t order, std::uint64_t die, Bytes length) {
    Channel& channel = channels_[die % spec_.channels];
    const Picoseconds sensed = std::max(dies_[die], now) + spec_.time - sector_;
    const Picoseconds rest = length > kPageSize ? transfer_time(length - kPageSize, spec_.channel) : Picoseconds(0);
    Stripe stripe{sensed, sensed, length};
    if (order >= youngest_) {
      youngest_ = order;
      stripe.first = channel.book(now, sensed, sector_);
      stripe.end = channel.book(now, stripe.first, rest);
    } else {
      // It goes ahead of what is booked, after the sector under way, half of which is left on average.
      const Picoseconds crossing = sector_ + rest, free = channel.free(sensed, crossing);
      stripe.first = sensed + sector_ + (free > Picoseconds(0) ? Picoseconds(0) : sector_ / 2);
      stripe.end = stripe.first + rest;
      channel.book(now, sensed, crossing);
      if (crossing > free) push_back(die % spec_.channels, sensed, crossing - free);
    }
    dies_[die] = stripe.end;
    return stripe;
  }

  // All that was to end on the channel after `from`, before the next gap, ends later and keeps its die as long. The commands
  // keep the times that they were told. Requires: `from` is booked.
  void push_back(std::uint64_t channel, Picoseconds from, Picoseconds by) {
    const Picoseconds gap = channels_[channel].busy_until(from);
    for (std::uint64_t die = channel; die < spec_.dies; die += spec_.channels) {
      if (dies_[die] > from && dies_[die] <= gap) dies_[die] += by;
    }
  }

  // What the link takes to move all that came before `when`.
  Picoseconds across_link_before(Picoseconds when) const {
    double bytes = 0;
    for (const Stripe& stripe : stripes_) bytes += stripe.before(when);
    return bytes == 0 ? Picoseconds(0) : from_seconds(bytes / spec_.link.value);
  }

  Spec spec_;
  Picoseconds sector_;             // across a channel
  std::vector<Picoseconds> dies_;  // when each is free
  std::vector<Channel> channels_;
  std::uint64_t youngest_ = 0;   // order of what was booked
  std::vector<Stripe> stripes_;  // of one read, kept for its memory
};

}  // namespace vitro::hw
