#ifndef SC_INCLUDE_DYNAMIC_PROCESSES  // for sc_spawn()
#define SC_INCLUDE_DYNAMIC_PROCESSES
#endif
#include "hw_models/tlm/target_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/check.hpp"
#include "hw_models/tlm/systemc_context.hpp"

namespace vitro::hw {
namespace {

enum Kind : std::uint16_t { kRoom, kFinish, kFail, kWatch };

}  // namespace

TlmTargetMemory::TlmTargetMemory(const sc_core::sc_module_name& name, Context& context, const Limits& limits, std::string target)
    : sc_module(name),
      context_(context),
      limits_(limits),
      target_(std::move(target)),
      label_{context.device("tlm target"), kFinish},
      bytes_(limits.line) {
  if (!limits.loosely_timed) return;
  for (std::uint32_t i = 0; i < limits.outstanding; ++i) {
    callers_.push_back(std::make_unique<Caller>());
    Caller* const caller = callers_.back().get();
    sc_core::sc_spawn([this, caller] { call(*caller); }, fmt::format("caller{}", i).c_str());
  }
  for (auto caller = callers_.rbegin(); caller != callers_.rend(); ++caller) idle_callers_.push_back(caller->get());
}

void TlmTargetMemory::connect(sc_core::sc_export<tlm::tlm_fw_transport_if<>>& forward,
                              sc_core::sc_port_b<tlm::tlm_bw_transport_if<>>& backward) {
  forward_ = &forward;
  backward.bind(*this);
}

TlmTargetMemory::Line& TlmTargetMemory::take_line() {
  if (idle_.empty()) {
    lines_.push_back(std::make_unique<Line>(static_cast<tlm_mm_interface*>(this)));
    idle_.push_back(lines_.back().get());
  }
  Line& line = *idle_.back();
  idle_.pop_back();
  return line;
}

bool TlmTargetMemory::try_push(std::uint64_t address, bool write, std::uint32_t tag) {
  if (requesting_ || in_flight_ >= limits_.outstanding) {
    refused_ = true;
    return false;
  }
  Line& line = take_line();
  line.tag = tag;
  line.state = State::requested;
  line.begun = context_.now();
  line.set_command(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
  line.set_address(round_down(address, limits_.line));
  line.set_data_ptr(bytes_.data());
  line.set_data_length(static_cast<unsigned>(limits_.line));
  line.set_streaming_width(static_cast<unsigned>(limits_.line));
  line.set_byte_enable_ptr(nullptr);
  line.set_dmi_allowed(false);
  line.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  line.acquire();
  ++in_flight_;
  watch();
  if (limits_.loosely_timed) {
    Caller& caller = *idle_callers_.back();
    idle_callers_.pop_back();
    caller.line = &line;
    caller.called.notify(sc_core::SC_ZERO_TIME);
  } else {
    begin_request(line);
  }
  return true;
}

// A delay that the target returns is no time of this thread's: the answer is an event by then, and the thread is free.
void TlmTargetMemory::call(Caller& caller) {
  for (;;) {
    while (caller.line == nullptr) sc_core::wait(caller.called);
    Line& line = *std::exchange(caller.line, nullptr);
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    (*forward_)->b_transport(line, delay);
    idle_callers_.push_back(&caller);
    answer(line, delay, false);
  }
}

void TlmTargetMemory::begin_request(Line& line) {
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  requesting_ = true;
  const tlm::tlm_sync_enum status = (*forward_)->nb_transport_fw(line, phase, delay);
  if (status == tlm::TLM_ACCEPTED) return;
  if (line.state == State::answered) {
    return fail_later(fmt::format("answered {} twice: by BEGIN_RESP and by what nb_transport_fw() returned (expected TLM_ACCEPTED)",
                                  described(line)));
  }
  if (status == tlm::TLM_UPDATED && phase != tlm::END_REQ && phase != tlm::BEGIN_RESP) {
    return fail_later(fmt::format("answered BEGIN_REQ with the phase {} (expected END_REQ or BEGIN_RESP)", phase.get_name()));
  }
  if (delay == sc_core::SC_ZERO_TIME) {  // as often: no event is needed to go on
    line.state = State::taken;
    requesting_ = false;
  } else {
    take_request(line, delay);
  }
  if (status == tlm::TLM_COMPLETED || phase == tlm::BEGIN_RESP) answer(line, delay, status == tlm::TLM_UPDATED);
}

tlm::tlm_sync_enum TlmTargetMemory::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  const auto mine = std::find_if(lines_.begin(), lines_.end(), [&payload](const auto& line) { return line.get() == &payload; });
  if (mine == lines_.end() || (*mine)->state == State::idle || (*mine)->state == State::answered) {
    fail_later(fmt::format("sent {} for a transaction that it has answered or never had", phase.get_name()));
    return tlm::TLM_COMPLETED;
  }
  Line& line = **mine;
  if (phase == tlm::END_REQ) {
    if (line.state == State::taken) fail_later("sent END_REQ twice for " + described(line));
    take_request(line, delay);
    return tlm::TLM_ACCEPTED;
  }
  if (phase != tlm::BEGIN_RESP) return tlm::TLM_ACCEPTED;  // phases of others may be ignored
  if (line.state == State::requested) take_request(line, delay);  // a response says that the request was taken
  answer(line, delay, false);
  phase = tlm::END_RESP;
  return tlm::TLM_UPDATED;
}

// As events: the target may be in the middle of its own work.
void TlmTargetMemory::take_request(Line& line, const sc_core::sc_time& delay) {
  line.state = State::taken;
  context_.at(context_.now() + picoseconds(delay), {label_.device, kRoom}, [this] {
    requesting_ = false;
    if (std::exchange(refused_, false)) sink_->room();
  });
}

void TlmTargetMemory::answer(Line& line, const sc_core::sc_time& delay, bool end_response) {
  line.state = State::answered;
  context_.at(context_.now() + picoseconds(delay), label_, [this, &line, end_response] {
    if (end_response) {
      tlm::tlm_phase phase = tlm::END_RESP;
      sc_core::sc_time now = sc_core::SC_ZERO_TIME;
      (*forward_)->nb_transport_fw(line, phase, now);
    }
    finish(line);
  });
}

void TlmTargetMemory::finish(Line& line) {
  if (!line.is_response_ok()) {
    throw RunError(fmt::format("the TLM target \"{}\" answered {} with {}{}", target_, described(line), line.get_response_string(),
                               line.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE ? ": it did not set a response status" : ""));
  }
  const std::uint32_t tag = line.tag;
  --in_flight_;
  line.release();
  sink_->line_finished(tag);
  if (!requesting_ && std::exchange(refused_, false)) sink_->room();
}

// The target may keep the payload longer than its answer. reset() deletes the extensions that it left for that.
void TlmTargetMemory::free(tlm::tlm_generic_payload* payload) {
  payload->reset();
  auto* const line = static_cast<Line*>(payload);
  line->state = State::idle;
  idle_.push_back(line);
}

// One event per `answer_within` while something is under way.
void TlmTargetMemory::watch() {
  if (std::exchange(watching_, true)) return;
  context_.at(context_.now() + limits_.answer_within, {label_.device, kWatch}, [this] {
    watching_ = false;
    if (in_flight_ == 0) return;
    for (const auto& line : lines_) {
      if (line->state != State::requested && line->state != State::taken) continue;
      if (line->begun + limits_.answer_within > context_.now()) continue;
      throw RunError(fmt::format("the TLM target \"{}\" did not answer {} within {:g} us (a longer time is dram.answer_within)", target_,
                                 described(*line), to_seconds(limits_.answer_within) * 1e6));
    }
    watch();
  });
}

void TlmTargetMemory::fail_later(std::string problem) {
  if (!problem_.empty()) return;
  problem_ = fmt::format("the TLM target \"{}\" {}", target_, problem);
  context_.at(context_.now(), {label_.device, kFail}, [this] { throw RunError(problem_); });
}

std::string TlmTargetMemory::described(const Line& line) const {
  return fmt::format("a {} of {} bytes at {:#x}, begun at {:.3f} us,", line.is_write() ? "write" : "read", line.get_data_length(),
                     line.get_address(), to_seconds(line.begun) * 1e6);
}

}  // namespace vitro::hw
