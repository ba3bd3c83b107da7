#include "engine/host/hexagon_fastrpc.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "engine/host/cache_lines.hpp"
#include "engine/host/fastrpc_api.hpp"

namespace vitro {
namespace {

std::string library_of(const FastrpcHexagonOptions& options) {
  if (!options.library.empty()) return options.library;
  const char* const chosen = std::getenv("VITRO_FASTRPC");
  return chosen != nullptr && *chosen != '\0' ? chosen : "libcdsprpc.so";
}

fastrpc::Api load(const std::string& library) {
  std::string why;
  const std::optional<fastrpc::Api> api = fastrpc::load(library, why);
  if (!api) {
    throw ConfigError(fmt::format("engine.units: hexagon through FastRPC: {} (expected Qualcomm's libcdsprpc.so where the system's loader "
                                  "finds it, or its path in the environment as VITRO_FASTRPC)",
                                  why));
  }
  return *api;
}

// Cached by the CPU: the session reads and writes results and activations word by word. So clean() and invalidate() have work to do.
class SharedBuffer {
 public:
  SharedBuffer(const fastrpc::Api& api, Bytes size) : api_(api), size_(size) {
    VITRO_CHECK(size >= hexagon::kResultsStart && size < 2 * GiB && size % 4096 == 0, "a region that FastRPC can not share");
    data_ = api.rpcmem_alloc(fastrpc::kSystemHeap, fastrpc::kCached, static_cast<int>(size));
    fd_ = data_ == nullptr ? -1 : api.rpcmem_to_fd(data_);
    if (fd_ < 0) {
      if (data_ != nullptr) api.rpcmem_free(data_);
      throw RunError(fmt::format("hexagon: no memory of {} to share with the DSP ({} failed)", format_bytes(size),
                                 data_ == nullptr ? "rpcmem_alloc" : "rpcmem_to_fd"));
    }
    // No answer, and no request. What leases get behind them the kernel has zeroed: rpcmem takes its pages from Linux's dma-buf system
    // heap, which allocates with __GFP_ZERO (drivers/dma-buf/heaps/system_heap.c).
    std::memset(data_, 0, hexagon::kArenaStart);
  }
  ~SharedBuffer() { api_.rpcmem_free(data_); }
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;

  int fd() const { return fd_; }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), size_}; }

  Status map(int domain) const {
    const int error = api_.fastrpc_mmap(domain, fd_, data_, 0, size_, fastrpc::kMapWhenAsked);
    if (error == 0) return {};
    return {Code::unit_lost, fmt::format("fastrpc_mmap of {}: {}", format_bytes(size_), fastrpc::error_text(error))};
  }
  void unmap(int domain) const { api_.fastrpc_munmap(domain, fd_, data_, size_); }

 private:
  const fastrpc::Api api_;
  const Bytes size_;
  void* data_ = nullptr;
  int fd_ = -1;
};

// All that the invocation's thread touches: it may outlive the transport if the driver never lets it go.
struct Shared {
  Shared(const fastrpc::Api& functions, Bytes in, Bytes out) : api(functions), inbound(functions, in), outbound(functions, out) {}

  const fastrpc::Api api;
  SharedBuffer inbound, outbound;
  std::mutex mutex;
  std::condition_variable changed;
  bool returned = true;    // guarded by mutex, like the next two
  bool abandoned = false;  // the transport waits no more: whoever returns closes the module
  int result = 0;
};

// Opening and closing modules is not for several threads at a time (remote.h), and sessions are opened and restarted by different ones.
std::mutex opening;

int open_module(const fastrpc::Api& api, const char* uri, fastrpc::Handle& module) {
  const std::scoped_lock lock(opening);
  return api.remote_handle64_open(uri, &module);
}

void close_module(const fastrpc::Api& api, fastrpc::Handle module) {
  const std::scoped_lock lock(opening);
  api.remote_handle64_close(module);
}

void invoke(const std::shared_ptr<Shared>& shared, fastrpc::Handle module) {
  hexagon::ServeCall call{shared->inbound.fd(), static_cast<std::uint32_t>(shared->inbound.bytes().size()), shared->outbound.fd(),
                          static_cast<std::uint32_t>(shared->outbound.bytes().size())};
  fastrpc::Argument argument{};
  argument.buffer = {&call, sizeof call};
  const int result = shared->api.remote_handle64_invoke(module, fastrpc::scalars(hexagon::kServe, 1, 0), &argument);
  std::unique_lock lock(shared->mutex);
  shared->result = result;
  shared->returned = true;
  shared->changed.notify_all();
  const bool abandoned = shared->abandoned;
  lock.unlock();
  if (abandoned) close_module(shared->api, module);
}

class FastrpcTransport final : public HexagonTransport {
 public:
  explicit FastrpcTransport(const FastrpcHexagonOptions& options)
      : options_(options),
        library_(library_of(options)),
        shared_(std::make_shared<Shared>(load(library_), options.inbound, options.outbound)) {}
  ~FastrpcTransport() override { stop(); }

  std::string name() const override { return fmt::format("FastRPC ({})", library_); }
  std::span<std::byte> inbound() override { return shared_->inbound.bytes(); }
  std::span<std::byte> outbound() override { return shared_->outbound.bytes(); }

  Status start() override {
    VITRO_CHECK(!open_, "a second worker on the same regions");
    if (stuck_) return {Code::unit_lost, "the last invocation never returned"};
    if (Status status = open_session(); !status.ok()) return status;
    for (const SharedBuffer* region : {&shared_->inbound, &shared_->outbound}) {
      if (Status status = region->map(domain_); !status.ok()) {
        close_module(api(), module_);
        return status;
      }
    }
    shared_->returned = false;
    try {
      thread_ = std::thread(invoke, shared_, module_);
    } catch (const std::system_error& error) {
      shared_->returned = true;
      close_module(api(), module_);
      return {Code::unit_lost, fmt::format("no thread for the invocation: {}", error.what())};
    }
    open_ = true;
    return {};
  }

  bool alive() override {
    const std::scoped_lock lock(shared_->mutex);
    return open_ && !shared_->returned;
  }

  std::string exit_reason() override {
    const std::scoped_lock lock(shared_->mutex);
    return open_ && shared_->returned ? fmt::format("its invocation returned {}", fastrpc::error_text(shared_->result)) : "";
  }

  void stop() override {
    if (!open_) return;
    if (alive()) ask_to_stop();
    if (alive()) {
      fastrpc::KillProcess kill{domain_};
      api().remote_session_control(fastrpc::kKillProcess, &kill, sizeof kill);
    }
    open_ = false;
    stuck_ = !returned_within(options_.patience, true);
    if (stuck_) return thread_.detach();  // the driver has the thread and the regions: both are left to it
    thread_.join();
    if (shared_->result == 0) {
      shared_->inbound.unmap(domain_);
      shared_->outbound.unmap(domain_);
    }
    close_module(api(), module_);  // the session's last one: what still runs in its process ends, and so do its mappings
  }

  void clean(const void* begin, Bytes length) override { clean_cache_lines(begin, length); }
  void invalidate(const void* begin, Bytes length) override { invalidate_cache_lines(begin, length); }

 private:
  const fastrpc::Api& api() const { return shared_->api; }
  static Status failed(std::string_view what, int error) {
    return {Code::unit_lost, fmt::format("{}: {}", what, fastrpc::error_text(error))};
  }

  // A session that nobody else has, whose process may load modules that are not signed. Libraries without several sessions have the first.
  Status open_session() {
    fastrpc::ReserveSession session{fastrpc::kComputeDsp, sizeof fastrpc::kComputeDsp - 1, "vitro", 5, fastrpc::kComputeDomain, 0};
    if (api().remote_session_control(fastrpc::kReserveSession, &session, sizeof session) != 0) {
      session.domain = fastrpc::kComputeDomain;
      session.session = 0;
    }
    domain_ = static_cast<int>(session.domain);
    std::string uri = fmt::format("{}&_dom={}", hexagon::kModuleUri, fastrpc::kComputeDsp);
    if (session.session != 0) {
      const std::string_view module = hexagon::kModuleUri;
      uri.assign(module.size() + 64, '\0');
      fastrpc::ModuleUri asked{fastrpc::kComputeDsp, sizeof fastrpc::kComputeDsp - 1, session.session,
                               module.data(), static_cast<std::uint32_t>(module.size()),
                               uri.data(), static_cast<std::uint32_t>(uri.size())};
      const int error = api().remote_session_control(fastrpc::kModuleUri, &asked, sizeof asked);
      if (error != 0) return failed("the name of the module in a new session (remote_session_control)", error);
    }
    fastrpc::UnsignedModules modules{domain_, 1};
    const int error = api().remote_session_control(fastrpc::kUnsignedModules, &modules, sizeof modules);
    if (error != 0) return failed("a process for modules that are not signed (remote_session_control)", error);
    const int opened = open_module(api(), uri.c_str(), module_);
    return opened == 0 ? Status{} : failed(fmt::format("remote_handle64_open of {}", uri.c_str()), opened);
  }

  // By the mailbox, which it leaves as it was: no request is answered, and none is outstanding for the next worker.
  void ask_to_stop() {
    auto& request = *reinterpret_cast<hexagon::Request*>(inbound().data());
    request.stop = 1;
    clean(&request, sizeof request);
    request.sequence = request.sequence + 1;
    clean(&request, sizeof request);
    returned_within(options_.grace, false);
    request.stop = 0;
    request.sequence = request.sequence - 1;
    clean(&request, sizeof request);
  }

  // `abandon`: the last time that anybody waits for it.
  bool returned_within(std::chrono::milliseconds limit, bool abandon) {
    std::unique_lock lock(shared_->mutex);
    const bool returned = shared_->changed.wait_for(lock, limit, [this] { return shared_->returned; });
    shared_->abandoned = abandon && !returned;
    return returned;
  }

  const FastrpcHexagonOptions options_;
  const std::string library_;
  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
  int domain_ = -1;
  fastrpc::Handle module_ = 0;
  bool open_ = false, stuck_ = false;
};

}  // namespace

bool have_fastrpc(std::string& why) { return fastrpc::load(library_of({}), why).has_value(); }

std::unique_ptr<HexagonTransport> make_fastrpc_hexagon(FastrpcHexagonOptions options) {
  return std::make_unique<FastrpcTransport>(options);
}

}  // namespace vitro
