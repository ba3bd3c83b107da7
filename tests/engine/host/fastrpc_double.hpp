// What tests ask of the library that stands in for FastRPC's (fastrpc_double.cpp), beside the vendor's functions.
#pragma once
#include <compare>

namespace vitro::test {

struct DoubleState {
  int misuses;                       // calls whose effect the real library leaves undefined
  int kills;                         // processes that were asked for to be killed
  int buffers, sessions, processes;  // that there are
  auto operator<=>(const DoubleState&) const = default;
};

extern "C" {
int vitro_double_process(const void* region);  // of this machine, which runs the worker of that inbound region; -1: none does
// The next call of a function of FastRPC, or of remote_session_control with a request of that name, fails, after so many that do not.
void vitro_double_fail(const char* function, int error, int calls_before);
void vitro_double_return_early(int error);  // invocations that are pending return it, while their processes run on
void vitro_double_release();                // sessions that were reserved and not opened, for which the real library has no function
DoubleState vitro_double_state();
}

}  // namespace vitro::test
