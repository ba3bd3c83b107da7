// Runs in a child process: its death is an observation. JSON goes through a pipe, what it says on stderr through another.
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/torture/subject.hpp"

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

struct Pipe {
  Pipe() {
    if (::pipe(ends.data()) != 0) throw RunError("no pipe to a child process");
  }
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) ::close(end);
    }
  }
  void close_end(std::size_t i) { ::close(std::exchange(ends[i], -1)); }
  std::array<int, 2> ends{-1, -1};
};

[[noreturn]] void be_child(const Subject& subject, Pipe& answer, Pipe& said) {
  ::dup2(said.ends[1], STDERR_FILENO);
  const std::string text = to_json(observe(subject)).dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(answer.ends[1], text.data() + at, text.size() - at);
    if (n <= 0) ::_exit(3);
    at += static_cast<std::size_t>(n);
  }
  ::_exit(0);
}

// Takes what there is; false at the end.
bool drain(int end, std::string& into) {
  std::array<char, 4096> buffer;
  const ssize_t n = ::read(end, buffer.data(), buffer.size());
  if (n > 0) into.append(buffer.data(), static_cast<std::size_t>(n));
  return n > 0;
}

}  // namespace

Observation isolated(const Subject& subject, double limit_s) {
  Pipe answer, said;
  const pid_t child = ::fork();
  if (child < 0) throw RunError("no child process");
  if (child == 0) be_child(subject, answer, said);
  answer.close_end(1);
  said.close_end(1);
  std::string text, words;
  bool open[2] = {true, true}, late = false;
  const int limit_ms = static_cast<int>(std::min(limit_s * 1000, static_cast<double>(std::numeric_limits<int>::max())));
  // Each wait has the whole limit: a run says nothing until it ends, so that there is one wait that counts.
  while ((open[0] || open[1]) && !late) {
    std::array<pollfd, 2> ends{{{open[0] ? answer.ends[0] : -1, POLLIN, 0}, {open[1] ? said.ends[0] : -1, POLLIN, 0}}};
    late = ::poll(ends.data(), ends.size(), limit_ms) == 0;
    if (ends[0].revents != 0) open[0] = drain(answer.ends[0], text);
    if (ends[1].revents != 0) open[1] = drain(said.ends[0], words);
  }
  if (late) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  Observation seen;
  if (late) {
    seen.end = Observation::End::hung;
    seen.error = fmt::format("no end after {} s", limit_s);
  } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    seen.end = Observation::End::died;
    seen.error = WIFSIGNALED(status) ? fmt::format("signal {}: {}", WTERMSIG(status), words)
                                     : fmt::format("exit {}: {}", WEXITSTATUS(status), words);
  } else {
    seen = observation_of(Json::parse(text));
  }
  return seen;
}

}  // namespace vitro
