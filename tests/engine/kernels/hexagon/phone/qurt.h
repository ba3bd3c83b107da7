// Stands in for the Hexagon SDK's header of this name: what system_qurt.cpp uses of it. phone.cpp defines the functions.
#pragma once

enum { QURT_EOK = 0 };
enum qurt_hvx_mode_t { QURT_HVX_MODE_64B, QURT_HVX_MODE_128B };
using qurt_thread_t = unsigned int;
struct qurt_thread_attr_t {
  void* stack_addr;  // the stack's lowest byte
  unsigned int stack_size;
  unsigned short priority;
};

inline void qurt_thread_attr_init(qurt_thread_attr_t* attr) { *attr = {nullptr, 0, 256}; }
inline void qurt_thread_attr_set_stack_addr(qurt_thread_attr_t* attr, void* at) { attr->stack_addr = at; }
inline void qurt_thread_attr_set_stack_size(qurt_thread_attr_t* attr, unsigned int bytes) { attr->stack_size = bytes; }
inline void qurt_thread_attr_set_priority(qurt_thread_attr_t* attr, unsigned short priority) { attr->priority = priority; }

extern "C" {
int qurt_thread_create(qurt_thread_t* id, qurt_thread_attr_t* attr, void (*entry)(void*), void* argument);
int qurt_thread_join(unsigned int id, int* status);
void qurt_thread_exit(int status);
qurt_thread_t qurt_thread_get_id(void);
int qurt_thread_get_priority(qurt_thread_t id);
int qurt_futex_wait(void* word, int value);
int qurt_futex_wake(void* word, int most);
int qurt_timer_sleep(unsigned long long microseconds);
int qurt_hvx_lock(qurt_hvx_mode_t mode);
int qurt_hvx_unlock(void);
}
