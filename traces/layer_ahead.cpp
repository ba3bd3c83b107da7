#include "traces/layer_ahead.hpp"

#include <pthread.h>
#include <sched.h>

#include <system_error>
#include <utility>

namespace vitro {

std::optional<LayerOrder::Next> LayerOrder::enter(std::int16_t layer) {
  const std::int16_t before = std::exchange(layer_, layer);
  if (before == layer) return std::nullopt;
  if (before >= 0) follows_[before] = layer;
  const auto known = follows_.find(layer);
  if (known == follows_.end()) return std::nullopt;
  return Next{known->second, known->second <= layer};
}

LayerAhead::~LayerAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  posted_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void LayerAhead::enter(const KernelCall& call, std::uint32_t experts) {
  const std::vector<SeqPos>& rows = *call.batch;
  const bool decodes = rows.size() >= kLeastRows && rows.size() <= kMostRows && rows.front().sequence != rows.back().sequence;
  if (!decodes) return;
  {
    const std::lock_guard lock(mutex_);
    const std::optional<LayerOrder::Next> next = order_.enter(call.layer);
    if (!next || given_up_) return;
    next_ = Step{next->layer, rows, {}, experts};
    if (call.is<ops::Route>()) next_->router = call.get<ops::Route>();
    for (SeqPos& row : next_->rows) row.position += next->in_next_step ? 1 : 0;
    try {
      if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    } catch (const std::system_error&) {  // no thread is to be had: whoever asks draws
      given_up_ = true;
    }
  }
  posted_.notify_one();
}

void LayerAhead::settle() {
  std::unique_lock lock(mutex_);
  settled_.wait(lock, [this] { return given_up_ || (!next_ && !drawing_); });
}

void LayerAhead::work() {
  const sched_param unused{};
  pthread_setschedparam(pthread_self(), SCHED_IDLE, &unused);  // refused: it draws at the usual priority
  std::unique_lock lock(mutex_);
  for (;;) {
    posted_.wait(lock, [this] { return stop_ || next_; });
    if (stop_) return;
    const Step step = *std::exchange(next_, std::nullopt);
    drawing_ = true;
    lock.unlock();
    const bool goes_on = draw_(step);
    lock.lock();
    drawing_ = false;
    given_up_ = !goes_on;
    settled_.notify_all();
    if (given_up_) return;
  }
}

}  // namespace vitro
