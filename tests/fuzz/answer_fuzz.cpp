// Any bytes as what a Hexagon worker answers to a request of two products on the matrix unit and a copy. The first byte says which sums are
// right, so that what lies behind them is reached, and whether the worker lives. The session may believe an answer or give the worker up.
#include <cstring>

#include "engine/host/hexagon_session.hpp"
#include "engine/host/hexagon_stages.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace vitro;

constexpr std::uint8_t kRightSequence = 1, kRightSums = 2, kDone = 4, kLives = 8, kRightResults = 16;

// Answers within clean(), which is called when a request has been posted.
class Liar final : public HexagonTransport {
 public:
  std::string name() const override { return "fuzz"; }
  std::span<std::byte> inbound() override { return inbound_; }
  std::span<std::byte> outbound() override { return outbound_; }
  Status start() override {
    response().ready = hexagon::kMagic;
    return {};
  }
  bool alive() override { return lives_; }
  void stop() override {}
  void invalidate(const void*, Bytes) override {}
  void clean(const void* begin, Bytes) override {
    if (begin != inbound_.data() || request().sequence == seen_) return;
    seen_ = request().sequence;
    answer();
  }

  void lie(std::uint8_t flags, std::string_view bytes) {
    flags_ = flags, bytes_ = bytes;
    lives_ = (flags & kLives) != 0;
    response().ready = hexagon::kMagic;
    seen_ = request().sequence;
  }

 private:
  hexagon::Request& request() { return *reinterpret_cast<hexagon::Request*>(inbound_.data()); }
  hexagon::Response& response() { return *reinterpret_cast<hexagon::Response*>(outbound_.data()); }

  void answer() {
    std::memcpy(outbound_.data(), bytes_.data(), std::min(bytes_.size(), outbound_.size()));
    hexagon::Response& said = response();
    const std::uint32_t count = request().count;
    if ((flags_ & kDone) != 0) said.answer = static_cast<std::uint32_t>(hexagon::Answer::done);
    if ((flags_ & kRightResults) != 0) {
      for (std::uint32_t i = 0; i < count; ++i) {
        const hexagon::Operator& op = request().operators[i];
        const auto* words = reinterpret_cast<const std::uint32_t*>(outbound_.data() + op.out);
        said.sums[i] = hexagon::checksum_words(hexagon::seed_of(seen_, i), words, op.out_bytes / 4);
      }
    }
    const bool done = said.answer == static_cast<std::uint32_t>(hexagon::Answer::done);
    if ((flags_ & kRightSums) != 0) said.checksum = hexagon::response_sum(said, seen_, done ? count : 0);
    if ((flags_ & kRightSequence) != 0) said.sequence = seen_;
  }

  alignas(128) std::array<std::byte, 256 * 1024> inbound_{};
  alignas(128) std::array<std::byte, 256 * 1024> outbound_{};
  std::uint32_t seen_ = 0;
  std::uint8_t flags_ = 0;
  bool lives_ = true;
  std::string_view bytes_;
};

std::vector<hexagon::Operator> operators() {
  std::vector<hexagon::Operator> all;
  for (const std::uint32_t batch : {1u, 40u}) {
    hexagon::Operator product{};
    product.kind = hexagon::Kind::matmul_hmx;
    product.rows = 96, product.columns = 64, product.batch = batch, product.bits = 4, product.group = 32;
    product.out_bytes = product.rows * batch * 4;
    product.stages = hexagon::plan_stages(product, 0, {2, 2, 2 * KiB});
    all.push_back(product);
  }
  hexagon::Operator copy{};
  copy.kind = hexagon::Kind::copy, copy.rows = 256, copy.batch = 1, copy.out_bytes = 128;
  all.push_back(copy);
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<hexagon::Operator> all = operators();
  const fuzz::Budget budget(size);
  fuzz::Input input(data, size);
  const std::uint8_t flags = input.byte();
  auto transport = std::make_unique<Liar>();
  Liar& liar = *transport;
  HexagonLimits limits;
  limits.spin = std::chrono::microseconds(0);
  limits.progress = std::chrono::milliseconds(1);
  limits.restarts = 0;
  HexagonSession session(std::move(transport), limits);
  liar.lie(flags, input.rest());
  const auto answer = session.run(all);
  if (answer.ok()) {
    VITRO_CHECK(answer.value().size() == all.size() && session.usable(), "an answer has all results");
    for (std::uint32_t i = 0; i < 2; ++i) {
      const hexagon::StageOverlap overlap = hexagon::overlap_of(all[i], i, session.log());
      VITRO_CHECK(overlap.transfers_ahead <= session.log().size(), "an overlap is of events that there were");
    }
    for (std::size_t i = 0; i < all.size(); ++i) VITRO_CHECK(answer.value()[i].size() * 4 == all[i].out_bytes, "a result has its size");
  } else {
    VITRO_CHECK(answer.status().code == Code::unit_lost || answer.status().code == Code::unsupported_shape, "no other refusal");
  }
  return 0;
}
