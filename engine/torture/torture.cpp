#include "engine/torture/torture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;
using Kind = Verdict::Kind;

constexpr std::uint32_t kMostFaults = 4;

// One kind after the other is meant, so that all have their turn; others come beside it.
FaultPlan faults_of(const TortureCase& test, const FaultTargets& among) {
  Rng rng(mix(test.seed, {0x746f7274757265}));
  FaultDraw draw;
  draw.seed = test.seed;
  draw.among = among;
  const bool real = test.machine == "host";
  draw.delay = real ? std::chrono::milliseconds(2) : std::chrono::milliseconds(1);
  draw.bytes = rng.below(2) == 0 ? MiB : 64 * MiB;
  // Few configurations write: those that do have more of such faults.
  if (among[static_cast<std::size_t>(FaultTarget::write)] > 0 && rng.below(2) == 0) {
    draw.kinds = {rng.below(2) == 0 ? FaultKind::write_error : FaultKind::no_space};
  }
  for (std::uint64_t i = 0; i < kFaultKinds && draw.kinds.empty(); ++i) {
    const auto kind = static_cast<FaultKind>((test.seed + i) % kFaultKinds);
    if (among[static_cast<std::size_t>(target_of(kind))] > 0) draw.kinds = {kind};
  }
  FaultPlan plan = draw_faults(draw);
  const bool harmless = !plan.faults.empty() && is_harmless(plan.faults.front().kind) && rng.below(3) > 0;
  draw.kinds.clear();
  for (std::size_t i = 0; i < kFaultKinds && harmless; ++i) {
    if (const auto kind = static_cast<FaultKind>(i); is_harmless(kind)) draw.kinds.push_back(kind);
  }
  draw.seed = mix(test.seed, {1});
  draw.faults = static_cast<std::uint32_t>(rng.below(kMostFaults));
  if (draw.faults > 0) std::ranges::move(draw_faults(draw).faults, std::back_inserter(plan.faults));
  return plan;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

bool fired(const Observation& seen, std::initializer_list<FaultKind> kinds) {
  return std::ranges::any_of(kinds, [&](FaultKind kind) { return seen.tally.fired[static_cast<std::size_t>(kind)] > 0; });
}

// Whether a message says what was done to the run: words that only one sort of fault explains count where such a fault struck.
bool names_cause(const Observation& seen) {
  const auto says = [&](std::string_view part) { return contains(seen.error, part); };
  if (says("a fault on purpose")) return true;
  if (says("is not what was written to it") && fired(seen, {FaultKind::corrupt_read})) return true;
  if (says("answered") && fired(seen, {FaultKind::garbage})) return true;
  return (says("do not fit") || says("budget")) && fired(seen, {FaultKind::lease_error, FaultKind::memory_pressure});
}

// Nothing struck that a run may fail of.
bool only_harmless(const Observation& seen) {
  for (std::size_t i = 0; i < kFaultKinds; ++i) {
    if (seen.tally.fired[i] > 0 && !is_harmless(static_cast<FaultKind>(i))) return false;
  }
  return true;
}

std::string shown(const Tokens& tokens) { return Json(tokens).dump(); }

}  // namespace

std::string violation(const Observation& expected, const Observation& seen) {
  using End = Observation::End;
  if (seen.end == End::died || seen.end == End::hung || seen.end == End::unclear) {
    return fmt::format("{}: {}", to_string(seen.end), seen.error);
  }
  if (!seen.shadow.empty()) return fmt::format("shadow model: {}", fmt::join(seen.shadow, "; "));
  if (!seen.losses.empty()) return fmt::format("lost: {}", fmt::join(seen.losses, "; "));
  if (seen.end == End::tokens && seen.tokens != expected.tokens) {
    return fmt::format("wrong tokens: {} (expected {})", shown(seen.tokens), shown(expected.tokens));
  }
  if (seen.end == End::failed && !names_cause(seen)) return fmt::format("an error without its cause: {}", seen.error);
  if (seen.end != End::tokens && only_harmless(seen)) {
    return fmt::format("not recovered, though nothing was lost: {}", seen.error);
  }
  if (!seen.again_error.empty()) return fmt::format("afterwards, with nothing wrong any more: {}", seen.again_error);
  if (seen.again && expected.again && *seen.again != *expected.again) {
    return fmt::format("wrong tokens afterwards: {} (expected {})", shown(*seen.again), shown(*expected.again));
  }
  return "";
}

std::string_view to_string(Verdict::Kind outcome) {
  constexpr std::array<std::string_view, 5> kNames{"untouched", "recovered", "failed", "refused", "WRONG"};
  return kNames[static_cast<std::size_t>(outcome)];
}

Verdict run_case(const TortureCase& given, const TortureOptions& options) {
  Verdict verdict;
  verdict.test = given;
  Subject subject = subject_of(given, options);
  if (given.faults) subject.faults.checksums = given.faults->checksums;
  const Observation expected = isolated(subject, options.limit_s);
  verdict.seen = expected.seen;
  if (expected.end == Observation::End::refused) {
    verdict.outcome = Kind::refused;
    verdict.why = expected.error;
    return verdict;
  }
  // Without a fault a run has its tokens, twice. It may say that the budget is too small: while it loads, or when the KV cache grows.
  // Caches of weights take what room there is, and never more.
  FaultPlan& faults = subject.faults;
  if (expected.end != Observation::End::tokens || !violation(expected, expected).empty()) {
    const bool small = contains(expected.error, "memory.budget") || contains(expected.error, "more for kv do not fit");
    verdict.outcome = expected.end == Observation::End::failed && small ? Kind::refused : Kind::wrong;
    verdict.why = expected.end == Observation::End::tokens ? violation(expected, expected)
                                                           : fmt::format("undisturbed, {}: {}", to_string(expected.end), expected.error);
    verdict.test.faults = faults;
    return verdict;
  }
  if (!verdict.test.faults) verdict.test.faults = faults_of(given, expected.tally.operations);
  faults = *verdict.test.faults;
  const Observation seen = isolated(subject, options.limit_s);
  verdict.tally = seen.tally;
  verdict.seen.reads += seen.seen.reads, verdict.seen.operands += seen.seen.operands, verdict.seen.decisions += seen.seen.decisions;
  verdict.why = violation(expected, seen);
  const bool struck = std::ranges::any_of(seen.tally.fired, [](std::uint64_t n) { return n > 0; });
  if (!verdict.why.empty()) {
    verdict.outcome = Kind::wrong;
  } else if (seen.end == Observation::End::tokens) {
    verdict.outcome = struck ? Kind::recovered : Kind::untouched;
  } else {
    verdict.outcome = Kind::failed;
    verdict.why = seen.error;
  }
  return verdict;
}

TortureCase shrink(const TortureCase& test, const TortureOptions& options) {
  TortureCase least = test;
  const auto still_wrong = [&](const std::vector<Fault>& faults) {
    TortureCase smaller = least;
    smaller.faults->faults = faults;
    return run_case(smaller, options).outcome == Kind::wrong;
  };
  for (bool shrunk = true; shrunk;) {
    shrunk = false;
    for (std::size_t i = 0; i < least.faults->faults.size() && !shrunk; ++i) {
      std::vector<Fault> fewer = least.faults->faults;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (still_wrong(fewer)) {
        least.faults->faults = fewer;
        shrunk = true;
        break;
      }
      if (least.faults->faults[i].count <= 1) continue;
      fewer = least.faults->faults;
      fewer[i].count = fewer[i].count == kFromThenOn ? 16 : fewer[i].count / 2;
      if (still_wrong(fewer)) {
        least.faults->faults = fewer;
        shrunk = true;
      }
    }
  }
  return least;
}

}  // namespace vitro
