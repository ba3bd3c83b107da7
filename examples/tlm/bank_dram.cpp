// A DRAM as a third party would write it: banks with open rows behind one data bus, and a refresh that closes all rows. With b_transport()
// it serves in order of arrival. With the four phases a controller takes up to `queue` requests and serves row hits first.
#include <tlm_utils/peq_with_get.h>
#include <tlm_utils/simple_target_socket.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "hw_models/tlm/plugin.hpp"

namespace {

using sc_core::sc_time;
using sc_core::sc_time_stamp;

struct Parameters {
  unsigned banks, row_bytes;
  double bytes_per_second;
  sc_time row_hit, row_miss, refresh_every, refresh;  // row_miss: what closing a row and opening another adds to a hit
  std::size_t queue;
};

class BankDram final : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket<BankDram> socket;

  BankDram(const sc_core::sc_module_name& name, const Parameters& parameters)
      : sc_module(name), socket("socket"), p_(parameters), banks_(parameters.banks), responses_("responses") {
    socket.register_b_transport(this, &BankDram::b_transport);
    socket.register_nb_transport_fw(this, &BankDram::nb_transport_fw);
    SC_HAS_PROCESS(BankDram);
    SC_THREAD(refresh);
    SC_THREAD(control);
    SC_METHOD(respond);
    sensitive << responses_.get_event() << response_ended_;
    dont_initialize();
  }

 private:
  struct Bank {
    std::uint64_t row = ~std::uint64_t{0};  // none is open
    sc_time free_at;
  };

  std::uint64_t row_of(const tlm::tlm_generic_payload& payload) const { return payload.get_address() / p_.row_bytes; }
  Bank& bank_of(const tlm::tlm_generic_payload& payload) { return banks_[row_of(payload) % p_.banks]; }

  // Reserves bank and bus, and says when the last byte has moved.
  sc_time serve(const tlm::tlm_generic_payload& payload, const sc_time& arrival) {
    Bank& bank = bank_of(payload);
    sc_time ready = std::max(arrival, bank.free_at);
    if (bank.row != row_of(payload)) ready += p_.row_miss;
    bank.row = row_of(payload);
    bank.free_at = ready;  // the next hit of the row may follow while this one is on its way
    const sc_time transfer(payload.get_data_length() / p_.bytes_per_second, sc_core::SC_SEC);
    bus_free_at_ = std::max(ready + p_.row_hit, bus_free_at_) + transfer;
    return bus_free_at_;
  }

  void b_transport(tlm::tlm_generic_payload& payload, sc_time& delay) {
    const sc_time end = serve(payload, sc_time_stamp() + delay);
    wait(end - sc_time_stamp());
    delay = sc_core::SC_ZERO_TIME;
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
  }

  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_time& delay) {
    if (phase == tlm::BEGIN_REQ) {
      payload.acquire();
      arrived_.push_back(&payload);
      work_.notify(delay);
    } else if (phase == tlm::END_RESP) {
      response_ended_.notify(delay);
    }
    return tlm::TLM_ACCEPTED;
  }

  // Takes requests into the queue, which ends their first phase, and serves one at a time: the oldest whose row is open, or the oldest.
  void control() {
    for (;;) {
      while (!arrived_.empty() && queue_.size() < p_.queue) {
        tlm::tlm_generic_payload* payload = arrived_.front();
        arrived_.pop_front();
        queue_.push_back(payload);
        tlm::tlm_phase phase = tlm::END_REQ;
        sc_time now = sc_core::SC_ZERO_TIME;
        socket->nb_transport_bw(*payload, phase, now);
      }
      if (queue_.empty()) {
        wait(work_);
        continue;
      }
      const auto hits = [this](const tlm::tlm_generic_payload* payload) { return bank_of(*payload).row == row_of(*payload); };
      const auto hit = std::find_if(queue_.begin(), queue_.end(), hits);
      const auto next = hit == queue_.end() ? queue_.begin() : hit;
      tlm::tlm_generic_payload* payload = *next;
      queue_.erase(next);
      responses_.notify(*payload, serve(*payload, sc_time_stamp()) - sc_time_stamp());
      // Commands go ahead of the bus by what opening a row takes, so that rows are opened while others transfer.
      const sc_time lead = p_.row_miss + p_.row_hit;
      if (bus_free_at_ > sc_time_stamp() + lead) {
        wait(bus_free_at_ - sc_time_stamp() - lead);
      } else {
        wait(sc_core::SC_ZERO_TIME);
      }
    }
  }

  // One response at a time, each to its END_RESP.
  void respond() {
    if (responding_ != nullptr) {
      if (!response_ended_.triggered()) return;
      responding_->release();
      responding_ = nullptr;
    }
    while (tlm::tlm_generic_payload* payload = responses_.get_next_transaction()) {
      payload->set_response_status(tlm::TLM_OK_RESPONSE);
      tlm::tlm_phase phase = tlm::BEGIN_RESP;
      sc_time delay = sc_core::SC_ZERO_TIME;
      if (socket->nb_transport_bw(*payload, phase, delay) == tlm::TLM_ACCEPTED) {
        responding_ = payload;
        return;
      }
      payload->release();
    }
  }

  void refresh() {
    for (;;) {
      wait(p_.refresh_every);
      const sc_time end = std::max(sc_time_stamp(), bus_free_at_) + p_.refresh;
      for (Bank& bank : banks_) bank = {~std::uint64_t{0}, end};
    }
  }

  Parameters p_;
  std::vector<Bank> banks_;
  sc_time bus_free_at_;
  std::deque<tlm::tlm_generic_payload*> arrived_, queue_;
  sc_core::sc_event work_, response_ended_;
  tlm_utils::peq_with_get<tlm::tlm_generic_payload> responses_;
  tlm::tlm_generic_payload* responding_ = nullptr;
};

using vitro::hw::TlmUnit;
constexpr vitro::hw::TlmParameter kParameters[] = {
    // key, unit, default (empty: required), source of the default
    {"banks", TlmUnit::number, "16", "four bank groups of four, as LPDDR5 has them"},
    {"row_bytes", TlmUnit::bytes, "8 KiB", "four channels of 2 KiB rows side by side"},
    {"bus", TlmUnit::bytes_per_second, "", ""},
    {"row_hit", TlmUnit::seconds, "20 ns", "a typical read latency"},
    {"row_miss", TlmUnit::seconds, "36 ns", "precharge and activate of a typical part"},
    {"refresh_every", TlmUnit::seconds, "3.9 us", "tREFI of LPDDR5"},
    {"refresh", TlmUnit::seconds, "280 ns", "all banks of a 16 Gb die"},
    {"queue", TlmUnit::number, "32", "as public simulators have it"},
};

sc_core::sc_module* make(vitro::hw::TlmSite& site) {
  const auto seconds = [&site](const char* key) { return sc_time(site.value(key), sc_core::SC_SEC); };
  if (site.value("banks") < 1) site.fail("banks", "must be 1 or more");
  if (site.value("row_bytes") < 64) site.fail("row_bytes", "must be 64 B or more");
  if (site.value("queue") < 1) site.fail("queue", "must be 1 or more");
  if (site.value("refresh_every") <= site.value("refresh")) site.fail("refresh_every", "must be longer than a refresh");
  auto* dram = new BankDram(site.name(), {static_cast<unsigned>(site.value("banks")), static_cast<unsigned>(site.value("row_bytes")),
                                          site.value("bus"), seconds("row_hit"), seconds("row_miss"), seconds("refresh_every"),
                                          seconds("refresh"), static_cast<std::size_t>(site.value("queue"))});
  site.connect(dram->socket);
  return dram;
}

}  // namespace

VITRO_TLM_TARGET("bank_dram", "banks with open rows behind one bus", vitro::hw::kLooselyTimed | vitro::hw::kApproximatelyTimed,
                 kParameters, make)
