#include "collector/torch/snapshot.h"

#include <dlfcn.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "collector/recorder/recorder.h"

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
  Object* (*list_item)(Object*, std::ptrdiff_t) = nullptr;  // borrowed
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

/// Allocated, or freed by the program and still in use by the device.
bool is_held(const Api& api, Object* block) {
  Object* const state = api.item_string(block, "state");
  const char* const text = state != nullptr ? api.as_text(state) : nullptr;
  return text != nullptr && std::strncmp(text, "active", 6) == 0;
}

void record_segment(const Api& api, agent::Recorder& recorder, Object* segment) {
  agent::Record record;
  record.kind = agent::RecordKind::snapshot_block;
  record.device = static_cast<std::int16_t>(number(api, segment, "device"));
  record.stream = number(api, segment, "stream");
  record.address = number(api, segment, "address");
  record.size = number(api, segment, "total_size");
  // Expandable segments are mapped piecewise, and the snapshot does not list the pieces.
  if (!is_true(api, segment, "is_expandable")) recorder.emit(record);

  record.space = agent::Space::torch;
  Object* const blocks = api.item_string(segment, "blocks");
  const std::ptrdiff_t count = blocks != nullptr ? api.list_size(blocks) : 0;
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    Object* const block = api.list_item(blocks, i);
    record.size = number(api, block, "size");
    if (is_held(api, block)) recorder.emit(record);
    record.address += record.size;  // blocks have no gaps between them
  }
}

void take_snapshot(const Api& api) {
  Object* const torch = api.item_string(api.modules(), "torch.cuda");
  agent::Recorder* const recorder = agent::recorder();
  if (torch == nullptr || recorder == nullptr) return;
  const Owned initialized_function(api, api.attribute(torch, "is_initialized"));
  if (initialized_function.get() == nullptr) return;
  const Owned initialized(api, api.call(initialized_function.get(), nullptr));
  if (initialized.get() == nullptr || api.is_true(initialized.get()) != 1) return;
  const Owned function(api, api.attribute(torch, "memory_snapshot"));
  if (function.get() == nullptr) return;

  agent::Record border;
  border.kind = agent::RecordKind::snapshot_begin;
  recorder->emit(border);
  const Owned segments(api, api.call(function.get(), nullptr));
  const std::ptrdiff_t count = segments.get() != nullptr ? api.list_size(segments.get()) : 0;
  for (std::ptrdiff_t i = 0; i < count; ++i) record_segment(api, *recorder, api.list_item(segments.get(), i));
  border.kind = agent::RecordKind::snapshot_end;
  recorder->emit(border);
}

}  // namespace

void ask_for_snapshot() {
  const Api* const api = find_api();
  if (api == nullptr) return;
  api->add_pending_call(
      [](void* known) {
        const Api& python = *static_cast<const Api*>(known);
        // The program may be propagating an exception.
        Object *type = nullptr, *value = nullptr, *trace = nullptr;
        python.fetch_error(&type, &value, &trace);
        take_snapshot(python);
        python.clear_error();
        python.restore_error(type, value, trace);
        return 0;
      },
      const_cast<Api*>(api));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

}  // namespace memreel::torch
