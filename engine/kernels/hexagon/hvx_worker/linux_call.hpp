// System calls of Linux on Hexagon, for programs without a C library: the generic numbers of 32-bit machines; arguments in r0 to r5, the
// number in r6.
#pragma once

namespace vitro::hexagon {

enum LinuxCall : long {
  kExit = 93, kExitGroup = 94, kFutex = 98, kNanosleep = 101, kGetppid = 173, kMunmap = 215, kClone = 220, kMmap2 = 222
};

inline long linux_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  register long r6 __asm__("r6") = number;
  register long r0 __asm__("r0") = a;
  register long r1 __asm__("r1") = b;
  register long r2 __asm__("r2") = c;
  register long r3 __asm__("r3") = d;
  register long r4 __asm__("r4") = e;
  register long r5 __asm__("r5") = f;
  __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r6), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5) : "memory");
  return r0;
}

}  // namespace vitro::hexagon
