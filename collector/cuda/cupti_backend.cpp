// SPDX-License-Identifier: Apache-2.0
#include "collector/cuda/cupti_backend.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <system_error>

#include "collector/cuda/decoder.h"
#include "collector/stacks/module_table.h"

namespace memreel::cuda {
namespace {

/// The call that this thread is in creates a graph node.
[[gnu::tls_model("initial-exec")]] constinit thread_local bool became_node = false;  // NOLINT

/// The entries of calls that this thread is in, for their exits.
[[gnu::tls_model("initial-exec")]] constinit thread_local EnteredCalls entered_calls;  // NOLINT

std::string text_of(cupti::Result result) {
  const char* const name = result == cupti::not_initialized ? "CUPTI_ERROR_NOT_INITIALIZED "
                           : result == cupti::not_supported ? "CUPTI_ERROR_NOT_SUPPORTED "
                                                            : "error ";
  return name + ("(" + std::to_string(result) + ")");
}

}  // namespace

Result<void> CuptiBackend::begin(const std::string& library) {
  taken_ = is_shared_ = false;
  RealDriver::get();  // looks its functions up now, not in a callback
  std::string tried;
  const std::vector<std::string> candidates =
      library.empty() ? cupti_candidates(surroundings()) : std::vector<std::string>{library};
  for (const std::string& file : candidates) {
    std::string why;
    if (load(file, why) && subscribe(why) && enable(why)) {
      library_ = file;
      return {};
    }
    if (taken_)
      return Error{.what = why, .where = "CUPTI", .remedy = "stop the other tool, or use --backend interpose"};
    tried += (tried.empty() ? "" : "; ") + why;
  }
  return Error{
      .what = tried.empty() ? std::string("libcupti not found") : "unusable: " + tried,
      .where = "CUPTI",
      .remedy = "install it (pip install memreel[cu13], or [cu12] for CUDA 12), or set MEMREEL_LIBCUPTI to its path"};
}

bool CuptiBackend::load(const std::string& file, std::string& why) {
  void* const library = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const error = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc's is the thread's own
    why = error != nullptr ? error : file;
    return false;
  }
  find(library, "cuptiSubscribe", cupti_.subscribe);
  find(library, "cuptiSubscribe_v2", cupti_.subscribe_v2);
  find(library, "cuptiUnsubscribe", cupti_.unsubscribe);
  find(library, "cuptiEnableCallback", cupti_.enable_callback);
  find(library, "cuptiGetDeviceId", cupti_.get_device_id);
  cupti_.has_long_params = RealDriver::dlsym(library, "cuptiActivityGetAttribute_v2") != nullptr;
  cupti_.can_be_shared =
      cupti_.has_long_params && RealDriver::dlsym(library, "cuptiIsTracingSessionRunning") != nullptr;
  if (cupti_.subscribe == nullptr || cupti_.unsubscribe == nullptr || cupti_.enable_callback == nullptr) {
    why = file + " is missing functions";
    return false;
  }
  // In 13.2 the function that reports an unusable CUPTI recurses without end.
  const bool is_13_2 = cupti_.has_long_params && !cupti_.can_be_shared;
  if (is_13_2 && driver_version().value_or(0) < 13020) {
    why = file + " is from CUDA 13.2, which needs a driver for CUDA 13.2 or newer";
    return false;
  }
  return true;
}

/// Shared if possible: a driver that is too old for sharing refuses as if another subscriber held CUPTI. Then with the
/// old call, without sharing, since from 13.3 on other tools' old-style calls fail next to a new-style subscriber. The
/// last attempt reports the current subscriber.
bool CuptiBackend::subscribe(std::string& why) {
  constexpr std::array sharing{Manner::shared, Manner::old, Manner::alone};
  constexpr std::array naming{Manner::alone};
  constexpr std::array oldest{Manner::old};
  const std::span<const Manner> manners = cupti_.can_be_shared             ? std::span<const Manner>(sharing)
                                          : cupti_.subscribe_v2 != nullptr ? std::span<const Manner>(naming)
                                                                           : std::span<const Manner>(oldest);
  cupti::Result result = 0;
  for (const Manner manner : manners) {
    result = subscribe_as(manner);
    if (result != 0) continue;
    is_shared_ = manner == Manner::shared;
    return true;
  }
  taken_ = result == cupti::multiple_subscribers;
  if (taken_)
    why = "is in use by " + (holder_.empty() ? "another tool, perhaps a profiler or debugger" : holder_);
  else
    why = "cuptiSubscribe failed: " + text_of(result);
  return false;
}

cupti::Result CuptiBackend::subscribe_as(Manner manner) {
  holder_.clear();
  if (manner == Manner::old) return cupti_.subscribe(&subscriber_, called, this);
  std::array<char, 64> holder{};
  cupti::SubscriberParams params{.size = cupti_.has_long_params ? sizeof params : cupti::params_size_13_0,
                                 .name = "memreel",
                                 .old_name = holder.data(),
                                 .old_name_size = holder.size(),
                                 .allow_multiple = static_cast<std::uint8_t>(manner == Manner::shared ? 1 : 0),
                                 .reserved = {}};
  const cupti::Result result = cupti_.subscribe_v2(&subscriber_, called, this, &params);
  holder.back() = '\0';
  holder_ = holder.data();
  return result;
}

bool CuptiBackend::enable(std::string& why) {
  // An older CUPTI refuses unknown calls. If the driver is newer, they are not seen.
  bool any = false;
  for (const Call call : watched_calls)
    any |= cupti_.enable_callback(1, subscriber_, cupti::domain_driver, static_cast<std::uint32_t>(call)) == 0;
  for (const std::uint32_t id :
       {cupti::context_created, cupti::context_destroy_starting, cupti::graph_node_create_starting})
    cupti_.enable_callback(1, subscriber_, cupti::domain_resource, id);
  if (any) return true;
  why = "can't enable any callback";
  cupti_.unsubscribe(subscriber_);
  return false;
}

void CuptiBackend::end() {
  for (const Call call : watched_calls)
    cupti_.enable_callback(0, subscriber_, cupti::domain_driver, static_cast<std::uint32_t>(call));
  cupti_.unsubscribe(subscriber_);
}

void CuptiBackend::called(void* self, int domain, std::uint32_t id, const void* data) {
  auto& backend = *static_cast<CuptiBackend*>(self);
  if (domain == cupti::domain_driver)
    backend.driver_call(id, *static_cast<const cupti::CallbackData*>(data));
  else if (domain == cupti::domain_resource)
    backend.resource(id, *static_cast<const cupti::ResourceData*>(data));
}

void CuptiBackend::driver_call(std::uint32_t id, const cupti::CallbackData& data) {
  CallSite site{.call = static_cast<Call>(id), .parameters = data.parameters, .context = known(data.context)};
  if (data.site == 0) {
    became_node = false;
    entered_calls.put(data.correlation, watch_->enter(site));
    return;
  }
  const Status status = data.result != nullptr ? *static_cast<const Status*>(data.result) : success;
  site.captured = became_node;
  became_node = false;
  watch_->exit(site, status, entered_calls.take(data.correlation));
}

void CuptiBackend::resource(std::uint32_t id, const cupti::ResourceData& data) {
  if (id == cupti::graph_node_create_starting) {
    const auto* const graph = static_cast<const cupti::GraphData*>(data.descriptor);
    became_node |= graph != nullptr && (graph->node_type == mem_alloc_node || graph->node_type == mem_free_node);
  } else if (id == cupti::context_created || id == cupti::context_destroy_starting) {
    // A context created at the address of a known one: the end of that one was not seen.
    watch_->context_gone(data.context);
  }
}

KnownObjects::Known CuptiBackend::known(void* context) {
  if (const auto found = watch_->find_context(context)) return *found;
  // A context that existed before us.
  std::uint32_t device = 0;
  if (context == nullptr || cupti_.get_device_id == nullptr || cupti_.get_device_id(context, &device) != 0) return {};
  return watch_->add_context(context, static_cast<std::int16_t>(device));
}

namespace {

namespace fs = std::filesystem;

constexpr int oldest = 11, newest = 13;

std::string file_name(const std::string& path) { return fs::path(path).filename().string(); }

/// 13 of "libcudart.so.13.0.48".
std::optional<int> major_of(std::string_view file, std::string_view library) {
  if (!file.starts_with(library)) return std::nullopt;
  file.remove_prefix(library.size());
  if (!file.starts_with(".so.")) return std::nullopt;
  const int major = std::atoi(std::string(file.substr(4)).c_str());
  return major > 0 ? std::optional(major) : std::nullopt;
}

/// Directories of `parent` whose names begin with `prefix`.
std::vector<fs::path> directories(const fs::path& parent, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().filename().string().starts_with(prefix)) found.push_back(entry->path());
  std::sort(found.rbegin(), found.rend());
  return found;
}

/// Where Python packages are: around libraries loaded from there, where the environment says, next to the interpreter
/// (not a virtual environment's, whose interpreter is a link), and the user's own.
std::vector<fs::path> package_roots(const Surroundings& surroundings) {
  std::vector<fs::path> roots;
  for (const std::string& library : surroundings.mapped) {
    for (const std::string_view name : {"/site-packages/", "/dist-packages/"}) {
      const std::size_t at = library.find(name);
      if (at != std::string::npos) roots.emplace_back(library.substr(0, at + name.size() - 1));
    }
  }
  for (std::string_view rest = surroundings.python_path; !rest.empty();) {
    const std::string_view root = rest.substr(0, rest.find(':'));
    if (!root.empty()) roots.emplace_back(root);
    rest.remove_prefix(std::min(root.size() + 1, rest.size()));
  }
  const fs::path beside = surroundings.executable.parent_path().parent_path();
  for (const fs::path& prefix : {fs::path(surroundings.virtual_env), beside, fs::path(surroundings.python_user_base)}) {
    if (prefix.empty()) continue;
    for (const char* const lib : {"lib", "lib64", "local/lib"})
      for (const fs::path& python : directories(prefix / lib, "python3"))
        for (const char* const packages : {"site-packages", "dist-packages"}) roots.push_back(python / packages);
  }
  return roots;
}

/// Directories that may hold a libcupti of this major version.
std::vector<fs::path> places(const Surroundings& surroundings, int major) {
  std::vector<fs::path> found;
  for (const fs::path& root : package_roots(surroundings)) {
    found.push_back(root / "nvidia" / ("cu" + std::to_string(major)) / "lib");
    found.push_back(root / "nvidia" / "cuda_cupti" / "lib");
    found.push_back(root / "triton" / "backends" / "nvidia" / "lib" / "cupti");
  }
  std::vector<fs::path> toolkits;
  if (!surroundings.cuda_home.empty()) toolkits.emplace_back(surroundings.cuda_home);
  for (const fs::path& toolkit : directories("/usr/local", "cuda")) toolkits.push_back(toolkit);
  if (!surroundings.conda_prefix.empty()) toolkits.emplace_back(surroundings.conda_prefix);
  toolkits.push_back(surroundings.executable.parent_path().parent_path());
  for (const fs::path& toolkit : toolkits)
    for (const char* const lib :
         {"extras/CUPTI/lib64", "lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib",
          "targets/aarch64-linux/lib"})  // of Arm: servers, and Jetson before CUDA 13
      found.push_back(toolkit / lib);
  return found;
}

std::vector<int> majors(const Surroundings& surroundings) {
  std::vector<int> order;
  const auto add = [&](int major) {
    const bool usable = major <= surroundings.driver_major.value_or(newest);
    if (usable && std::find(order.begin(), order.end(), major) == order.end()) order.push_back(major);
  };
  for (const std::string& library : surroundings.mapped)
    if (const auto major = major_of(file_name(library), "libcudart")) add(*major);
  for (int major = std::max(surroundings.driver_major.value_or(newest), newest); major >= oldest; --major) add(major);
  return order;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
  return value != nullptr ? value : "";
}

}  // namespace

std::optional<int> driver_version() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (driver == nullptr) return std::nullopt;
  int version = 0;
  using GetVersion = int (*)(int*);
  const auto get_version = reinterpret_cast<GetVersion>(::dlsym(driver, "cuDriverGetVersion"));
  if (get_version == nullptr || get_version(&version) != 0 || version < 1000) return std::nullopt;
  return version;
}

Surroundings surroundings() {
  const std::optional<int> driver = driver_version();
  Surroundings here{.driver_major = driver ? std::optional(*driver / 1000) : std::nullopt,
                    .cuda_home = variable("CUDA_HOME").empty() ? variable("CUDA_PATH") : variable("CUDA_HOME"),
                    .conda_prefix = variable("CONDA_PREFIX"),
                    .virtual_env = variable("VIRTUAL_ENV"),
                    .python_path = variable("PYTHONPATH"),
                    .python_user_base = variable("PYTHONUSERBASE")};
  if (const std::string home = variable("HOME"); here.python_user_base.empty() && !home.empty())
    here.python_user_base = home + "/.local";
  stacks::walk_loaded_modules(
      [](dl_phdr_info* library, std::size_t, void* mapped) {
        static_cast<std::vector<std::string>*>(mapped)->emplace_back(library->dlpi_name);
        return 0;
      },
      &here.mapped);
  std::error_code ignored;
  here.executable = fs::read_symlink("/proc/self/exe", ignored);
  return here;
}

std::vector<std::string> cupti_candidates(const Surroundings& surroundings) {
  for (const std::string& library : surroundings.mapped)
    if (file_name(library).starts_with("libcupti.so")) return {library};

  std::vector<std::string> candidates;
  const auto add = [&](const std::string& candidate) {
    if (std::find(candidates.begin(), candidates.end(), candidate) == candidates.end()) candidates.push_back(candidate);
  };
  for (const int major : majors(surroundings)) {
    const std::string name = "libcupti.so." + std::to_string(major);
    if (major >= 12) add(name);  // up to 11 the name continues with the minor version
    for (const fs::path& place : places(surroundings, major)) {
      std::error_code error;
      std::vector<std::string> files;
      for (fs::directory_iterator entry(place, error), end; !error && entry != end; entry.increment(error)) {
        const std::string file = entry->path().filename().string();
        if (file == name || (major < 12 && file.starts_with(name + "."))) files.push_back(entry->path().string());
      }
      std::sort(files.rbegin(), files.rend());
      for (const std::string& file : files) add(file);
    }
  }
  return candidates;
}

}  // namespace memreel::cuda
