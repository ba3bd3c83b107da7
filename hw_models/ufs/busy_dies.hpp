// BusyDies: what random reads wait for in flash, in closed form.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/base/units.hpp"

namespace vitro::hw {

class BusyDies {
 public:
  struct Spec {
    std::uint32_t channels = 1, dies = 1;  // dies of all channels
    Picoseconds time{0};                   // that a die is busy with 4 KiB
    Bytes unit = 0;                        // what one operation of a die reads at most
    BytesPerSecond channel, link;
  };

  explicit BusyDies(const Spec& spec) : spec_(spec) {}

  // When a read that reaches the dies now can take the link in one piece, if its first 4 KiB came after `latency` on
  // idle dies. Requires: `now` never falls from call to call.
  //
  // With k operations there at that time, spread evenly over n dies, one die holds q = k/n of them and is busy with
  // probability b = 1 - (1 - 1/n)^k. The read waits for all that its die holds, for the one being served by half: q - b/2
  // times what one takes. The same holds for channels, of whose time an operation needs the part after sensing; a block that
  // is spread over all of them streams from each and does not wait for any one.
  // Map pages cross first, whatever else waits for the channel.
  // A block on few dies crosses their channels more slowly than the link: it starts later by the difference.
  Picoseconds read(Picoseconds now, Bytes length, Picoseconds latency, bool map_page = false) {
    const Bytes operations = (length + spec_.unit - 1) / spec_.unit, channels = std::min<Bytes>(operations, spec_.channels);
    const Picoseconds crossing = transfer_time(std::min(length, spec_.unit), spec_.channel);
    const Picoseconds time = spec_.time + beyond_first(std::min(length, spec_.unit), 1, spec_.channel);
    std::erase_if(reads_, [now](const Read& read) { return read.end <= now; });
    Load dies, crossings;
    for (const Read& read : reads_) {
      dies.add(read.operations, read.time);
      crossings.add(read.operations * read.crossing / std::max(read.time, 1.0), read.crossing);
    }
    double one_channel = spec_.channels > 1 ? static_cast<double>(spec_.channels - channels) / (spec_.channels - 1) : 1;
    if (map_page) one_channel = 0;
    crossings.scale(dies.served(spec_.dies));  // what waits for its die does not cross
    const auto wait = Picoseconds(std::llround(dies.wait(spec_.dies) + one_channel * crossings.wait(spec_.channels)));
    reads_.push_back({now + wait + time, static_cast<double>(operations), static_cast<double>(time.count()),
                      static_cast<double>(crossing.count())});
    const Picoseconds behind = beyond_first(length, channels, spec_.channel) - beyond_first(length, 1, spec_.link);
    return now + wait + latency + std::max(behind, Picoseconds(0));
  }

 private:
  struct Read {
    Picoseconds end;
    double operations = 0, time = 0, crossing = 0;  // picoseconds of each operation
  };
  struct Load {
    double operations = 0, time = 0;
    void add(double n, double each) { operations += n, time += n * each; }
    void scale(double factor) { operations *= factor, time *= factor; }
    double busy(double servers) const { return 1 - std::pow(1 - 1 / servers, operations); }
    double served(double servers) const { return operations > 0 ? servers * busy(servers) / operations : 1; }  // share of them
    double wait(double servers) const { return operations > 0 ? time / operations * (operations / servers - busy(servers) / 2) : 0; }
  };
  static Picoseconds beyond_first(Bytes length, Bytes channels, BytesPerSecond rate) {
    const Bytes share = length / channels;
    return share > kPageSize ? transfer_time(share - kPageSize, rate) : Picoseconds(0);
  }

  Spec spec_;
  std::vector<Read> reads_;
};

}  // namespace vitro::hw
