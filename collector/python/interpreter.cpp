// SPDX-License-Identifier: Apache-2.0
#include "collector/python/interpreter.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstring>
#include <span>

#include "collector/stacks/call_frames.h"
#include "formats/model/stack_text.h"

namespace memreel::python {
namespace {

/// What stands before the type's name in a row. No padding: it is compared as bytes.
struct InstanceHead {
  std::uint64_t object;
  std::uint32_t code, name;  // of the code table; of the texts, 0: none
};
static_assert(sizeof(InstanceHead) == 16);

constexpr std::size_t longest_type = 128, longest_name = 1024;

/// Distinguishes an object from one of another type previously at its address; never 0.
std::uint32_t version_of(const void* type) {
  return static_cast<std::uint32_t>(std::bit_cast<std::uintptr_t>(type) >> 4U) | 1U;
}

/// The name of a type. Empty: it is not a type.
template <class Memory>
std::string_view type_name(const void* type, const Layout& layout, Memory& memory,
                           std::array<char, longest_type>& buffer) {
  const auto* const text = memory.template read<const char*>(type, layout.type_name);
  std::size_t size = 0;
  for (; size < buffer.size() && !memory.failed(); ++size) {
    const auto c = memory.template read<char>(text, size);
    if (c == '\0') break;
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) == 0 && c != '_' && c != '.') return {};
    buffer.at(size) = c;
  }
  return memory.failed() ? std::string_view() : std::string_view(buffer.data(), size);
}

}  // namespace

bool is_module_call(const CodeView& code) {
  const std::string function = to_utf8(code.name);
  return (function == "Module._wrapped_call_impl" || function == "_wrapped_call_impl") &&
         to_utf8(code.file).ends_with("torch/nn/modules/module.py");
}

bool Instances::try_to_read(const void* self, const Layout& layout) {
  Careful memory;
  const auto* const type = memory.read<const void*>(self, layout.object_type);
  std::array<char, longest_type> buffer{};
  const bool is_object = !memory.failed() && !type_name(type, layout, memory, buffer).empty();
  readable_.store(is_object ? Readable::yes : Readable::no, std::memory_order_relaxed);
  return is_object;
}

std::uint32_t Instances::number_of(std::uint32_t code, const void* self, const Layout& layout) {
  const KnownCodes::Known known = known_.find(self);
  if (known.version == 0 || known.version != version_of(Direct().read<const void*>(self, layout.object_type)))
    return add(code, self, layout);
  return known.number == 0 ? code : known.number | bit;
}

std::uint32_t Instances::add(std::uint32_t code, const void* self, const Layout& layout) {
  Direct memory;
  const auto* const type = memory.read<const void*>(self, layout.object_type);
  const std::uint32_t version = version_of(type);
  // First, so that if there is no room, the rest is not repeated at every call.
  known_.set(self, {0, version});
  if (known_.find(self).version != version) return code;

  std::array<char, longest_type> buffer{};
  const std::string_view type_text = type_name(type, layout, memory, buffer);
  if (type_text.empty()) return code;
  const KnownCodes::Known name = names_.find(self);
  const InstanceHead head{std::bit_cast<std::uintptr_t>(self), code, name.version == version ? name.number : 0};
  const std::uint32_t number =
      rows_.number_of({std::as_bytes(std::span(&head, 1)), std::as_bytes(std::span(type_text))});
  known_.set(self, {number, version});
  return number == 0 ? code : number | bit;
}

Instances::Instance Instances::operator[](std::uint32_t number) const {
  const std::span row = rows_[number & ~bit];
  InstanceHead head{};
  std::memcpy(&head, row.data(), sizeof head);
  const auto text = [](std::span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  return {head.code, head.object, text(row.subspan(sizeof head)),
          head.name == 0 ? std::string() : text(texts_[head.name])};
}

void Instances::name(const void* object, std::string_view name, const Layout& layout) {
  const auto bytes = std::as_bytes(std::span(name.substr(0, longest_name)));
  const std::uint32_t text = name.empty() ? 0 : texts_.number_of({bytes});
  names_.set(object, {text, version_of(Direct().read<const void*>(object, layout.object_type))});
  known_.set(object, {});
  epoch_.fetch_add(1, std::memory_order_release);
}

namespace {

using stacks::AddressRange;

/// An interpreter's library loaded for private use: its symbols are not global.
void* private_libpython() {
  std::string path;
  stacks::walk_loaded_modules(
      [](dl_phdr_info* info, std::size_t, void* result) {
        if (!base_name(info->dlpi_name).starts_with("libpython3.")) return 0;
        *static_cast<std::string*>(result) = info->dlpi_name;
        return 1;
      },
      &path);
  return path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
}

class Symbols {
 public:
  Symbols() : library_(dlsym(RTLD_DEFAULT, "Py_GetVersion") != nullptr ? RTLD_DEFAULT : private_libpython()) {}

  bool any() const { return library_ != nullptr || dlsym(RTLD_DEFAULT, "Py_GetVersion") != nullptr; }
  const void* data(const char* name) const { return dlsym(library_, name); }

  /// Remembers the first name that is missing.
  template <class Function>
  void bind(Function*& function, const char* name) {
    function = std::bit_cast<Function*>(dlsym(library_, name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  void bind(const void*& object, const char* name) {
    object = dlsym(library_, name);
    if (object == nullptr && missing_ == nullptr) missing_ = name;
  }
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

/// The machine code of a function, from its symbol's size.
AddressRange range_of(const void* function) {
  Dl_info info{};
  void* entry = nullptr;
  if (function == nullptr || dladdr1(function, &info, &entry, RTLD_DL_SYMENT) == 0 || entry == nullptr) return {};
  const auto begin = std::bit_cast<std::uintptr_t>(info.dli_saddr);
  return {begin, begin + static_cast<const ElfW(Sym)*>(entry)->st_size};
}

/// All of a function's machine code.
std::vector<AddressRange> ranges_of(const void* function) {
  const AddressRange main_part = range_of(function);
  const auto place = stacks::CodeMap().find(main_part.begin);
  return place ? stacks::parts_of(main_part, place->tables) : std::vector{main_part};
}

struct ModuleSearch {
  std::uintptr_t address = 0;
  AddressRange range;
};

/// The address range of the module containing `address` if it is an interpreter and nothing else: a program that embeds
/// Python has code of its own there.
AddressRange plumbing_around(const void* address) {
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string_view name = base_name(info.dli_fname);
  if (!name.starts_with("libpython3.") && !name.starts_with("python")) return {};
  ModuleSearch search{.address = std::bit_cast<std::uintptr_t>(address)};
  stacks::walk_loaded_modules(
      [](dl_phdr_info* module, std::size_t, void* argument) {
        auto& wanted = *static_cast<ModuleSearch*>(argument);
        for (int i = 0; i < module->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = module->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
          const AddressRange range{module->dlpi_addr + segment.p_vaddr,
                                   module->dlpi_addr + segment.p_vaddr + segment.p_memsz};
          if (!range.contains(wanted.address)) continue;
          wanted.range = range;
          return 1;
        }
        return 0;
      },
      &search);
  return search.range;
}

Found refuse(std::string_view version, std::string_view why) {
  return {.interpreter = {}, .refusal = "CPython " + std::string(version) + " " + std::string(why)};
}

}  // namespace

Found find_interpreter() {
  Symbols symbols;
  if (!symbols.any()) return {};

  const char* (*get_version)() = nullptr;
  symbols.bind(get_version, "Py_GetVersion");
  const std::string_view text = get_version();  // "3.12.3 (main, ...)"
  const std::string_view version = text.substr(0, text.find(' '));
  unsigned minor = 0;
  if (!version.starts_with("3.") ||
      std::from_chars(version.data() + 2, version.data() + version.size(), minor).ec != std::errc{})
    return refuse(version, "is not supported");

  const std::optional<Layout> layout = layout_of(minor);
  if (!layout) return refuse(version, "is not supported by this version of memreel (3.9 to 3.15 are)");

  Interpreter found{.version = std::string(version), .layout = *layout};
  if (minor >= 13) {
    const void* const runtime = symbols.data("_PyRuntime");
    const std::optional<Layout> told = runtime ? read_debug_offsets(runtime, minor) : std::nullopt;
    if (!told) return refuse(version, "has no readable offset table in _PyRuntime");
    found.layout = *told;
  }
  Api& api = found.api;
  symbols.bind(api.is_initialized, "Py_IsInitialized");
  symbols.bind(api.thread_state, "PyGILState_GetThisThreadState");
  symbols.bind(api.add_pending_call, "Py_AddPendingCall");
  symbols.bind(api.current_frame, "PyEval_GetFrame");
  symbols.bind(api.caller_of, "PyFrame_GetBack");
  symbols.bind(api.code_of, "PyFrame_GetCode");
  symbols.bind(api.line_of, "PyFrame_GetLineNumber");
  symbols.bind(api.release, "Py_DecRef");
  symbols.bind(found.types.code, "PyCode_Type");
  symbols.bind(found.types.text, "PyUnicode_Type");
  symbols.bind(found.types.bytes, "PyBytes_Type");
  if (symbols.missing() != nullptr) return refuse(version, std::string("has no ") + symbols.missing());

  const void* const evaluator = symbols.data("_PyEval_EvalFrameDefault");
  found.evaluator = ranges_of(evaluator);
  found.plumbing = plumbing_around(evaluator);
  return {.interpreter = std::move(found), .refusal = {}};
}

}  // namespace memreel::python
