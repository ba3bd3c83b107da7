// The worker's control thread: waits for requests in the mailbox, runs their operators, answers. No allocation.
#include "engine/kernels/hexagon/hvx_worker/matmul.hpp"
#include "engine/kernels/hexagon/hvx_worker/operators.hpp"
#include "engine/kernels/hexagon/hvx_worker/stages.hpp"
#include "engine/kernels/hexagon/hvx_worker/system.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::hexagon {
namespace {

constexpr int kInboundFd = 3, kOutboundFd = 4;

// Polls, since a wake-up through the kernel costs more than most operators; sleeps a little once nothing came for long.
uint32_t wait_for_request(const Request& request, uint32_t last) {
  for (uint32_t looks = 0;; ++looks) {
    invalidate_cache(&request.sequence, sizeof request.sequence);
    const uint32_t sequence = request.sequence;
    if (sequence != last) return sequence;
    if (looks < 256) continue;
    if (looks % 256 == 0 && orphaned()) leave(0);
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
  begin_request();
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

extern "C" [[noreturn]] void _start() {
  auto* request = static_cast<const Request*>(map_shared(kInboundFd, kArenaStart, false));
  if (request == nullptr || request->magic != kMagic || request->version != kVersion) leave(1);
  const uint32_t inbound_bytes = request->inbound_bytes, outbound_bytes = request->outbound_bytes;
  Regions regions{static_cast<const unsigned char*>(map_shared(kInboundFd, inbound_bytes, false)), inbound_bytes,
                  static_cast<unsigned char*>(map_shared(kOutboundFd, outbound_bytes, true)), outbound_bytes};
  if (regions.inbound == nullptr || regions.outbound == nullptr) leave(2);
  auto& response = *reinterpret_cast<Response*>(regions.outbound);
  uint32_t last = response.sequence;
  response.ready = kMagic;
  clean_cache(&response.ready, sizeof response.ready);
  orphaned();
  for (;;) {
    last = wait_for_request(*request, last);
    if (request->stop != 0) leave(0);
    answer(*request, response, last, regions);
  }
}

}  // namespace vitro::hexagon
