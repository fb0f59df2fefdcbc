#include "collector/python/instances.h"

#include <array>
#include <bit>
#include <cctype>
#include <cstring>
#include <span>

#include "collector/python/memory.h"

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

}  // namespace memreel::python
