// The worker's control thread: waits for requests in the mailbox, runs their operators, answers. No allocation.
#include "engine/kernels/hexagon/hvx_worker/matmul.hpp"
#include "engine/kernels/hexagon/hvx_worker/operators.hpp"
#include "engine/kernels/hexagon/hvx_worker/stages.hpp"
#include "engine/kernels/hexagon/hvx_worker/system.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::hexagon {
namespace {

// Polls, since a wake-up through the kernel costs more than most operators; sleeps a little once nothing came for long. `last`: what was
// answered, then what is asked for. False when nobody is left to ask.
bool wait_for_request(const Request& request, uint32_t& last) {
  for (uint32_t looks = 0;; ++looks) {
    invalidate_cache(&request.sequence, sizeof request.sequence);
    const uint32_t sequence = request.sequence;
    if (sequence != last) {
      last = sequence;
      return true;
    }
    if (looks < 256) continue;
    if (looks % 256 == 0 && orphaned()) return false;
    sleep_us(looks < 4096 ? 20 : 1000);
  }
}

void answer(const Request& request, Response& response, uint32_t sequence, const Regions& regions) {
  invalidate_cache(&request, sizeof request);
  response.answer = static_cast<uint32_t>(Answer::done);
  response.where = 0;
  uint32_t count = request.count;
  if (count > kMostOperators || request.checksum != request_sum(request, sequence)) {
    response.answer = static_cast<uint32_t>(Answer::bad_request);
    count = 0;
  }
  begin_log(response);
  for (uint32_t i = 0; i < count; ++i) {
    const Operator& op = request.operators[i];
    if (!inside(op, regions)) {
      response.answer = static_cast<uint32_t>(Answer::bad_operator);
      response.where = i;
      count = 0;
      break;
    }
    run(op, i, regions, response.progress);
    const auto* result = reinterpret_cast<const uint32_t*>(regions.outbound + op.out);
    response.sums[i] = checksum_words(seed_of(sequence, i), result, op.out_bytes / 4);
    clean_cache(result, op.out_bytes);
  }
  end_log(response);
  response.checksum = response_sum(response, sequence, count);
  clean_cache(&response, sizeof response);
  response.sequence = sequence;
  clean_cache(&response.sequence, sizeof response.sequence);
}

}  // namespace

int serve(const ServeCall& call) {
  const Regions regions{static_cast<const unsigned char*>(map_shared(call.inbound_fd, call.inbound_bytes, false)), call.inbound_bytes,
                        static_cast<unsigned char*>(map_shared(call.outbound_fd, call.outbound_bytes, true)), call.outbound_bytes};
  if (regions.inbound == nullptr || regions.outbound == nullptr) return 2;
  const auto& request = *reinterpret_cast<const Request*>(regions.inbound);
  invalidate_cache(&request, sizeof request);
  if (request.magic != kMagic || request.version != kVersion) return 1;
  if (request.inbound_bytes != call.inbound_bytes || request.outbound_bytes != call.outbound_bytes) return 1;
  Response& response = regions.response();
  invalidate_cache(&response, offsetof(Response, sums));
  uint32_t last = response.sequence;
  response.ready = kMagic;
  clean_cache(&response.ready, sizeof response.ready);
  while (wait_for_request(request, last)) {
    invalidate_cache(&request.stop, sizeof request.stop);
    if (request.stop != 0) break;
    answer(request, response, last, regions);
  }
  unmap(const_cast<unsigned char*>(regions.inbound), call.inbound_bytes);
  unmap(regions.outbound, call.outbound_bytes);
  return 0;
}

}  // namespace vitro::hexagon
