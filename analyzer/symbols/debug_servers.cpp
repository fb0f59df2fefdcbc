#include "analyzer/symbols/debug_servers.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

namespace memreel {
namespace {

/// The used part of libdebuginfod (debuginfod.h of elfutils), all of it in its stable interface.
class Client {
 public:
  Client() {
    // Never closed: libcurl, its dependency, does not support that.
    void* const library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto begin = reinterpret_cast<void* (*)()>(dlsym(library, "debuginfod_begin"));
    find_ = reinterpret_cast<Find>(dlsym(library, "debuginfod_find_debuginfo"));
    end_ = reinterpret_cast<End>(dlsym(library, "debuginfod_end"));
    if (begin != nullptr && find_ != nullptr && end_ != nullptr) client_ = begin();
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    if (client_ != nullptr) end_(client_);
  }

  bool works() const { return client_ != nullptr; }

  std::filesystem::path find(const std::string& build_id) const {
    char* path = nullptr;
    const int descriptor = find_(client_, reinterpret_cast<const unsigned char*>(build_id.data()),
                                 static_cast<int>(build_id.size()), &path);
    // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): the library's own allocation
    const std::unique_ptr<char, decltype(&std::free)> owner(path, &std::free);
    if (descriptor < 0) return {};
    close(descriptor);
    return path != nullptr ? path : "";
  }

 private:
  using Find = int (*)(void*, const unsigned char*, int, char**);
  using End = void (*)(void*);
  Find find_ = nullptr;
  End end_ = nullptr;
  void* client_ = nullptr;
};

const Client& client() {
  static const Client one;
  return one;
}

}  // namespace

bool can_ask_servers() { return client().works(); }

std::filesystem::path debug_file_from_servers(const std::string& build_id) {
  return client().works() && !build_id.empty() ? client().find(build_id) : std::filesystem::path();
}

}  // namespace memreel
