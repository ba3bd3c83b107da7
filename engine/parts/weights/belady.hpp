// Belady's rule as an eviction: what is used again last goes first (Belady 1966). It needs to know the future: a first run writes down what
// its cache is asked for, a second one has it. Rules for a phone are compared with it. It is close to the best there is, and no bound:
// newcomers are chosen one by one, not for all of a layer together. belady_hits() (eviction.hpp) is a bound.
#pragma once
#include <functional>
#include <vector>

#include "engine/parts/weights/eviction.hpp"

namespace vitro {

// By run of a layer, in order: the blocks that were used in it, ascending and each once. Which they are does not depend on what a cache
// holds, unless something is read ahead that nobody uses; their order within a layer does.
using AccessLog = std::vector<std::vector<std::uint32_t>>;

// How well a future was foreseen. accesses: of blocks in a layer. unforeseen: those that the log does not have where they came, and those
// of the log that did not come. If there are any, the rule did not know its run.
struct Foresight {
  std::uint64_t accesses = 0, unforeseen = 0;
};

// `rule`, and `done` gets the log of its accesses when it is destroyed; it must not throw.
std::unique_ptr<Eviction> logged(std::unique_ptr<Eviction> rule, std::function<void(AccessLog)> done);

// Gives up the resident block whose next use is the farthest, ties by the higher number; nothing, where the newcomer's own is at least as
// far. `foresight`: counted up in it. Requires: blocks of `future` are below options.blocks.
std::unique_ptr<Eviction> belady(AccessLog future, const EvictionOptions& options, std::shared_ptr<Foresight> foresight);

}  // namespace vitro
