// A policy whose class is Python, as C++ calls it: with the GIL held, timed, its answers hashed, and an exception told as ours.
#pragma once
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/hash.hpp"
#include "engine/host/host_executor.hpp"
#include "engine/parts/weights/belady.hpp"

namespace vitro {

// One class, and what its objects did in a run.
struct PolicyClass {
  pybind11::object type;
  std::string kind, name;
  std::string title;                           // for people: the name, and what the class is called
  std::set<std::string, std::less<>> methods;  // those of its own: the others are not called
  HostExecutor clock;                          // of this process: what a policy costs the simulation is no simulated time
  std::uint64_t calls = 0;
  Foresight foresight;  // of Belady's rule
  std::uint32_t objects = 0;
  Picoseconds spent{0};
  Hash decisions;
  std::vector<std::uint64_t> by_token;  // the hash after each token, of all objects
  std::string failure;                  // of what must not throw; empty: none

  ~PolicyClass() {
    const pybind11::gil_scoped_acquire gil;
    type = pybind11::object();
  }
  bool has(std::string_view method) const { return methods.contains(method); }
};
using PolicyClassPtr = std::shared_ptr<PolicyClass>;

// Throws: a vitro.ConfigError stays one, any other exception of a policy is a RunError with the Python traceback. Requires: the GIL.
[[noreturn]] void explain(const PolicyClass& policy, const pybind11::error_already_set& error);
// Throws RunError: "the eviction policy Mine: victim() returned 'x' (expected ...)".
[[noreturn]] void refuse(const PolicyClass& policy, std::string_view method, const pybind11::handle& answer, std::string_view expected);
// A whole number from 0 to below `end`. Throws RunError through refuse(). Requires: the GIL.
std::uint32_t number_below(std::uint64_t end, const PolicyClass& policy, std::string_view method, const pybind11::handle& answer,
                           std::string_view expected);

using PolicyValues = std::vector<std::pair<const char*, std::variant<std::int64_t, double>>>;

// An object of the class. After an exception it is not called any more: the run ends, and what is let go on the way is nobody's business.
class PolicyObject {
 public:
  // Sets `values` as attributes and calls setup(). Values are plain numbers: objects of Python would have to be let go with the GIL held.
  PolicyObject(PolicyClassPtr type, const PolicyValues& values);
  PolicyObject(const PolicyObject&) = delete;
  PolicyObject& operator=(const PolicyObject&) = delete;
  ~PolicyObject() {
    const pybind11::gil_scoped_acquire gil;
    object_ = pybind11::object();
  }

  PolicyClass& type() const { return *type_; }
  bool failed() const { return failed_; }
  // Calls work(object) with the GIL held, in the policy's time.
  template <class Work>
  auto call(const Work& work) {
    const pybind11::gil_scoped_acquire gil;
    const Timed timed(*type_);
    try {
      return work(object_);
    } catch (const pybind11::error_already_set& error) {
      failed_ = true;
      explain(*type_, error);
    } catch (...) {
      failed_ = true;
      throw;
    }
  }

 private:
  struct Timed {
    explicit Timed(PolicyClass& of) : policy(of), since(of.clock.now()) { ++policy.calls; }
    ~Timed() { policy.spent += policy.clock.now() - since; }
    PolicyClass& policy;
    Picoseconds since;
  };

  PolicyClassPtr type_;
  pybind11::object object_;
  bool failed_ = false;
};

}  // namespace vitro
