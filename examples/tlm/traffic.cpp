// A traffic generator as a third party would write it: requests of one size at a rate, such as a display or a camera makes them. When
// memory is slower than the rate, it falls behind. With `style: blocking` several threads call b_transport(), else requests are sent with
// the four phases.
#define SC_INCLUDE_DYNAMIC_PROCESSES  // for sc_spawn()
#include <tlm_utils/simple_initiator_socket.h>

#include <cstring>
#include <memory>
#include <vector>

#include "hw_models/tlm/plugin.hpp"

namespace {

using sc_core::sc_time;
using sc_core::sc_time_stamp;

struct Parameters {
  double bytes_per_second, written;
  unsigned size, depth;
  std::uint64_t range;
  bool random, blocking;
  std::uint64_t seed;
};

class Traffic final : public sc_core::sc_module, public tlm::tlm_mm_interface {
 public:
  tlm_utils::simple_initiator_socket<Traffic> socket;

  Traffic(const sc_core::sc_module_name& name, const Parameters& parameters)
      : sc_module(name), socket("socket"), p_(parameters), chance_(parameters.seed), bytes_(parameters.size),
        period_(parameters.size / parameters.bytes_per_second, sc_core::SC_SEC) {
    socket.register_nb_transport_bw(this, &Traffic::nb_transport_bw);
    SC_HAS_PROCESS(Traffic);
    if (p_.blocking) {
      for (unsigned i = 0; i < p_.depth; ++i) sc_core::sc_spawn([this] { call(); }, sc_core::sc_gen_unique_name("call"));
    } else {
      SC_THREAD(send);
    }
  }

 private:
  void fill(tlm::tlm_generic_payload& payload) {
    const std::uint64_t places = p_.range / p_.size;
    payload.set_address((p_.random ? draw() % places : next_++ % places) * p_.size);
    owed_ += p_.written;
    payload.set_command(owed_ >= 1 ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
    if (owed_ >= 1) owed_ -= 1;
    payload.set_data_ptr(bytes_.data());
    payload.set_data_length(p_.size);
    payload.set_streaming_width(p_.size);
    payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  }

  std::uint64_t draw() {
    chance_ = chance_ * 6364136223846793005 + 1442695040888963407;
    return chance_ >> 24;
  }

  // When the next request is due. What memory could not take is not made up for.
  void wait_for_turn() {
    const sc_time turn = std::max(due_, sc_time_stamp());
    due_ = turn + period_;
    if (turn > sc_time_stamp()) wait(turn - sc_time_stamp());
  }

  void call() {
    tlm::tlm_generic_payload payload;
    for (;;) {
      wait_for_turn();
      fill(payload);
      sc_time delay = sc_core::SC_ZERO_TIME;
      socket->b_transport(payload, delay);
      wait(delay);
    }
  }

  void send() {
    for (;;) {
      wait_for_turn();
      while (requesting_ || under_way_ == p_.depth) wait(go_on_);
      tlm::tlm_generic_payload& payload = take();
      fill(payload);
      ++under_way_;
      requesting_ = true;
      tlm::tlm_phase phase = tlm::BEGIN_REQ;
      sc_time delay = sc_core::SC_ZERO_TIME;
      const tlm::tlm_sync_enum status = socket->nb_transport_fw(payload, phase, delay);
      if (status != tlm::TLM_ACCEPTED) requesting_ = false;
      if (status == tlm::TLM_COMPLETED || phase == tlm::BEGIN_RESP) end(payload);
    }
  }

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_time&) {
    requesting_ = false;
    go_on_.notify(sc_core::SC_ZERO_TIME);
    if (phase != tlm::BEGIN_RESP) return tlm::TLM_ACCEPTED;
    end(payload);
    phase = tlm::END_RESP;
    return tlm::TLM_UPDATED;
  }

  void end(tlm::tlm_generic_payload& payload) {
    --under_way_;
    payload.release();
  }

  tlm::tlm_generic_payload& take() {
    if (idle_.empty()) {
      payloads_.push_back(std::make_unique<tlm::tlm_generic_payload>(this));
      idle_.push_back(payloads_.back().get());
    }
    tlm::tlm_generic_payload& payload = *idle_.back();
    idle_.pop_back();
    payload.acquire();
    return payload;
  }
  void free(tlm::tlm_generic_payload* payload) override { idle_.push_back(payload); }

  Parameters p_;
  std::uint64_t chance_;
  std::vector<unsigned char> bytes_;
  sc_time period_, due_;
  std::uint64_t next_ = 0;
  double owed_ = 0;
  unsigned under_way_ = 0;
  bool requesting_ = false;
  sc_core::sc_event go_on_;
  std::vector<std::unique_ptr<tlm::tlm_generic_payload>> payloads_;
  std::vector<tlm::tlm_generic_payload*> idle_;
};

using vitro::hw::TlmUnit;
constexpr vitro::hw::TlmParameter kParameters[] = {
    {"rate", TlmUnit::bytes_per_second, "", ""},
    {"size", TlmUnit::bytes, "256 B", "a burst of a display controller"},
    {"depth", TlmUnit::number, "16", "requests that it has under way"},
    {"written", TlmUnit::ratio, "0%", "it reads"},
    {"range", TlmUnit::bytes, "64 MiB", "some frames"},
    {"pattern", TlmUnit::number, "sequential", "", "sequential|random"},
    {"style", TlmUnit::number, "phases", "", "phases|blocking"},
};

sc_core::sc_module* make(vitro::hw::TlmSite& site) {
  if (site.value("size") < 1 || site.value("size") > 65536) site.fail("size", "must be from 1 B to 64 KiB");
  if (site.value("depth") < 1 || site.value("depth") > 256) site.fail("depth", "must be from 1 to 256");
  if (site.value("range") < site.value("size")) site.fail("range", "must be `size` or more");
  auto* traffic = new Traffic(
      site.name(), {site.value("rate"), site.value("written"), static_cast<unsigned>(site.value("size")),
                    static_cast<unsigned>(site.value("depth")), static_cast<std::uint64_t>(site.value("range")),
                    std::strcmp(site.word("pattern"), "random") == 0, std::strcmp(site.word("style"), "blocking") == 0, site.seed()});
  site.connect(traffic->socket);
  return traffic;
}

}  // namespace

VITRO_TLM_INITIATOR("traffic", "requests of one size at a rate", kParameters, make)
