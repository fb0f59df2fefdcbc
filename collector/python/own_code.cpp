// SPDX-License-Identifier: Apache-2.0
#include "collector/python/own_code.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <type_traits>

#include "formats/model/quantity.h"

namespace memreel::python {
namespace {

/// As declared by Python's stable ABI. Object stands for PyObject.
struct Calls {
  using Object = void;
  int (*is_initialized)() = nullptr;
  int (*add_pending_call)(int (*)(void*), void*) = nullptr;
  Object* (*compile)(const char*, const char*, int) = nullptr;
  Object* (*evaluate)(Object*, Object*, Object*) = nullptr;
  Object* (*builtins)() = nullptr;
  Object* (*new_dict)() = nullptr;
  int (*set_item)(Object*, const char*, Object*) = nullptr;
  Object* (*item)(Object*, const char*) = nullptr;
  const char* (*as_text)(Object*) = nullptr;
  void (*fetch_error)(Object**, Object**, Object**) = nullptr;
  void (*restore_error)(Object*, Object*, Object*) = nullptr;
  void (*clear_error)() = nullptr;
  void (*release)(Object*) = nullptr;
  const char* (*version)() = nullptr;
  int (*take_gil)() = nullptr;
  void (*give_gil)(int) = nullptr;
};

const Calls* find_calls() {
  static const std::optional<Calls> calls = []() -> std::optional<Calls> {
    Calls found;
    bool all = true;
    const auto find = [&](const char* name, auto& function) {
      function = std::bit_cast<std::remove_reference_t<decltype(function)>>(::dlsym(RTLD_DEFAULT, name));
      all = all && function != nullptr;
    };
    find("Py_IsInitialized", found.is_initialized);
    find("Py_AddPendingCall", found.add_pending_call);
    find("Py_CompileString", found.compile);
    find("PyEval_EvalCode", found.evaluate);
    find("PyEval_GetBuiltins", found.builtins);
    find("PyDict_New", found.new_dict);
    find("PyDict_SetItemString", found.set_item);
    find("PyDict_GetItemString", found.item);
    find("PyUnicode_AsUTF8", found.as_text);
    find("PyErr_Fetch", found.fetch_error);
    find("PyErr_Restore", found.restore_error);
    find("PyErr_Clear", found.clear_error);
    find("Py_DecRef", found.release);
    find("Py_GetVersion", found.version);
    find("PyGILState_Ensure", found.take_gil);
    find("PyGILState_Release", found.give_gil);
    return all ? std::optional(found) : std::nullopt;
  }();
  return calls ? &*calls : nullptr;
}

constexpr int whole_file = 257;  // Py_file_input (Include/compile.h), the same in every CPython

/// Sets `told`. The package gets a name of its own: the program may import another version, or a file of that name.
std::string source_of(const std::string& package, const std::string& call) {
  return "def walk():\n"
         "    import importlib, importlib.util, os, sys\n"
         "    name, place = '_memreel_of_the_agent', " +
         literal(package) +
         "\n"
         "    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True\n"
         "    try:\n"
         "        if name not in sys.modules:\n"
         "            spec = importlib.util.spec_from_file_location(name, os.path.join(place, '__init__.py'),\n"
         "                                                          submodule_search_locations=[place])\n"
         "            sys.modules[name] = importlib.util.module_from_spec(spec)\n"
         "        holding = importlib.import_module(name + '.holding')\n"
         "    finally:\n"
         "        sys.dont_write_bytecode = writes\n"
         "    return holding." +
         call +
         "\n"
         "try:\n"
         "    told = walk()\n"
         "except Exception as problem:\n"
         "    told = 'note the walk failed: ' + type(problem).__name__ + '\\n'\n";
}

}  // namespace

struct ObjectWalk::State {
  enum class Phase : std::uint8_t { asked, withdrawn, running, ended };

  std::string package, call;
  pid_t process = ::getpid();
  std::atomic<Phase> phase = Phase::asked;
  std::string answer;  // once ended

  std::string tell(const Calls& python) const;

  /// Of a call that has not begun: Python's queue is short, and a program that waits in C code never empties it.
  static std::atomic<int>& queued() {
    static std::atomic<int> count = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
    return count;
  }
};

std::string ObjectWalk::State::tell(const Calls& python) const {
  std::string told = "note the walk could not be run\n";
  // As if the file were in the package, whose own frames a walk leaves out.
  Calls::Object* const code =
      python.compile(source_of(package, call).c_str(), (package + "/agent").c_str(), whole_file);
  Calls::Object* const globals = code != nullptr ? python.new_dict() : nullptr;
  if (globals != nullptr && python.set_item(globals, "__builtins__", python.builtins()) == 0) {
    Calls::Object* const none = python.evaluate(code, globals, globals);
    Calls::Object* const text = none != nullptr ? python.item(globals, "told") : nullptr;
    if (const char* const bytes = text != nullptr ? python.as_text(text) : nullptr) told = bytes;
    if (none != nullptr) python.release(none);
  }
  if (globals != nullptr) python.release(globals);
  if (code != nullptr) python.release(code);
  return told;
}

ObjectWalk::ObjectWalk(std::shared_ptr<State> state) : state_(std::move(state)) {}

/// Python's pending call. The program may be propagating an exception.
int ObjectWalk::run(void* asked) {
  const std::unique_ptr<std::shared_ptr<State>> owner(static_cast<std::shared_ptr<State>*>(asked));
  State& state = **owner;
  --State::queued();
  State::Phase expected = State::Phase::asked;
  if (state.process != ::getpid() || !state.phase.compare_exchange_strong(expected, State::Phase::running)) return 0;
  const Calls& python = *find_calls();
  Calls::Object *type = nullptr, *value = nullptr, *trace = nullptr;
  python.fetch_error(&type, &value, &trace);
  state.answer = state.tell(python);
  python.clear_error();
  python.restore_error(type, value, trace);
  state.phase.store(State::Phase::ended, std::memory_order_release);
  return 0;
}

std::unique_ptr<ObjectWalk> ObjectWalk::ask(const std::string& package, const std::string& call) {
  const Calls* const python = find_calls();
  if (python == nullptr || package.empty() || python->is_initialized() == 0) return nullptr;
  if (State::queued().exchange(1) != 0) return nullptr;
  auto state = std::make_shared<State>();
  state->package = package;
  state->call = call;
  auto asked = std::make_unique<std::shared_ptr<State>>(state);
  if (python->add_pending_call(run, asked.get()) != 0) {
    --State::queued();
    return nullptr;
  }
  [[maybe_unused]] auto* const pythons = asked.release();
  return std::unique_ptr<ObjectWalk>(new ObjectWalk(std::move(state)));
}

bool ObjectWalk::needs_hurry() {
  constexpr int first_without_need = 13;
  const Calls* const python = find_calls();
  int minor = 0;
  return python != nullptr && std::sscanf(python->version(), "3.%d", &minor) == 1 && minor < first_without_need;
}

void ObjectWalk::hurry() {
  const Calls* const python = find_calls();
  if (python != nullptr && python->is_initialized() != 0) python->give_gil(python->take_gil());
}

ObjectWalk::~ObjectWalk() {
  State::Phase expected = State::Phase::asked;
  state_->phase.compare_exchange_strong(expected, State::Phase::withdrawn);
}

bool ObjectWalk::has_begun() const { return state_->phase.load(std::memory_order_acquire) >= State::Phase::running; }

std::optional<std::string> ObjectWalk::answer() const {
  if (state_->phase.load(std::memory_order_acquire) != State::Phase::ended) return std::nullopt;
  return state_->answer;
}

std::string literal(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      result += {'\\', 'x', hex_digit(byte >> 4U), hex_digit(byte)};
      continue;
    }
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string package_of(const std::string& library) {
  std::error_code problem;
  const std::filesystem::path here = std::filesystem::path(library).parent_path();
  // PREFIX/lib/memreel and PREFIX/share/memreel/python; a wheel's memreel/_dist/lib/memreel; the build directory's lib.
  for (const char* place : {"../../share/memreel/python/memreel", "../../..", "../share/memreel/python/memreel"}) {
    const std::filesystem::path candidate = (here / place).lexically_normal();
    if (std::filesystem::is_regular_file(candidate / "holding.py", problem)) return candidate.string();
  }
  return {};
}

}  // namespace memreel::python
