// HostQueue: the driver's side of a flash device. A command needs a slot, and its core needs the queue. While other cores
// have commands there, the queue's lock, tags and doorbell move between their caches for each submission and completion,
// which is serial time per command (PowerInfer-2 2.3.2, "Limited Concurrency"). With several queues, as NVMe and UFSHCI 4.0
// have them, each issuer keeps to one.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "hw_models/context.hpp"

namespace vitro::hw {

class HostQueue {
 public:
  struct Spec {
    std::uint32_t queues = 1, slots = 32;  // slots of each queue
    Picoseconds contention{0};             // per command, while another issuer has some in the same queue
  };
  // `enter(command)` runs when the device sees the command.
  HostQueue(Context& context, Label label, const Spec& spec, std::function<void(std::uint32_t)> enter);

  // `slots`: that it takes, for commands which enter and end together.
  void submit(std::uint32_t command, std::uint16_t issuer, std::uint32_t slots = 1);
  void complete(std::uint16_t issuer, std::uint32_t slots = 1);  // gives back slots of the issuer's queue
  std::uint32_t in_flight() const { return in_flight_; }  // commands with a slot
  std::uint32_t most_in_flight() const { return most_; }  // so far

 private:
  struct Waiting {
    std::uint32_t command;
    std::uint16_t issuer;
    std::uint32_t slots;
  };
  struct Queue {
    std::deque<Waiting> waiting;
    std::uint32_t used = 0;
    Picoseconds free{0};                                            // when the doorbell is free
    std::vector<std::pair<std::uint16_t, std::uint32_t>> commands;  // of each issuer that has some, with and without a slot
  };
  void admit(Queue& queue, Waiting entry);

  Context& context_;
  Label label_;
  Spec spec_;
  std::function<void(std::uint32_t)> enter_;
  std::vector<Queue> queues_;
  std::uint32_t in_flight_ = 0, most_ = 0;
};

}  // namespace vitro::hw
