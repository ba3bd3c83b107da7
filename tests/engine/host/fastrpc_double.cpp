// A library that exports the functions of libcdsprpc.so which the transport uses, and runs the DSP's side in qemu-hexagon: memory to share
// is a memfd; an invocation starts the phone's worker (tests/engine/kernels/hexagon/phone) on the two descriptors, and returns when it
// ends. It refuses what the real library is documented to refuse, and counts what it is documented to be undefined.
// Behaviour: remote.h, rpcmem.h and src/ of github.com/quic/fastrpc.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/host/fastrpc_api.hpp"
#include "engine/kernels/hexagon/protocol.hpp"
#include "tests/engine/host/fastrpc_double.hpp"
#include "tests/engine/kernels/hexagon/phone/emulated_call.hpp"

extern char** environ;

namespace vitro::test {
namespace {

using fastrpc::Argument;
using fastrpc::Handle;

enum Error : int { kOk = 0, kNoSuch = 39, kConnectionReset = 104 };
constexpr int dsp(std::uint32_t code) { return static_cast<int>(0x80000400 + code); }
const int kBadParameter = dsp(0x0e), kAlready = dsp(0x1a), kBusy = dsp(0x20), kNoMap = dsp(0x48), kUnsigned = dsp(0x81);
const int kNoSession = dsp(0x8a), kRpc = dsp(0x200);

constexpr int kSessions = 4, kDomains = 8;  // what src/fastrpc_common.h has
constexpr int kFirstFreeFd = 16;            // the invocation's own has a small number in the emulator

struct Buffer {
  std::size_t bytes;
  int fd;
};
struct Session {
  bool reserved = false, takes_unsigned = false, open = false, pending = false;
  std::map<int, std::size_t> mapped;  // bytes, by descriptor
  pid_t process = -1;
  int inbound_fd = -1;  // of the invocation
  int early = 0;        // error that the pending invocation shall return while its process runs on
};

std::mutex mutex;  // guards all that follows
std::condition_variable changed;
std::map<void*, Buffer> buffers;
std::map<int, Session> sessions;  // by domain
std::map<std::string, std::pair<int, int>> faults;
int misuses = 0, kills = 0;

// The error that a test wants of this function's next call.
int fault(const std::string& function) {
  const auto found = faults.find(function);
  if (found == faults.end() || found->second.second-- > 0) return kOk;
  const int error = found->second.first;
  faults.erase(found);
  return error;
}

bool is_compute(int domain) { return domain >= 0 && domain % kDomains == fastrpc::kComputeDomain && domain / kDomains < kSessions; }
std::string name_of(int session) { return "&_dom=cdsp" + (session == 0 ? std::string() : "&_session=" + std::to_string(session)); }

void end(Session& session) {
  if (session.process > 0) {
    ::kill(session.process, SIGKILL);
    ::waitpid(session.process, nullptr, 0);
  }
  session = {};
}

// The emulator with the phone's worker, and the invocation's bytes as kCallFd.
pid_t spawn(int call_fd, const std::vector<int>& regions) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
  }
  for (const int fd : regions) ::posix_spawn_file_actions_adddup2(&files, fd, fd);  // it stays open
  ::posix_spawn_file_actions_adddup2(&files, call_fd, kCallFd);
  const char* arguments[] = {"qemu-hexagon", "-cpu", "v67", VITRO_HEXAGON_PHONE, nullptr};
  pid_t process = -1;
  const int failed = ::posix_spawnp(&process, arguments[0], &files, nullptr, const_cast<char**>(arguments), environ);
  ::posix_spawn_file_actions_destroy(&files);
  return failed == 0 ? process : -1;
}

int new_memory(std::size_t bytes) {
  const int fd = ::memfd_create("vitro-fastrpc", MFD_CLOEXEC);
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, kFirstFreeFd);
  ::close(fd);
  return high >= 0 && ::ftruncate(high, static_cast<off_t>(bytes)) == 0 ? high : -1;
}

void* map_memory(int fd, std::size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
}

int control(fastrpc::ReserveSession& asked) {
  if (std::string(asked.domain_name, asked.domain_name_bytes) != fastrpc::kComputeDsp) return kBadParameter;
  for (int i = 1; i < kSessions; ++i) {
    Session& session = sessions[fastrpc::kComputeDomain + kDomains * i];
    if (session.reserved) continue;
    session.reserved = true;
    asked.domain = static_cast<std::uint32_t>(fastrpc::kComputeDomain + kDomains * i);
    asked.session = static_cast<std::uint32_t>(i);
    return kOk;
  }
  return kNoSession;
}

int control(const fastrpc::ModuleUri& asked) {
  const std::string uri = std::string(asked.module, asked.module_bytes) + name_of(static_cast<int>(asked.session));
  if (asked.session >= kSessions || uri.size() >= asked.uri_bytes) return kBadParameter;
  std::strcpy(asked.uri, uri.c_str());
  return kOk;
}

int control(const fastrpc::UnsignedModules& asked) {
  if (!is_compute(asked.domain)) return kBadParameter;
  if (sessions[asked.domain].open) return kRpc;  // before the session begins
  sessions[asked.domain].takes_unsigned = asked.enable != 0;
  return kOk;
}

int control(const fastrpc::KillProcess& asked) {
  const Session& session = sessions[asked.domain];
  if (!session.open) return kRpc;
  ++kills;
  if (session.process > 0) ::kill(session.process, SIGKILL);
  return kOk;
}

template <class T>
int answer(const char* request, void* data, std::uint32_t bytes) {
  if (const int error = fault(request); error != 0) return error;
  return bytes == sizeof(T) ? control(*static_cast<T*>(data)) : kBadParameter;
}

}  // namespace

extern "C" {

void* rpcmem_alloc(int heap, std::uint32_t, int bytes) {
  const std::scoped_lock lock(mutex);
  if (heap != fastrpc::kSystemHeap || bytes <= 0 || fault("rpcmem_alloc") != 0) return nullptr;
  const int fd = new_memory(static_cast<std::size_t>(bytes));
  void* const memory = map_memory(fd, static_cast<std::size_t>(bytes));
  if (memory == MAP_FAILED) return nullptr;
  std::memset(memory, 0xa5, 4096);  // nobody promises zeros
  buffers[memory] = {static_cast<std::size_t>(bytes), fd};
  return memory;
}

int rpcmem_to_fd(void* memory) {
  const std::scoped_lock lock(mutex);
  if (fault("rpcmem_to_fd") != 0) return -1;
  return buffers.contains(memory) ? buffers[memory].fd : -1;
}

void rpcmem_free(void* memory) {
  const std::scoped_lock lock(mutex);
  const auto found = buffers.find(memory);
  if (found == buffers.end()) return;
  for (const auto& [domain, session] : sessions) misuses += session.mapped.contains(found->second.fd) ? 1 : 0;
  ::munmap(memory, found->second.bytes);
  ::close(found->second.fd);
  buffers.erase(found);
}

int fastrpc_mmap(int domain, int fd, void* memory, int offset, std::size_t bytes, int flags) {
  const std::scoped_lock lock(mutex);
  if (const int error = fault("fastrpc_mmap"); error != 0) return error;
  const auto buffer = buffers.find(memory);
  if (!is_compute(domain) || buffer == buffers.end() || buffer->second.fd != fd || buffer->second.bytes != bytes || offset != 0) {
    return kBadParameter;
  }
  if (flags != fastrpc::kMapWhenAsked || !sessions[domain].open) return kBadParameter;
  return sessions[domain].mapped.emplace(fd, bytes).second ? kOk : kAlready;
}

#ifndef VITRO_WITHOUT_MUNMAP
int fastrpc_munmap(int domain, int fd, void*, std::size_t) {
  const std::scoped_lock lock(mutex);
  Session& session = sessions[domain];
  misuses += session.process > 0 ? 1 : 0;  // its process may still look there
  return session.mapped.erase(fd) > 0 ? kOk : kNoMap;
}
#endif

int remote_session_control(std::uint32_t request, void* data, std::uint32_t bytes) {
  const std::scoped_lock lock(mutex);
  switch (request) {
    case fastrpc::kUnsignedModules:
      return answer<fastrpc::UnsignedModules>("DSPRPC_CONTROL_UNSIGNED_MODULE", data, bytes);
    case fastrpc::kKillProcess:
      return answer<fastrpc::KillProcess>("FASTRPC_REMOTE_PROCESS_KILL", data, bytes);
    case fastrpc::kReserveSession:
      return answer<fastrpc::ReserveSession>("FASTRPC_RESERVE_NEW_SESSION", data, bytes);
    case fastrpc::kModuleUri:
      return answer<fastrpc::ModuleUri>("FASTRPC_GET_URI", data, bytes);
    default:
      return dsp(0x14);
  }
}

int remote_handle64_open(const char* uri, Handle* handle) {
  const std::scoped_lock lock(mutex);
  if (const int error = fault("remote_handle64_open"); error != 0) return error;
  for (int i = 0; i < kSessions; ++i) {
    if (uri != hexagon::kModuleUri + name_of(i)) continue;
    Session& session = sessions[fastrpc::kComputeDomain + kDomains * i];
    if (session.open) return kBusy;
    if (!session.takes_unsigned) return kUnsigned;
    session.open = session.reserved = true;
    *handle = static_cast<Handle>(fastrpc::kComputeDomain + kDomains * i);
    return kOk;
  }
  return kNoSuch;
}

int remote_handle64_invoke(Handle handle, std::uint32_t scalars, Argument* arguments) {
  std::unique_lock lock(mutex);
  if (const int error = fault("remote_handle64_invoke"); error != 0) return error;
  Session& session = sessions[static_cast<int>(handle)];
  if (!session.open || session.pending || arguments[0].buffer.bytes < sizeof(hexagon::ServeCall)) return kBadParameter;
  hexagon::ServeCall asked{};
  std::memcpy(&asked, arguments[0].buffer.data, sizeof asked);
  for (const auto& [fd, bytes] : {std::pair{asked.inbound_fd, asked.inbound_bytes}, {asked.outbound_fd, asked.outbound_bytes}}) {
    if (!session.mapped.contains(fd) || session.mapped[fd] != bytes) return kNoMap;
  }
  const int call_fd = new_memory(4096);
  auto* const call = static_cast<EmulatedCall*>(map_memory(call_fd, 4096));
  call->scalars = scalars;
  call->in_bytes = static_cast<std::uint32_t>(arguments[0].buffer.bytes);
  std::memcpy(call->in, arguments[0].buffer.data, std::min(arguments[0].buffer.bytes, sizeof call->in));
  session.process = spawn(call_fd, {asked.inbound_fd, asked.outbound_fd});
  session.inbound_fd = asked.inbound_fd;
  session.pending = session.process > 0;
  while (session.pending && session.early == 0 && ::waitpid(session.process, nullptr, WNOHANG) == 0) {
    changed.wait_for(lock, std::chrono::milliseconds(1));
  }
  const int result = session.early != 0 ? session.early : call->returned != 0 ? call->result : kConnectionReset;
  if (session.early == 0) session.process = -1;
  session.pending = false;
  session.early = 0;
  ::munmap(call, 4096);
  ::close(call_fd);
  return result;
}

int remote_handle64_close(Handle handle) {
  const std::scoped_lock lock(mutex);
  Session& session = sessions[static_cast<int>(handle)];
  if (!session.open) return kNoSuch;
  if (session.pending) {
    ++misuses;
    return kBusy;
  }
  end(session);
  return kOk;
}

int vitro_double_process(const void* region) {
  const std::scoped_lock lock(mutex);
  const auto buffer = buffers.find(const_cast<void*>(region));
  for (const auto& [domain, session] : sessions) {
    if (buffer != buffers.end() && session.process > 0 && session.inbound_fd == buffer->second.fd) return session.process;
  }
  return -1;
}

void vitro_double_fail(const char* function, int error, int calls_before) {
  const std::scoped_lock lock(mutex);
  faults[function] = {error, calls_before};
}

void vitro_double_return_early(int error) {
  const std::scoped_lock lock(mutex);
  for (auto& [domain, session] : sessions) session.early = session.pending ? error : 0;
  changed.notify_all();
}

void vitro_double_release() {
  const std::scoped_lock lock(mutex);
  for (auto& [domain, session] : sessions) session.reserved = session.open;
}

DoubleState vitro_double_state() {
  const std::scoped_lock lock(mutex);
  DoubleState state{misuses, kills, static_cast<int>(buffers.size()), 0, 0};
  for (const auto& [domain, session] : sessions) {
    state.sessions += session.open ? 1 : 0;
    state.processes += session.process > 0 ? 1 : 0;
  }
  return state;
}

}  // extern "C"

}  // namespace vitro::test
