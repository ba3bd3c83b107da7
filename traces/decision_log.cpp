#include "traces/decision_log.hpp"

#include <fmt/format.h>

#include "engine/base/file.hpp"
#include "traces/json_text.hpp"

namespace vitro {

void DecisionLog::add(std::string_view kind, std::string_view what, std::string_view where) {
  if (decisions_.size() >= limit_) {
    ++dropped_;
    return;
  }
  decisions_.push_back({texts_.add(kind), texts_.add(what), texts_.add(where)});
}

std::string DecisionLog::jsonl() const {
  std::string out;
  std::size_t n = 0;
  for (const Decision& decision : decisions_) {
    fmt::format_to(std::back_inserter(out), R"({{"n":{},"kind":{},"what":{},"where":{}}})", n++, json_text(texts_[decision.kind]),
                   json_text(texts_[decision.what]), json_text(texts_[decision.where]));
    out += '\n';
  }
  if (dropped_ > 0) {
    const std::string what = json_text(fmt::format("{} later decisions were dropped", dropped_));
    fmt::format_to(std::back_inserter(out), R"({{"n":{},"kind":"cut","what":{},"where":"trace"}})", n, what);
    out += '\n';
  }
  return out;
}

void DecisionLog::write(const std::string& path) const {
  OutputFile file(path);
  file.write(jsonl());
  file.commit();
}

}  // namespace vitro
