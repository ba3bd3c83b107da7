#include "hw_models/dram/tlm_adapter.hpp"

#include "engine/base/check.hpp"
#include "hw_models/dram/timing.hpp"

namespace vitro::hw {
namespace {

enum Kind : std::uint16_t { kBegin, kRoom, kFinish };

constexpr Bytes kLine = DramOrganisation::kLine;

Picoseconds picoseconds(const sc_core::sc_time& t) { return Picoseconds(static_cast<std::int64_t>(t.value())); }

}  // namespace

SystemCContext::SystemCContext(const sc_core::sc_module_name& name, std::uint64_t seed) : sc_module(name), loop_(seed) {
  SC_HAS_PROCESS(SystemCContext);
  SC_METHOD(run);
  sensitive << wake_;
  dont_initialize();
}

// An sc_event keeps the earlier of two notifications, which is all that is needed: run() asks again.
void SystemCContext::at(Picoseconds when, Label label, Callback action) {
  loop_.at(when, label, action);
  wake_.notify(sc_core::sc_time::from_value(static_cast<std::uint64_t>((when - now()).count())));
}

void SystemCContext::run() {
  loop_.run_until(now());
  if (!loop_.empty()) wake_.notify(sc_core::sc_time::from_value(static_cast<std::uint64_t>((loop_.next() - now()).count())));
}

TlmDramTarget::TlmDramTarget(const sc_core::sc_module_name& name, Context& context, LineMemory& memory)
    : sc_module(name), socket("socket"), context_(context), memory_(memory), label_{context.device("tlm target"), kBegin} {
  socket.register_nb_transport_fw(this, &TlmDramTarget::forward);
  memory.connect(*this);
}

tlm::tlm_sync_enum TlmDramTarget::forward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  if (phase == tlm::END_RESP) {
    context_.at(context_.now() + picoseconds(delay), label_, [this] { end_response(); });
    return tlm::TLM_COMPLETED;
  }
  VITRO_CHECK(phase == tlm::BEGIN_REQ, "a phase that the base protocol does not send forward");
  VITRO_CHECK(payload.get_data_length() > 0, "a TLM request without bytes");
  if (payload.has_mm()) payload.acquire();
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(transfers_.size()));
    transfers_.emplace_back();
  }
  const std::uint32_t tag = free_.back();
  free_.pop_back();
  const std::uint64_t first = round_down(payload.get_address(), kLine), end = payload.get_address() + payload.get_data_length();
  const std::uint64_t lines = (round_up(end, kLine) - first) / kLine;
  transfers_[tag] = {&payload, first, lines, lines};
  context_.at(context_.now() + picoseconds(delay), label_, [this, tag] { begin(tag); });
  return tlm::TLM_ACCEPTED;
}

void TlmDramTarget::begin(std::uint32_t tag) {
  waiting_.push_back(tag);
  push_waiting();
}

void TlmDramTarget::push_waiting() {
  while (!waiting_.empty()) {
    const std::uint32_t tag = waiting_.front();
    Transfer& transfer = transfers_[tag];
    for (; transfer.to_push > 0; --transfer.to_push, transfer.next += kLine) {
      if (!memory_.try_push(transfer.next % memory_.capacity(), transfer.payload->is_write(), tag)) return;
    }
    waiting_.pop_front();
    tlm::tlm_phase phase = tlm::END_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    socket->nb_transport_bw(*transfer.payload, phase, delay);
  }
}

void TlmDramTarget::line_finished(std::uint32_t tag) {
  if (--transfers_[tag].to_finish > 0) return;
  ended_.push_back(tag);
  if (!responding_) respond();
}

void TlmDramTarget::respond() {
  while (!ended_.empty()) {
    tlm::tlm_generic_payload& payload = *transfers_[ended_.front()].payload;
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    responding_ = true;
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    const tlm::tlm_sync_enum answer = socket->nb_transport_bw(payload, phase, delay);
    if (answer == tlm::TLM_ACCEPTED) return;  // END_RESP will come
    responding_ = false;
    free_.push_back(ended_.front());
    ended_.pop_front();
    if (payload.has_mm()) payload.release();
  }
}

void TlmDramTarget::end_response() {
  const std::uint32_t tag = ended_.front();
  ended_.pop_front();
  responding_ = false;
  free_.push_back(tag);
  if (transfers_[tag].payload->has_mm()) transfers_[tag].payload->release();
  respond();
}

TlmLineMemory::TlmLineMemory(const sc_core::sc_module_name& name, Context& context, Bytes capacity)
    : sc_module(name), socket("socket"), context_(context), capacity_(capacity), label_{context.device("tlm memory"), kFinish} {
  socket.register_nb_transport_bw(this, &TlmLineMemory::backward);
}

bool TlmLineMemory::try_push(std::uint64_t address, bool write, std::uint32_t tag) {
  if (requesting_) return false;
  if (idle_.empty()) {
    lines_.push_back(std::make_unique<Line>(static_cast<tlm_mm_interface*>(this)));
    idle_.push_back(lines_.back().get());
  }
  Line& line = *idle_.back();
  idle_.pop_back();
  line.tag = tag;
  line.set_command(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
  line.set_address(address);
  line.set_data_ptr(bytes_);
  line.set_data_length(kLine);
  line.set_streaming_width(kLine);
  line.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  line.acquire();
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  requesting_ = true;
  const tlm::tlm_sync_enum answer = socket->nb_transport_fw(line, phase, delay);
  if (answer == tlm::TLM_COMPLETED || (answer == tlm::TLM_UPDATED && phase == tlm::BEGIN_RESP)) finish(line, delay);
  if (answer == tlm::TLM_COMPLETED || answer == tlm::TLM_UPDATED) requesting_ = false;
  return true;
}

tlm::tlm_sync_enum TlmLineMemory::backward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  if (phase == tlm::END_REQ) {
    end_request();
    return tlm::TLM_ACCEPTED;
  }
  VITRO_CHECK(phase == tlm::BEGIN_RESP, "a phase that the base protocol does not send backward");
  if (requesting_) end_request();  // a response says that the request was taken
  finish(payload, delay);
  return tlm::TLM_COMPLETED;
}

// As an event: the target may be in the middle of its own work.
void TlmLineMemory::end_request() {
  requesting_ = false;
  context_.at(context_.now(), {label_.device, kRoom}, [this] { sink_->room(); });
}

void TlmLineMemory::finish(tlm::tlm_generic_payload& payload, const sc_core::sc_time& delay) {
  Line* line = static_cast<Line*>(&payload);
  context_.at(context_.now() + picoseconds(delay), label_, [this, line] {
    if (line->is_response_error()) throw RunError("the DRAM at the TLM socket answered with an error: " + line->get_response_string());
    const std::uint32_t tag = line->tag;
    line->release();
    sink_->line_finished(tag);
  });
}

void TlmLineMemory::free(tlm::tlm_generic_payload* payload) { idle_.push_back(static_cast<Line*>(payload)); }

}  // namespace vitro::hw
