// Stands in for the Hexagon SDK's header of this name: what system_qurt.cpp uses of it. phone.cpp defines the function.
#pragma once
enum HAP_Power_request_type { HAP_power_set_HVX = 2 };
struct HAP_power_request_t {
  HAP_Power_request_type type;
  union {
    struct {
      unsigned char power_up;
    } hvx;
    unsigned long long others[14];
  };
};
extern "C" int HAP_power_set(void* context, HAP_power_request_t* request);
