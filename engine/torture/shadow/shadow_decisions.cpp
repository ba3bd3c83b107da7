#include "engine/torture/shadow/shadow_decisions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/torture/shadow/findings.hpp"

namespace vitro {
namespace {

// "12+3" -> 12, 3
std::pair<std::uint64_t, std::uint64_t> run_in(std::string_view text) {
  std::uint64_t first = 0, count = 0;
  const std::size_t plus = text.find('+');
  std::from_chars(text.data(), text.data() + plus, first);
  std::from_chars(text.data() + plus + 1, text.data() + text.size(), count);
  return {first, count};
}

}  // namespace

void ShadowDecisions::found(std::string what) { add_finding(findings_, std::move(what)); }

void ShadowDecisions::begin_anew() {
  pages_.clear();
  experts_.clear();
  unsure_ = false;
  most_experts_ = 0;
}

void ShadowDecisions::decision(std::string_view kind, std::string_view what, std::string_view where) {
  ++count_;
  if (where == "dram" || where == "adapter" || where == "hot") return;  // for good; grown and shrunk: no block of its own
  if (what.starts_with("page ")) return page(kind, what.substr(5));
  const std::string name(what);
  if (name.starts_with("layer ")) {
    if (kind == "load" && (where == "cold" || where == "staging") && name.find(" next ") == std::string::npos) ++loads_.neurons;
  } else if (name.find(" expert ") != std::string::npos && where == "cold") {
    expert(kind, name);
  } else if (kind == "load" && where == "cold") {
    ++loads_.matrices[name];
  }
}

void ShadowDecisions::page(std::string_view kind, std::string_view what) {
  const auto [first, count] = run_in(what);
  for (std::uint64_t page = first; page < first + count; ++page) {
    if (kind == "load") {
      ++loads_.pages;
      if (!pages_.insert(page).second) found(fmt::format("page {} is loaded, and is resident", page));
    } else if (kind == "lost") {  // its read failed: it is given up before it counts
      --loads_.pages;
    } else if (pages_.erase(page) == 0 && !unsure_) {
      found(fmt::format("page {} is given up, and is not resident", page));
    }
  }
  if (page_room_ > 0 && pages_.size() > page_room_) {
    found(fmt::format("{} pages are resident, and there is room for {}", pages_.size(), page_room_));
  }
}

void ShadowDecisions::expert(std::string_view kind, const std::string& what) {
  // "blk.3.ffn_up_exps.weight expert 5": all layers share the slots of a matrix.
  const std::size_t second = what.find('.', what.find('.') + 1);
  std::set<std::string>& resident = experts_[what.substr(second + 1, what.find(' ') - second - 1)];
  if (kind == "load" || kind == "foresee") {
    ++(kind == "load" ? loads_.experts : loads_.foreseen);
    if (!resident.insert(what).second) found(fmt::format("{}: {} is resident", kind, what));
    most_experts_ = std::max<std::uint64_t>(most_experts_, resident.size());
  } else if (kind == "evict" || kind == "forget") {
    if (resident.erase(what) == 0) found(fmt::format("{}: {} is not resident", kind, what));
  }
}

}  // namespace vitro
