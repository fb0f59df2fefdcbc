// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/own_policy.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <new>
#include <system_error>
#include <type_traits>

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/parameters.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

constexpr std::size_t error_size = 256;

/// In one unit, so that sizes that differ by little can be compared.
std::string bytes_text(Bytes size) { return std::to_string(size.count) + " bytes"; }

std::string text_of(Extent extent) { return bytes_text(extent.size) + " at " + hexadecimal(extent.address.value); }

}  // namespace

OwnPolicy::OwnPolicy(const Prepared& heap, const memreel_policy& rules,
                     const std::map<std::string, std::string>& parameters, SimulatedDevice& device,
                     OwnProgress* progress)
    : rules_(rules), device_(device), progress_(progress), extent_of_(heap.slot_count + 1) {
  for (const PoolStream& pool_stream : heap.pool_streams)
    pool_streams_.push_back({.pool = index(pool_stream.pool), .stream = index(pool_stream.stream)});
  environment_ = {.device = reinterpret_cast<memreel_device*>(this),
                  .reserve = reserve,
                  .release = release,
                  .capacity = device.capacity() ? std::max(*device.capacity(), 1_B).count : 0,
                  .slot_count = heap.slot_count + 1,
                  .pool_stream_count = static_cast<std::uint32_t>(pool_streams_.size()),
                  .pool_streams = pool_streams_.data()};
  std::vector<memreel_parameter> list;
  list.reserve(parameters.size());
  for (const auto& [key, value] : parameters) list.push_back({.key = key.c_str(), .value = value.c_str()});
  std::array<char, error_size> error{};
  instance_ = rules_.create(list.data(), list.size(), &environment_, error.data(), error.size());
  error.back() = '\0';
  if (instance_ == nullptr) blame(error[0] == '\0' ? "create() failed and did not say why" : std::string(error.data()));
  after_operation();
}

OwnPolicy::~OwnPolicy() {
  if (instance_ != nullptr) rules_.destroy(instance_);
}

bool OwnPolicy::allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream) {
  if (!works()) return false;
  ++requests_;
  if (progress_ != nullptr) progress_->requests.store(requests_, std::memory_order_relaxed);
  const bool served = rules_.allocate(instance_, slot, requested.count, pool_stream) != 0 && works();
  if (served) {
    const auto [address, size] = rules_.extent_of(instance_, slot);
    if (!place(slot, requested, {Address{address}, Bytes{size}})) return false;
  }
  after_operation();
  return served && works();
}

void OwnPolicy::free_requested(std::uint32_t slot, Bytes /*requested*/) {
  if (!works()) return;
  use_.allocated -= extent_of_[slot].size;
  pending_ += extent_of_[slot].size;
  if (rules_.free_requested != nullptr) rules_.free_requested(instance_, slot);
}

void OwnPolicy::free_completed(std::uint32_t slot, Bytes /*requested*/) {
  if (!works()) return;
  const Extent extent = extent_of_[slot];
  pending_ -= extent.size;
  extents_.erase(extent.address);
  --std::prev(segments_.upper_bound(extent.address))->second.allocations;
  rules_.free_completed(instance_, slot);
  after_operation();
}

void OwnPolicy::empty_cache() {
  if (works() && rules_.empty_cache != nullptr) rules_.empty_cache(instance_);
  after_operation();
}

void OwnPolicy::device_synchronized() {
  if (works() && rules_.device_synchronized != nullptr) rules_.device_synchronized(instance_);
  after_operation();
}

void OwnPolicy::stream_synchronized(std::uint32_t pool_stream) {
  if (works() && rules_.stream_synchronized != nullptr) rules_.stream_synchronized(instance_, pool_stream);
  after_operation();
}

void OwnPolicy::stream_waits(std::uint32_t pool_stream, std::uint32_t awaited) {
  if (works() && rules_.stream_waits != nullptr) rules_.stream_waits(instance_, pool_stream, awaited);
  after_operation();
}

OwnPolicy& OwnPolicy::of(memreel_device* device) { return *reinterpret_cast<OwnPolicy*>(device); }

int OwnPolicy::reserve(memreel_device* device, std::uint64_t size, std::uint64_t* address) {
  OwnPolicy& self = of(device);
  if (self.defect_) return 0;
  if (size == 0) {
    self.blame("it reserved 0 bytes");
    return 0;
  }
  const auto given = self.device_.reserve(Bytes{size});
  if (!given) return 0;
  self.segments_.emplace(*given, Segment{.size = Bytes{size}});
  self.use_.reserved += Bytes{size};
  ++self.calls_.malloc;
  *address = given->value;
  return 1;
}

void OwnPolicy::release(memreel_device* device, std::uint64_t address) {
  OwnPolicy& self = of(device);
  if (self.defect_) return;
  const auto found = self.segments_.find(Address{address});
  if (found == self.segments_.end())
    return self.blame("it released " + hexadecimal(address) + ", where no reserved memory begins");
  const Segment& segment = found->second;
  if (segment.allocations > 0)
    return self.blame("it released " + text_of({Address{address}, segment.size}) + " in which " +
                      counted(segment.allocations, "allocation") + (segment.allocations == 1 ? " lives" : " live"));
  self.device_.release(Address{address}, segment.size);
  self.use_.reserved -= segment.size;
  ++self.calls_.free;
  ++self.calls_.sync;  // cudaFree waits for the device
  self.segments_.erase(found);
}

void OwnPolicy::blame(const std::string& what) {
  if (defect_) return;
  defect_ = what;
  if (requests_ > 0) *defect_ += " (at request " + std::to_string(requests_) + ")";
}

bool OwnPolicy::place(std::uint32_t slot, Bytes requested, Extent extent) {
  const auto wrong = [&](const std::string& why) {
    blame("it put " + bytes_text(requested) + " into " + text_of(extent) + ", " + why);
    return false;
  };
  if (extent.size < std::max(requested, 1_B)) return wrong("which is too small");
  const auto behind = segments_.upper_bound(extent.address);
  if (behind == segments_.begin()) return wrong("which it has not reserved");
  auto& [begin, segment] = *std::prev(behind);
  const Bytes from_begin = extent.address - begin;
  if (from_begin >= segment.size) return wrong("which it has not reserved");
  if (extent.size > segment.size - from_begin)
    return wrong("beyond the end of " + text_of({begin, segment.size}) + " that it reserved");
  const auto next = extents_.lower_bound(extent.address);
  if (next != extents_.end() && next->first < extent.address + extent.size)
    return wrong("where " + text_of({next->first, next->second}) + " are allocated");
  if (next != extents_.begin()) {
    const auto& [address, size] = *std::prev(next);
    if (address + size > extent.address) return wrong("where " + text_of({address, size}) + " are allocated");
  }
  extents_.emplace_hint(next, extent.address, extent.size);
  ++segment.allocations;
  use_.allocated += extent.size;
  extent_of_[slot] = extent;
  return true;
}

void OwnPolicy::after_operation() {
  if (progress_ != nullptr) progress_->calls.fetch_add(1, std::memory_order_relaxed);
  if (!works()) return;
  const memreel_statistics said = rules_.statistics(instance_);
  const Bytes most = use_.reserved - use_.allocated - pending_;
  if (Bytes{said.free} > most)
    return blame("it calls " + bytes_text(Bytes{said.free}) + " free, but of what it reserved only " +
                 bytes_text(most) + " are not in use");
  if (said.largest_free > said.free || (said.largest_free == 0) != (said.free == 0))
    return blame("it calls " + bytes_text(Bytes{said.free}) + " free, the largest piece " +
                 bytes_text(Bytes{said.largest_free}));
  use_.free = Bytes{said.free};
  largest_free_ = Bytes{said.largest_free};
}

bool is_own_policy(std::string_view name) { return name.find('/') != std::string_view::npos || name.ends_with(".so"); }

namespace {

/// A loaded library and its policy.
struct Library {
  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (handle != nullptr) dlclose(handle);
  }

  void* handle = nullptr;
  memreel_policy rules{};
};

Error refused(const std::string& file, std::string what) {
  return {.what = std::move(what), .where = file, .remedy = "analyzer/include/memreel/policy.h has the requirements"};
}

std::string missing_functions(const memreel_policy& rules) {
  std::string missing;
  const auto need = [&](bool present, const char* name) {
    if (!present) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  need(rules.create != nullptr, "create");
  need(rules.destroy != nullptr, "destroy");
  need(rules.allocate != nullptr, "allocate");
  need(rules.free_completed != nullptr, "free_completed");
  need(rules.extent_of != nullptr, "extent_of");
  need(rules.statistics != nullptr, "statistics");
  return missing;
}

Result<std::shared_ptr<const Library>> load(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return Error{.what = "no such file", .where = file};
  auto library = std::make_shared<Library>();
  // dlopen() searches the system's library paths for a name without a slash.
  const std::string path = file.find('/') == std::string::npos ? "./" + file : file;
  library->handle = dlopen(path.c_str(), RTLD_LOCAL | RTLD_NOW);
  if (library->handle == nullptr) {
    std::string why = dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps it per thread
    if (why.starts_with(path + ": ")) why.erase(0, path.size() + 2);
    return refused(file, "can't be loaded as a policy: " + why);
  }
  using Get = const memreel_policy*();
  const auto get = reinterpret_cast<Get*>(dlsym(library->handle, "memreel_policy_get"));
  if (get == nullptr) return refused(file, "is not a policy: it does not export memreel_policy_get");
  const memreel_policy* const rules = get();
  if (rules == nullptr) return refused(file, "is not a policy: memreel_policy_get() returned nothing");
  if (rules->version != MEMREEL_POLICY_VERSION)
    return refused(file, "was built for version " + std::to_string(rules->version) +
                             " of the policy interface, this memreel has version " +
                             std::to_string(MEMREEL_POLICY_VERSION));
  // Functions beyond a library's struct size were added after it was built.
  const std::size_t least = offsetof(memreel_policy, statistics) + sizeof(rules->statistics);
  if (rules->struct_size < least)
    return refused(file, "says that its memreel_policy has " + std::to_string(rules->struct_size) +
                             " bytes, fewer than " + std::to_string(least));
  std::memcpy(&library->rules, rules, std::min<std::size_t>(rules->struct_size, sizeof(memreel_policy)));
  if (const std::string missing = missing_functions(library->rules); !missing.empty())
    return refused(file, "lacks required functions: " + missing);
  return std::shared_ptr<const Library>(std::move(library));
}

/// The longest that a library may take for one call.
constexpr std::chrono::seconds patience{30};

// AllowedValues on their way from one process to the other, which is the same program.

class Packed {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(values.size());
    for (const T& value : values) put(value);
  }
  void put(const std::string& text) {
    put(text.size());
    bytes_ += text;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Unpacked {
 public:
  explicit Unpacked(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  void take(T& value) {
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
  }
  template <class T>
  void take(std::vector<T>& values) {
    std::size_t size = 0;
    take(size);
    values.resize(size);
    for (T& value : values) take(value);
  }
  void take(std::string& text) {
    std::size_t size = 0;
    take(size);
    text = rest_.substr(0, size);
    rest_.remove_prefix(size);
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

/// Every member of a result that a replay sets, except the defect.
void for_each_member(auto& result, auto each) {
  each(result.heap), each(result.device), each(result.device_model), each(result.events);
  each(result.peak_live), each(result.peak_allocated), each(result.peak_reserved), each(result.end_reserved);
  each(result.peak_live_event), each(result.peak_allocated_event), each(result.peak_reserved_event);
  each(result.fragmentation_at_peak), each(result.external_fragmentation_max), each(result.internal_waste);
  each(result.free_memory), each(result.address_stability), each(result.failed_allocations);
  each(result.first_failure), each(result.failed_events), each(result.driver_calls), each(result.min_capacity);
  each(result.seconds), each(result.series), each(result.resumed), each(result.gave_up), each(result.unfinished);
}

ReplayResult run_here(const PolicySpec& spec, const Prepared& heap, const RunOptions& options, OwnProgress* progress) {
  const auto library = load(spec.name);
  if (!library) return {.defect = library.error()};
  SimulatedDevice device(options.device, heap.segments, options.backing);
  OwnPolicy policy(heap, (*library)->rules, spec.parameters, device, progress);
  ReplayResult result = Replay<OwnPolicy>(heap, policy, options).run();
  device.count_bytes(result.driver_calls);
  if (policy.defect()) result.defect = Error{.what = *policy.defect(), .where = spec.text()};
  return result;
}

/// Of the process in which replayed_apart() does its work; null elsewhere.
OwnProgress* progress_here = nullptr;

void pack(const ReplayResult& result, Packed& parcel) {
  parcel.put(result.defect.has_value());
  parcel.put(result.defect ? result.defect->what : std::string());
  parcel.put(result.defect ? result.defect->where : std::string());
  for_each_member(result, [&](const auto& member) { parcel.put(member); });
}

ReplayResult result_in(Unpacked& parcel) {
  ReplayResult result;
  bool has_defect = false;
  Error defect;
  parcel.take(has_defect), parcel.take(defect.what), parcel.take(defect.where);
  for_each_member(result, [&](auto& member) { parcel.take(member); });
  if (has_defect) result.defect = std::move(defect);
  return result;
}

ReplayResult run_apart(const PolicySpec& spec, const Prepared& heap, const RunOptions& options) {
  const Result<std::string> answer = replayed_apart(spec, [&] {
    Packed parcel;
    pack(run_here(spec, heap, options, progress_here), parcel);
    return parcel.bytes();
  });
  if (!answer) {
    ReplayResult result;
    result.defect = answer.error();
    result.failed_allocations = 1;  // to the search for a least capacity
    return result;
  }
  Unpacked parcel(*answer);
  return result_in(parcel);
}

}  // namespace

Result<std::string> replayed_apart(const PolicySpec& spec, const std::function<std::string()>& work) {
  Result<std::string> answer = in_own_process(
      [&](OwnProgress& progress) {
        progress_here = &progress;
        return work();
      },
      patience);
  if (!answer) answer.error().where = spec.text();
  return answer;
}

std::string packed(std::span<const ReplayResult> results) {
  Packed parcel;
  parcel.put(results.size());
  for (const ReplayResult& result : results) pack(result, parcel);
  return parcel.bytes();
}

std::vector<ReplayResult> unpacked(std::string_view& bytes) {
  Unpacked parcel(bytes);
  std::size_t count = 0;
  parcel.take(count);
  std::vector<ReplayResult> results;
  for (std::size_t i = 0; i < count; ++i) results.push_back(result_in(parcel));
  bytes = parcel.rest();
  return results;
}

Result<BoundPolicy> bind_own_policy(const PolicySpec& spec) {
  // Loading already runs code of the library's.
  const Result<std::string> answer = in_own_process(
      [&](OwnProgress&) {
        const auto library = load(spec.name);
        Packed parcel;
        parcel.put(library ? std::string() : library.error().what);
        parcel.put(library ? std::string() : library.error().remedy);
        parcel.put(library ? Bytes{(*library)->rules.unit} : 0_B);
        return parcel.bytes();
      },
      patience);
  if (!answer) return Error{.what = answer.error().what + ", while it was loaded", .where = spec.name};
  Unpacked parcel(*answer);
  Error refusal{.where = spec.name};
  Bytes unit;
  parcel.take(refusal.what), parcel.take(refusal.remedy), parcel.take(unit);
  if (!refusal.what.empty()) return refusal;
  return BoundPolicy{
      .spec = spec, .unit = unit == 0_B ? 512_B : unit, .run = [spec](const Prepared& heap, const RunOptions& options) {
        // What these do must happen in this process.
        const bool is_here = options.rows != nullptr || options.backing != nullptr || options.watcher != nullptr;
        return is_here || progress_here != nullptr ? run_here(spec, heap, options, progress_here)
                                                   : run_apart(spec, heap, options);
      }};
}

// The process that the library runs in.

namespace {

constexpr int done_code = 0, out_of_memory_code = 3;

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

[[noreturn]] void be_child(const std::function<std::string(OwnProgress&)>& work, OwnProgress& progress, int pipe,
                           pid_t parent) {
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (::getppid() != parent) ::_exit(1);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);  // our own output is a document
  int code = 1;
  try {
    const std::string result = work(progress);
    const std::uint64_t size = result.size();  // tells a whole result from a process that ended itself
    if (write_all(pipe, {reinterpret_cast<const char*>(&size), sizeof size}) && write_all(pipe, result))
      code = done_code;
  } catch (const std::bad_alloc&) {
    code = out_of_memory_code;
  } catch (...) {  // NOLINT(bugprone-empty-catch): the exit code says it
  }
  std::fflush(nullptr);
  ::_exit(code);
}

/// Returns whether there was anything. `file` does not block.
bool read_available(int file, std::string& into) {
  std::array<char, 65536> piece{};
  bool any = false;
  while (true) {
    const ssize_t count = ::read(file, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return any;
    into.append(piece.data(), static_cast<std::size_t>(count));
    any = true;
  }
}

std::string name_of_signal(int number) {
#ifdef __linux__
  if (const char* const name = ::sigabbrev_np(number)) return "SIG" + std::string(name);
#endif
  return "signal " + std::to_string(number);
}

}  // namespace

Result<std::string> in_own_process(const std::function<std::string(OwnProgress&)>& work,
                                   std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  void* const shared = ::mmap(nullptr, sizeof(OwnProgress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::bad_alloc();
  const std::unique_ptr<void, void (*)(void*)> unmapped(shared,
                                                        [](void* page) { ::munmap(page, sizeof(OwnProgress)); });
  OwnProgress& progress = *new (shared) OwnProgress;
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error{.what = std::generic_category().message(errno)};
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  std::cout.flush();  // otherwise the child may write it again
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process == 0) {
    ::close(ends[0]);
    be_child(work, progress, ends[1], parent);
  }
  const int problem = errno;
  ::close(ends[1]);
  if (process < 0) {
    ::close(ends[0]);
    return Error{.what = "no process: " + std::generic_category().message(problem)};
  }
  std::string output;
  int status = 0;
  bool late = false;
  std::uint64_t calls = 0;
  auto answered = Clock::now();
  // Not until the pipe's end: a process that another thread forks meanwhile keeps it open.
  for (bool ended = false; !ended;) {
    pollfd pipe{.fd = ends[0], .events = POLLIN, .revents = 0};
    ::poll(&pipe, 1, 20);
    ended = ::waitpid(process, &status, WNOHANG) == process;
    const std::uint64_t now = progress.calls.load(std::memory_order_relaxed);
    if (read_available(ends[0], output) || now != calls) answered = Clock::now();
    calls = now;
    if (ended || late || Clock::now() - answered < patience) continue;
    late = true;
    ::kill(process, SIGKILL);
  }
  ::close(ends[0]);
  std::uint64_t size = 0;
  if (output.size() >= sizeof size) {
    std::memcpy(&size, output.data(), sizeof size);
    output.erase(0, sizeof size);
    if (output.size() == size && WIFEXITED(status) && WEXITSTATUS(status) == done_code) return output;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == out_of_memory_code) throw std::bad_alloc();
  const std::uint64_t requests = progress.requests;
  const std::string where = requests == 0 ? "" : " (at request " + std::to_string(requests) + ")";
  if (late)
    return Error{.what = "it did not answer for " +
                         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience).count()) + " s" +
                         where};
  if (WIFSIGNALED(status)) return Error{.what = "it crashed: " + name_of_signal(WTERMSIG(status)) + where};
  return Error{.what = "it ended the process, with exit code " + std::to_string(WEXITSTATUS(status)) + where};
}

}  // namespace memreel
