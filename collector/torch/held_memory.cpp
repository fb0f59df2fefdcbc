// SPDX-License-Identifier: Apache-2.0
// PyTorch's own snapshot of its allocator, through Python.
#include <dlfcn.h>

#include <array>
#include <bit>
#include <span>
#include <type_traits>

#include "collector/recorder/recorder.h"
#include "collector/stacks/nap.h"
#include "collector/torch/allocator_trace.h"

namespace memreel::torch {
namespace {

struct Object;  // PyObject

/// Python's functions, as declared by its C API; found by name, as nothing here links against Python.
struct Api {
  int (*add_pending_call)(int (*)(void*), void*) = nullptr;
  Object* (*modules)() = nullptr;                          // borrowed
  Object* (*item_string)(Object*, const char*) = nullptr;  // borrowed
  Object* (*attribute)(Object*, const char*) = nullptr;    // new
  Object* (*call)(Object*, Object*) = nullptr;             // new
  int (*is_true)(Object*) = nullptr;
  std::ptrdiff_t (*list_size)(Object*) = nullptr;
  Object* (*list_item)(Object*, std::ptrdiff_t) = nullptr;   // borrowed
  Object* (*tuple_item)(Object*, std::ptrdiff_t) = nullptr;  // borrowed
  unsigned long long (*as_number)(Object*) = nullptr;
  const char* (*as_text)(Object*) = nullptr;
  void (*fetch_error)(Object**, Object**, Object**) = nullptr;
  void (*restore_error)(Object*, Object*, Object*) = nullptr;
  void (*clear_error)() = nullptr;
  void (*release)(Object*) = nullptr;
};

const Api* find_api() {
  static const Api api = [] {
    Api found;
    bool all = true;
    const auto find = [&](const char* name, auto& function) {
      function = std::bit_cast<std::remove_reference_t<decltype(function)>>(::dlsym(RTLD_DEFAULT, name));
      all = all && function != nullptr;
    };
    find("PyImport_GetModuleDict", found.modules);
    find("PyDict_GetItemString", found.item_string);
    find("PyObject_GetAttrString", found.attribute);
    find("PyObject_CallObject", found.call);
    find("PyObject_IsTrue", found.is_true);
    find("PyList_Size", found.list_size);
    find("PyList_GetItem", found.list_item);
    find("PyTuple_GetItem", found.tuple_item);
    find("PyLong_AsUnsignedLongLong", found.as_number);
    find("PyUnicode_AsUTF8", found.as_text);
    find("PyErr_Fetch", found.fetch_error);
    find("PyErr_Restore", found.restore_error);
    find("PyErr_Clear", found.clear_error);
    find("Py_DecRef", found.release);
    find("Py_AddPendingCall", found.add_pending_call);
    return all ? found : Api{};
  }();
  return api.add_pending_call != nullptr ? &api : nullptr;
}

/// An owned reference; null if getting it failed.
class Owned {
 public:
  Owned(const Api& api, Object* object) : api_(&api), object_(object) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (object_ != nullptr) api_->release(object_);
  }
  Object* get() const { return object_; }

 private:
  const Api* api_;
  Object* object_;
};

/// A number in a dictionary; 0 if there is no such key.
std::uint64_t number(const Api& api, Object* row, const char* name) {
  Object* const value = api.item_string(row, name);
  return value != nullptr ? api.as_number(value) : 0;
}

bool is_true(const Api& api, Object* row, const char* name) {
  Object* const value = api.item_string(row, name);
  return value != nullptr && api.is_true(value) == 1;
}

std::string_view text(const Api& api, Object* row, const char* name) {
  Object* const value = api.item_string(row, name);
  const char* const characters = value != nullptr ? api.as_text(value) : nullptr;
  return characters != nullptr ? characters : "";
}

/// As InitialUse. `active_pending_free` is how PyTorch before 2.1 called `active_awaiting_free`.
std::uint16_t use_of(const Api& api, Object* block) {
  const std::string_view state = text(api, block, "state");
  return state == "active_allocated" ? 1 : state.starts_with("active") ? 2 : 0;
}

class SnapshotWriter {
 public:
  SnapshotWriter(const Api& api, agent::Recorder& recorder, bool traced)
      : api_(api), recorder_(recorder), traced_(traced) {}

  void segment(Object* segment) {
    agent::Record record;
    record.kind = agent::RecordKind::snapshot_block;
    record.device = static_cast<std::int16_t>(number(api_, segment, "device"));
    record.stream = number(api_, segment, "stream");
    record.address = number(api_, segment, "address");
    record.size = number(api_, segment, "total_size");
    const bool expandable = is_true(api_, segment, "is_expandable");
    // Expandable segments are mapped piecewise, and the snapshot does not list the pieces.
    if (!expandable) emit(record);

    record.space = traced_ ? agent::Space::torch_traced : agent::Space::torch;
    if (traced_) {
      record.kind = agent::RecordKind::snapshot_segment;
      record.object = pool_of(segment);
      if (text(api_, segment, "segment_type") == "small")
        record.status |= static_cast<std::uint16_t>(agent::SnapshotSegment::small);
      if (expandable) record.status |= static_cast<std::uint16_t>(agent::SnapshotSegment::expandable);
      emit(record);
      record.kind = agent::RecordKind::snapshot_block;
    }
    Object* const blocks = api_.item_string(segment, "blocks");
    const std::ptrdiff_t count = blocks != nullptr ? api_.list_size(blocks) : 0;
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      Object* const block = api_.list_item(blocks, i);
      record.size = number(api_, block, "size");
      const std::uint16_t use = use_of(api_, block);
      if (traced_) {
        record.status = use;
        record.stream = number(api_, block, "requested_size");
      }
      if (traced_ || use != 0) emit(record);
      record.address += record.size;  // blocks have no gaps between them
    }
  }

 private:
  /// See Space::torch_traced. The trace of a release that does not state pools has none, and neither may this.
  std::uint64_t pool_of(Object* segment) {
    Object* const pool = api_.item_string(segment, "segment_pool_id");
    if (pool == nullptr || !trace_states_pools()) return 0;
    std::array<std::uint64_t, 2> key{};
    for (std::size_t i = 0; i < key.size(); ++i) {
      Object* const part = api_.tuple_item(pool, static_cast<std::ptrdiff_t>(i));
      if (part == nullptr) return 0;
      key[i] = api_.as_number(part);
    }
    return recorder_.number_of_pool(key);
  }

  /// Leaves the writing thread time, so that a snapshot may be larger than this thread's ring.
  void emit(const agent::Record& record) {
    recorder_.emit(record);
    if (++emitted_ % at_once != 0) return;
    recorder_.wake();
    stacks::nap(std::chrono::milliseconds(5));
  }

  static constexpr unsigned at_once = 8192;
  const Api& api_;
  agent::Recorder& recorder_;
  bool traced_;
  unsigned emitted_ = 0;
};

/// Whether `memory_snapshot` was called, and its result is exact: no trace entry came while it ran.
bool take_snapshot(const Api& api, agent::Recorder& recorder) {
  Object* const torch = api.item_string(api.modules(), "torch.cuda");
  if (torch == nullptr) return false;
  const Owned initialized_function(api, api.attribute(torch, "is_initialized"));
  if (initialized_function.get() == nullptr) return false;
  const Owned initialized(api, api.call(initialized_function.get(), nullptr));
  if (initialized.get() == nullptr || api.is_true(initialized.get()) != 1) return false;
  const Owned function(api, api.attribute(torch, "memory_snapshot"));
  if (function.get() == nullptr) return false;

  const bool traced = follow_trace();
  // PyTorch locks one device after the other. Other threads may use them meanwhile. Python's lock is held: large
  // allocators are not asked for long.
  constexpr int least_attempts = 3, most_attempts = 64;
  constexpr std::chrono::milliseconds patience{500};
  const auto began = std::chrono::steady_clock::now();
  for (int attempt = 1;; ++attempt) {
    recorder.emit({.kind = agent::RecordKind::snapshot_begin});
    const std::uint64_t before = trace_entries();
    const Owned segments(api, api.call(function.get(), nullptr));
    if (segments.get() == nullptr) return false;
    recorder.emit({.kind = agent::RecordKind::snapshot_taken});
    const bool exact = traced && trace_entries() == before;
    const bool may_retry =
        attempt < least_attempts || (attempt < most_attempts && std::chrono::steady_clock::now() - began < patience);
    if (traced && !exact && may_retry) continue;
    SnapshotWriter writer(api, recorder, traced);
    const std::ptrdiff_t count = api.list_size(segments.get());
    for (std::ptrdiff_t i = 0; i < count; ++i) writer.segment(api.list_item(segments.get(), i));
    return exact;
  }
}

}  // namespace

void ask_for_snapshot() {
  const Api* const api = find_api();
  const auto answer = [](void* known) {
    const Api& python = *static_cast<const Api*>(known);
    // The program may be propagating an exception.
    Object *type = nullptr, *value = nullptr, *trace = nullptr;
    python.fetch_error(&type, &value, &trace);
    if (agent::Recorder* const recorder = agent::recorder()) {
      const bool exact = take_snapshot(python, *recorder);
      recorder->emit({.kind = agent::RecordKind::snapshot_end, .status = exact ? std::uint16_t{1} : std::uint16_t{0}});
    }
    python.clear_error();
    python.restore_error(type, value, trace);
    return 0;
  };
  auto* const known = const_cast<Api*>(api);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  if (api != nullptr && api->add_pending_call(answer, known) == 0) return;
  if (agent::Recorder* const recorder = agent::recorder()) recorder->emit({.kind = agent::RecordKind::snapshot_end});
}

}  // namespace memreel::torch
