// Stands in for the Hexagon SDK's header of this name: what system_qurt.cpp uses of it. phone.cpp defines the functions.
#pragma once
enum { HAP_PROT_READ = 1, HAP_PROT_WRITE = 2 };
// -1: not mapped. Of less than 2 GiB.
extern "C" void* HAP_mmap(void* addr, int len, int prot, int flags, int fd, long offset);
extern "C" int HAP_munmap(void* addr, int len);
