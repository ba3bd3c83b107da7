// SystemC elaborates once per context: every test gets one of its own. Modules made in it are gone before it goes.
#pragma once
#include <memory>
#include <systemc>

namespace vitro::hw {

class FreshContext {
 public:
  FreshContext() : saved_(sc_core::sc_curr_simcontext), mine_(std::make_unique<sc_core::sc_simcontext>()) {
    sc_core::sc_curr_simcontext = mine_.get();
  }
  ~FreshContext() {
    mine_.reset();
    sc_core::sc_curr_simcontext = saved_;
  }
  FreshContext(const FreshContext&) = delete;
  FreshContext& operator=(const FreshContext&) = delete;

 private:
  sc_core::sc_simcontext* saved_;
  std::unique_ptr<sc_core::sc_simcontext> mine_;
};

}  // namespace vitro::hw
