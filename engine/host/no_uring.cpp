// For builds without liburing: pread on threads is what runs there.
#include "engine/host/io_backend.hpp"

namespace vitro {

std::unique_ptr<IoBackend> make_uring_backend(HostExecutor&, std::string& why) {
  why = "not compiled in";
  return nullptr;
}

}  // namespace vitro
