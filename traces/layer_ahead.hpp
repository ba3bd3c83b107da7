// LayerAhead: while a batch computes a layer, a thread of its own draws what the next layer will be asked.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/ops/kernel_call.hpp"

namespace vitro {

// Which layer a run asks about next: its layers come in the same order in every step.
class LayerOrder {
 public:
  struct Next {
    std::int16_t layer = -1;
    bool in_next_step = false;
    friend bool operator==(const Next&, const Next&) = default;
  };

  // A call asks about `layer`. -> what came behind it the last time. None: nothing has yet, or the call before asked about it, too.
  std::optional<Next> enter(std::int16_t layer);

 private:
  std::int16_t layer_ = -1;
  std::map<std::int16_t, std::int16_t> follows_;
};

// Starts its thread with the first batch of kLeastRows sequences: with fewer, waking a thread costs more than drawing. The thread runs when
// the machine would be idle. It may be late or wrong: who asks draws what was not drawn. Thread-safe.
class LayerAhead {
 public:
  struct Step {
    std::int16_t layer = -1;
    std::vector<SeqPos> rows;
    std::optional<ops::Route> router;  // none: an FFN without experts
    std::uint32_t experts = 0;         // of the layer, to choose from
  };
  static constexpr std::size_t kLeastRows = 16, kMostRows = 64;

  // `draw` is called on the thread. It says whether to go on.
  explicit LayerAhead(std::function<bool(const Step&)> draw) : draw_(std::move(draw)) {}
  ~LayerAhead();
  LayerAhead(const LayerAhead&) = delete;
  LayerAhead& operator=(const LayerAhead&) = delete;

  // A call asks for experts, or for neurons of an FFN without them. If its rows decode, the next layer will have the same ones, each one
  // position further if its turn comes in the next step. A layer that the thread has not begun with is forgotten.
  void enter(const KernelCall& call, std::uint32_t experts);
  // Waits until all that was entered is drawn or given up. A simulation never does: tests do, which do not go by time.
  void settle();

 private:
  void work();

  const std::function<bool(const Step&)> draw_;
  std::mutex mutex_;
  std::condition_variable posted_, settled_;
  LayerOrder order_;
  std::optional<Step> next_;
  bool drawing_ = false;
  bool stop_ = false;      // as soon as it can
  bool given_up_ = false;  // nothing more is drawn
  std::thread thread_;
};

}  // namespace vitro
