// The functions of Qualcomm's FastRPC library (libcdsprpc.so), found at run time: a build needs none of the vendor's files, runs where
// there is no such library, and says so when asked.
//
// Source of signatures, numbers and structures: remote.h and rpcmem.h of the Hexagon SDK, which are public as inc/ of
// github.com/quic/fastrpc; declared anew here. All functions return 0 or an error of AEEStdErr.h, but for those of rpcmem.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace vitro::fastrpc {

using Handle = std::uint64_t;  // of a module that was opened

// An argument of an invocation: buffers in, buffers out, handles in, handles out, in this order.
union Argument {
  struct {
    void* data;
    std::size_t bytes;
  } buffer;
  std::uint32_t handle;
  Handle handle64;
};
// Which method, and how many buffers it takes and gives; no handles (REMOTE_SCALARS_MAKE).
constexpr std::uint32_t scalars(std::uint32_t method, std::uint32_t in, std::uint32_t out) { return method << 24 | in << 16 | out << 8; }

// rpcmem_alloc: the heap of subsystems with an SMMU, and memory that the CPU caches.
inline constexpr int kSystemHeap = 25;
inline constexpr std::uint32_t kCached = 1;

// fastrpc_mmap: known to the session by its file descriptor, mapped when the DSP asks for it (HAP_mmap), with the permissions that it asks
// for. Both sides do their own cache maintenance.
inline constexpr int kMapWhenAsked = 3;  // FASTRPC_MAP_FD_DELAYED

// remote_session_control: what is asked for, and the structure for it.
enum Request : std::uint32_t { kUnsignedModules = 2, kKillProcess = 6, kReserveSession = 13, kModuleUri = 15 };
struct UnsignedModules {
  int domain, enable;
};
struct KillProcess {
  int domain;
};
// A process of its own on the DSP; the session 0 is there without.
struct ReserveSession {
  const char* domain_name;
  std::uint32_t domain_name_bytes;
  const char* session_name;
  std::uint32_t session_name_bytes;
  std::uint32_t domain;   // out: stands for session and DSP in all calls that take a domain
  std::uint32_t session;  // out
};
struct ModuleUri {
  const char* domain_name;
  std::uint32_t domain_name_bytes;
  std::uint32_t session;
  const char* module;
  std::uint32_t module_bytes;
  char* uri;  // out: the module's, in that session
  std::uint32_t uri_bytes;
};

inline constexpr char kComputeDsp[] = "cdsp";
inline constexpr int kComputeDomain = 3;  // of its session 0

// What this transport needs of the library.
#define VITRO_FASTRPC_FUNCTIONS(F)                                                                   \
  F(rpcmem_alloc, void*, int heap, std::uint32_t flags, int bytes)                                   \
  F(rpcmem_free, void, void* memory)                                                                 \
  F(rpcmem_to_fd, int, void* memory)                                                                 \
  F(fastrpc_mmap, int, int domain, int fd, void* memory, int offset, std::size_t bytes, int flags)   \
  F(fastrpc_munmap, int, int domain, int fd, void* memory, std::size_t bytes)                        \
  F(remote_session_control, int, std::uint32_t request, void* data, std::uint32_t bytes)             \
  F(remote_handle64_open, int, const char* uri, Handle* handle)                                      \
  F(remote_handle64_invoke, int, Handle handle, std::uint32_t scalars, Argument* arguments)          \
  F(remote_handle64_close, int, Handle handle)

struct Api {
#define VITRO_FASTRPC_MEMBER(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
  VITRO_FASTRPC_FUNCTIONS(VITRO_FASTRPC_MEMBER)
#undef VITRO_FASTRPC_MEMBER
};

// None when the library can not be loaded, or lacks one of the functions; `why` names the two. A library is never unloaded.
std::optional<Api> load(const std::string& library, std::string& why);

std::string error_text(int code);  // "error 0x80000406 (AEE_EUNABLETOLOAD)"

}  // namespace vitro::fastrpc
