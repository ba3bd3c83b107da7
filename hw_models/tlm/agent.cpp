#include "hw_models/tlm/agent.hpp"

#include <fmt/format.h>

#include <utility>

#include "engine/base/check.hpp"
#include "hw_models/tlm/systemc_context.hpp"

namespace vitro::hw {
namespace {

enum Kind : std::uint16_t { kArrive, kEndResponse, kFail };

// Whether it is answered already, since there is nothing to move.
bool answered_at_once(tlm::tlm_generic_payload& payload) {
  if (payload.is_read() || payload.is_write()) {
    if (payload.get_data_length() > 0) return false;
    payload.set_response_status(tlm::TLM_BURST_ERROR_RESPONSE);
  } else {
    payload.set_response_status(tlm::TLM_OK_RESPONSE);  // TLM_IGNORE_COMMAND
  }
  return true;
}

}  // namespace

TlmAgent::TlmAgent(const sc_core::sc_module_name& name, Context& context, DramModel& dram, PortId port, std::uint32_t outstanding,
                   std::string initiator)
    : sc_module(name),
      context_(context),
      dram_(dram),
      port_(port),
      outstanding_(outstanding),
      initiator_(std::move(initiator)),
      label_{context.device("tlm initiator"), kArrive} {}

void TlmAgent::connect(sc_core::sc_port_b<tlm::tlm_fw_transport_if<>>& forward, sc_core::sc_export<tlm::tlm_bw_transport_if<>>& backward) {
  backward_ = &backward;
  forward.bind(*this);
}

void TlmAgent::b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  if (answered_at_once(payload)) return;
  sc_core::sc_event ended;
  arrive({&payload, &ended}, delay);
  sc_core::wait(ended);
  delay = sc_core::SC_ZERO_TIME;
}

tlm::tlm_sync_enum TlmAgent::nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  if (phase == tlm::END_RESP) {
    context_.at(context_.now() + picoseconds(delay), {label_.device, kEndResponse}, [this] { end_response(); });
    return tlm::TLM_COMPLETED;
  }
  if (phase != tlm::BEGIN_REQ) return tlm::TLM_ACCEPTED;  // phases of others may be ignored
  if (answered_at_once(payload)) return tlm::TLM_COMPLETED;
  if (!payload.has_mm()) {
    fail_later("sent a payload without a memory manager by nb_transport_fw()");
    return tlm::TLM_COMPLETED;
  }
  payload.acquire();
  arrive({&payload, nullptr}, delay);
  return tlm::TLM_ACCEPTED;
}

void TlmAgent::arrive(Transfer transfer, const sc_core::sc_time& delay) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(transfers_.size()));
    transfers_.emplace_back();
  }
  const std::uint32_t tag = free_.back();
  free_.pop_back();
  transfers_[tag] = transfer;
  context_.at(context_.now() + picoseconds(delay), label_, [this, tag] {
    waiting_.push_back(tag);
    submit_waiting();
  });
}

void TlmAgent::submit_waiting() {
  while (!waiting_.empty() && in_dram_ < outstanding_) {
    const std::uint32_t tag = waiting_.front();
    waiting_.pop_front();
    ++in_dram_;
    const Transfer transfer = transfers_[tag];
    const Bytes length = transfer.payload->get_data_length();
    DramRequest request{.port = port_, .length = length, .written = transfer.payload->is_write() ? length : 0};
    request.address = transfer.payload->get_address();
    dram_.submit(request, [this, tag] { end(tag); });
    if (transfer.ended != nullptr) continue;
    tlm::tlm_phase phase = tlm::END_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    (*backward_)->nb_transport_bw(*transfer.payload, phase, delay);
  }
}

void TlmAgent::end(std::uint32_t tag) {
  --in_dram_;
  const Transfer transfer = transfers_[tag];
  moved_.add(context_.now(), context_.now(), static_cast<double>(transfer.payload->get_data_length()));
  transfer.payload->set_response_status(tlm::TLM_OK_RESPONSE);
  if (transfer.ended != nullptr) {
    free_.push_back(tag);
    transfer.ended->notify(sc_core::SC_ZERO_TIME);
  } else {
    ended_.push_back(tag);
    if (!responding_) respond();
  }
  submit_waiting();
}

void TlmAgent::respond() {
  while (!ended_.empty()) {
    tlm::tlm_generic_payload& payload = *transfers_[ended_.front()].payload;
    responding_ = true;
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    const tlm::tlm_sync_enum answer = (*backward_)->nb_transport_bw(payload, phase, delay);
    if (answer == tlm::TLM_ACCEPTED) return;  // END_RESP will come
    if (answer == tlm::TLM_UPDATED && delay != sc_core::SC_ZERO_TIME) {
      context_.at(context_.now() + picoseconds(delay), {label_.device, kEndResponse}, [this] { end_response(); });
      return;
    }
    responding_ = false;
    free_.push_back(ended_.front());
    ended_.pop_front();
    payload.release();
  }
}

void TlmAgent::end_response() {
  if (!responding_) throw RunError(fmt::format("the TLM initiator \"{}\" sent END_RESP without a response to end", initiator_));
  responding_ = false;
  free_.push_back(ended_.front());
  transfers_[ended_.front()].payload->release();
  ended_.pop_front();
  respond();
}

void TlmAgent::fail_later(std::string problem) {
  if (!problem_.empty()) return;
  problem_ = fmt::format("the TLM initiator \"{}\" {}", initiator_, problem);
  context_.at(context_.now(), {label_.device, kFail}, [this] { throw RunError(problem_); });
}

}  // namespace vitro::hw
