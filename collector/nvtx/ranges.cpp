// SPDX-License-Identifier: Apache-2.0
// NVTX's marks and ranges become marks in the trace. At its first call, a program's copy of NVTX loads the library
// named in NVTX_INJECTION64_PATH, and its functions are replaced by those below.
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "collector/nvtx/names.h"
#include "collector/nvtx/nvtx_api.h"
#include "collector/recorder/recorder.h"
#include "formats/model/tables.h"

namespace memreel::nvtx {
namespace {

using agent::Recorder;

void record(std::uint64_t name, MarkPhase phase) {
  Recorder* const recorder = agent::recorder_for_annotations();
  if (recorder == nullptr || name == 0) return;
  agent::Record record;
  record.kind = agent::RecordKind::mark;
  record.object = name;
  record.status = static_cast<std::uint16_t>(phase);
  recorder->emit(record);
}

/// The ranges that a thread has pushed, by name. Deeper ones are counted but not recorded.
struct Pushed {
  static constexpr int deepest = 128;
  std::array<std::uint64_t, deepest> names;
  int depth;
};
// Initial-exec: no allocation at a thread's first access.
[[gnu::tls_model("initial-exec")]] constinit thread_local Pushed pushed{};  // NOLINT

template <class Name>
void mark(Name name) {
  record(number_of(name), MarkPhase::instant);
}

/// A range's number includes that of its name.
std::uint64_t start_named(std::uint64_t name) {
  static std::atomic<std::uint64_t> ranges = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
  record(name, MarkPhase::begin);
  return ranges.fetch_add(1, std::memory_order_relaxed) << 32U | name;
}

template <class Name>
std::uint64_t start(Name name) {
  return start_named(number_of(name));
}

void end(std::uint64_t range) { record(range & 0xFFFF'FFFF, MarkPhase::end); }

/// Like NVTX, returns the depth of the range: 0 for the first.
int push_named(std::uint64_t name) {
  const int depth = pushed.depth++;
  if (depth < Pushed::deepest) {
    pushed.names[static_cast<std::size_t>(depth)] = name;
    record(name, MarkPhase::begin);
  }
  return depth;
}

template <class Name>
int push(Name name) {
  return push_named(pushed.depth < Pushed::deepest ? number_of(name) : 0);
}

int pop() {
  if (pushed.depth == 0) return -1;
  const int depth = --pushed.depth;
  if (depth < Pushed::deepest) record(pushed.names[static_cast<std::size_t>(depth)], MarkPhase::end);
  return depth;
}

// Domains separate different libraries' ranges. In a trace they are all marks.
void mark_in(const void* /*domain*/, const Attributes* name) { mark(name); }
std::uint64_t start_in(const void* /*domain*/, const Attributes* name) { return start(name); }
void end_in(const void* /*domain*/, std::uint64_t range) { end(range); }
int push_in(const void* /*domain*/, const Attributes* name) { return push(name); }
int pop_in(const void* /*domain*/) { return pop(); }

// Ranges that have only a payload have no name; they are not recorded, but count.
std::uint64_t start_with(const void* /*domain*/, const Payload* /*payloads*/, std::size_t /*count*/) {
  return start_named(0);
}
void end_with(const void* /*domain*/, std::uint64_t range, const Payload* /*payloads*/, std::size_t /*count*/) {
  end(range);
}
int push_with(const void* /*domain*/, const Payload* /*payloads*/, std::size_t /*count*/) { return push_named(0); }

/// A call of NCCL that makes a communicator says so only at its end: an instant within the range.
int pop_with(const void* /*domain*/, const Payload* payloads, std::size_t count) {
  if (pushed.depth > 0 && pushed.depth <= Pushed::deepest && payloads != nullptr) {
    const std::uint64_t name = pushed.names[static_cast<std::size_t>(pushed.depth - 1)];
    const std::uint64_t full = with_communicator(name, {payloads, count});
    if (full != name) record(full, MarkPhase::instant);
  }
  return pop();
}

/// A registered string is its number, which need not be an address.
template <class Name>
const void* register_string(const void* /*domain*/, Name name) {
  return std::bit_cast<const void*>(number_of(name));
}

/// Replaces the functions of one module of a copy of NVTX.
class Module {
 public:
  Module(const Callbacks& callbacks, std::uint32_t module) {
    if (callbacks.module_functions(module, &functions_, &count_) == 0) count_ = 0;
  }

  template <class Number, class Ours>
  void replace(Number number, Ours* ours) const {
    const auto i = static_cast<std::uint32_t>(number);
    if (i < count_ && functions_[i] != nullptr) *functions_[i] = std::bit_cast<Function>(ours);
  }

 private:
  Function** functions_ = nullptr;
  unsigned count_ = 0;
};

}  // namespace

bool take_over(GetExportTable get_table) {
  const auto* const callbacks = static_cast<const Callbacks*>(get_table(callbacks_table));
  if (callbacks == nullptr || callbacks->size < sizeof(Callbacks)) return false;

  const Module core(*callbacks, module_core);
  core.replace(Core::mark_ex, &mark<const Attributes*>);
  core.replace(Core::mark_ascii, &mark<const char*>);
  core.replace(Core::mark_wide, &mark<const wchar_t*>);
  core.replace(Core::range_start_ex, &start<const Attributes*>);
  core.replace(Core::range_start_ascii, &start<const char*>);
  core.replace(Core::range_start_wide, &start<const wchar_t*>);
  core.replace(Core::range_end, &end);
  core.replace(Core::range_push_ex, &push<const Attributes*>);
  core.replace(Core::range_push_ascii, &push<const char*>);
  core.replace(Core::range_push_wide, &push<const wchar_t*>);
  core.replace(Core::range_pop, &pop);

  const Module core2(*callbacks, module_core2);
  core2.replace(Core2::mark_ex, &mark_in);
  core2.replace(Core2::range_start_ex, &start_in);
  core2.replace(Core2::range_end, &end_in);
  core2.replace(Core2::range_push_ex, &push_in);
  core2.replace(Core2::range_pop, &pop_in);
  core2.replace(Core2::register_string_ascii, &register_string<const char*>);
  core2.replace(Core2::register_string_wide, &register_string<const wchar_t*>);
  return true;
}

bool take_over_payloads(const ExtensionInfo& info) {
  if (info.module != extension_payload) return false;
  const ExtensionSlots slots(info);
  slots.replace(WithPayload::schema_register, register_schema);
  slots.replace(WithPayload::range_push, push_with);
  slots.replace(WithPayload::range_pop, pop_with);
  slots.replace(WithPayload::range_start, start_with);
  slots.replace(WithPayload::range_end, end_with);
  return true;
}

}  // namespace memreel::nvtx
