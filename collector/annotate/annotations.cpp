// SPDX-License-Identifier: Apache-2.0
#include "collector/annotate/annotations.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>
#include <span>

#include "collector/include/memreel/memreel.h"
#include "collector/recorder/recorder.h"
#include "collector/stacks/module_table.h"
#include "collector/stacks/nap.h"

namespace memreel::annotate {
namespace {

using agent::Record;
using agent::RecordKind;
using agent::Space;

/// Preserves the program's errno, also across our calls that take memory from the system.
class KeepErrno {
 public:
  KeepErrno() : value_(errno) {}
  ~KeepErrno() { errno = value_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int value_;
};

/// The number of a name; 0 if there is no room for it. Names are cut at 1 KiB.
std::uint32_t number_of(agent::Recorder& recorder, const char* name) {
  constexpr std::size_t longest = 1024;
  const std::string_view text = std::string_view(name == nullptr ? "" : name).substr(0, longest);
  return recorder.names().number_of({std::as_bytes(std::span(text))});
}

/// The program runs unrecorded until memreel attach: it knows pools that we don't.
std::atomic<bool> joined = false;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): the program calls C
/// Within ask_for_state().
[[gnu::tls_model("initial-exec")]] constinit thread_local bool is_older = false;  // NOLINT: likewise

memreel_pool pool_create(const char* name, std::uint32_t /*kind*/, memreel_pool parent, std::int32_t device) {
  const KeepErrno keep;
  agent::Recorder* const recorder = agent::recorder_for_annotations();
  if (device < -1 || device > std::numeric_limits<std::int16_t>::max()) {
    if (recorder != nullptr) recorder->emit({.kind = RecordKind::hook_lost});
    return 0;
  }
  if (recorder == nullptr) return 0;
  const memreel_pool pool = next_pool();
  Record record;
  record.kind = RecordKind::own_pool_made;
  record.space = Space::own;
  record.object = pool;
  record.address = number_of(*recorder, name);
  record.stream = parent;
  record.device = static_cast<std::int16_t>(device);
  recorder->emit_with_stack(record);
  return pool;
}

void pool_destroy(memreel_pool pool) {
  const KeepErrno keep;
  agent::Recorder* const recorder = agent::recorder_for_annotations();
  if (recorder == nullptr || pool == 0) return;
  Record record;
  record.kind = RecordKind::own_pool_gone;
  record.space = Space::own;
  record.object = pool;
  recorder->emit_with_stack(record);
}

RecordKind kind_of(std::uint32_t kind) {
  switch (kind) {
    case MEMREEL_ALLOC:
      return RecordKind::alloc;
    case MEMREEL_FREE:
      return RecordKind::free;
    case MEMREEL_FREE_REQUESTED:
      return RecordKind::free_requested;
    case MEMREEL_FREE_COMPLETED:
      return RecordKind::free_completed;
    case MEMREEL_SEGMENT_ADD:
      return RecordKind::segment_added;
    case MEMREEL_SEGMENT_REMOVE:
      return RecordKind::segment_removed;
    case MEMREEL_OOM:
      return RecordKind::alloc_failed;
    default:
      return RecordKind::none;
  }
}

void take_events(const memreel_event* events, std::size_t count) {
  const KeepErrno keep;
  agent::Recorder* const recorder = agent::recorder_for_annotations();
  if (recorder == nullptr || events == nullptr) return;
  const stacks::StackKey stack = recorder->capture_stack();
  for (const memreel_event& event : std::span(events, count)) {
    Record record;
    record.kind = kind_of(event.kind);
    if (record.kind == RecordKind::none) continue;
    if (event.pool == 0) {
      if (joined.load(std::memory_order_relaxed)) recorder->emit({.kind = RecordKind::hook_lost});
      continue;
    }
    record.space = Space::own;
    record.object = event.pool;
    record.address = event.address;
    record.size = event.bytes;
    record.stream = event.stream;
    record.stack = stack;
    record.status = is_older ? 1 : 0;
    recorder->emit(record);
  }
}

void mark(const char* name, std::uint32_t phase) {
  const KeepErrno keep;
  agent::Recorder* const recorder = agent::recorder_for_annotations();
  if (recorder == nullptr || phase > MEMREEL_END) return;
  Record record;
  record.kind = RecordKind::mark;
  record.object = number_of(*recorder, name);
  record.status = static_cast<std::uint16_t>(phase);
  recorder->emit(record);
}

struct Callback {
  enum class State : std::uint8_t { free, changing, registered };
  std::atomic<State> state;
  std::atomic<int> calls;  // that are under way, or about to look at the state
  std::atomic<memreel_state_callback> function;
  std::atomic<void*> user;
  std::atomic<std::int64_t> recorded_from;  // steady clock, ns: registered while recording; 0: before
};

std::array<Callback, 64> callbacks;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): registered from C
/// The one that this thread is in.
[[gnu::tls_model("initial-exec")]] constinit thread_local const Callback* called = nullptr;  // NOLINT: likewise

/// At most 64 are kept.
void remember(memreel_state_callback function, void* user, std::int64_t recorded_from) {
  for (Callback& callback : callbacks) {
    auto state = Callback::State::free;
    if (!callback.state.compare_exchange_strong(state, Callback::State::changing)) continue;
    callback.user = user;
    callback.recorded_from = recorded_from;
    callback.function = function;
    callback.state = Callback::State::registered;
    return;
  }
}

/// Afterwards `user` is no longer used, unless a call takes longer than anybody waits: it may itself wait for the
/// caller.
void drop(void* user) {
  for (Callback& callback : callbacks) {
    auto state = Callback::State::registered;
    if (callback.state != state || callback.user != user) continue;
    if (!callback.state.compare_exchange_strong(state, Callback::State::changing)) continue;
    const int own = called == &callback ? 1 : 0;
    stacks::nap_until([&] { return callback.calls <= own; }, std::chrono::seconds(5));
    callback.state = Callback::State::free;
  }
}

/// A null function removes the callbacks registered for `user`.
void on_attach(memreel_state_callback function, void* user) {
  const KeepErrno keep;
  if (function == nullptr) return drop(user);
  remember(
      function, user,
      agent::recorder_for_annotations() != nullptr ? std::chrono::steady_clock::now().time_since_epoch().count() : 0);
}

void snapshot() {
  const KeepErrno keep;
  if (agent::Recorder* const recorder = agent::recorder()) recorder->ask_flush();
}

std::size_t usage(memreel_usage* heaps, std::size_t room, std::uint32_t flags) {
  const KeepErrno keep;
  agent::Recorder* const recorder = agent::recorder();
  if (recorder == nullptr) return 0;
  const agent::MemoryUsage all =
      recorder->ask_usage((flags & MEMREEL_USAGE_RESET) != 0 ? agent::Usage::Peaks::reset : agent::Usage::Peaks::keep);
  const std::span out(heaps, heaps == nullptr ? 0 : room);
  if ((flags & MEMREEL_USAGE_OF_DEVICES) != 0) {
    for (std::size_t i = 0; i < std::min(out.size(), all.requested.size()); ++i)
      out[i] = {.device = all.requested[i].device,
                .level = 2,
                .live_bytes = all.requested[i].live.count,
                .peak_bytes = all.requested[i].peak.count};
    return all.requested.size();
  }
  const std::vector<agent::HeapUsage>& found = all.heaps;
  for (std::size_t i = 0; i < std::min(out.size(), found.size()); ++i) {
    out[i] = {.device = found[i].device,
              .level = found[i].level == Level::driver ? 0U : 1U,
              .live_bytes = found[i].live.count,
              .peak_bytes = found[i].peak.count};
  }
  return found.size();
}

std::atomic<ModuleNamer> namer;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): the program calls C

void name_module(const void* module, const char* name) {
  const KeepErrno keep;
  if (const ModuleNamer give = namer.load()) give(module, name == nullptr ? std::string_view() : name);
}

constexpr memreel_api api{
    sizeof(memreel_api), MEMREEL_API_VERSION, pool_create, pool_destroy, take_events, mark, on_attach, snapshot, usage,
    name_module};

}  // namespace

std::uint64_t next_pool() {
  static std::atomic<std::uint64_t> last = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void ask_for_state(std::chrono::steady_clock::time_point began) {
  joined = true;
  is_older = true;
  for (Callback& callback : callbacks) {
    ++callback.calls;
    if (callback.state == Callback::State::registered && callback.recorded_from < began.time_since_epoch().count()) {
      called = &callback;
      callback.function.load()(callback.user);
      called = nullptr;
    }
    --callback.calls;
  }
  is_older = false;
}

void name_modules_with(ModuleNamer give) { namer.store(give); }

namespace {

void take_over(std::span<memreel_attach_slot> slots) {
  for (memreel_attach_slot& slot : slots)
    if (const memreel_state_callback function =
            __atomic_exchange_n(&slot.callback, memreel_state_callback{}, __ATOMIC_ACQ_REL))
      remember(function, slot.user, 0);
}

}  // namespace

void introduce() {
  std::vector<std::string> modules;
  stacks::walk_loaded_modules(
      [](dl_phdr_info* module, std::size_t, void* names) {
        static_cast<std::vector<std::string>*>(names)->emplace_back(module->dlpi_name);
        return 0;
      },
      &modules);
  for (const std::string& name : modules) {
    void* const library = dlopen(name.empty() ? nullptr : name.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) continue;
    if (void* const slot = dlsym(library, "memreel_api_slot"))
      __atomic_store_n(static_cast<const memreel_api**>(slot), &api, __ATOMIC_RELEASE);
    if (void* const slots = dlsym(library, "memreel_attach_slots"))
      take_over({static_cast<memreel_attach_slot*>(slots), MEMREEL_ATTACH_SLOTS});
    dlclose(library);
  }
}

}  // namespace memreel::annotate

extern "C" [[gnu::visibility("default")]] const memreel_api* memreel_get_api(std::uint32_t version) {
  return version >= 1 ? &memreel::annotate::api : nullptr;
}
