#include "collector/nvtx/names.h"

#include <array>
#include <bit>
#include <span>

#include "collector/recorder/recorder.h"

namespace memreel::nvtx {
namespace {

/// Maximum length of a name, in bytes.
constexpr std::size_t longest = 256;

}  // namespace

std::uint64_t number_of(std::string_view name) {
  agent::Recorder* const recorder = agent::recorder_for_annotations();
  if (recorder == nullptr) return 0;
  return recorder->names().number_of({std::as_bytes(std::span(name.substr(0, longest)))});
}

std::uint64_t number_of(const char* name) { return name == nullptr ? 0 : number_of(std::string_view(name)); }

std::uint64_t number_of(const wchar_t* name) {
  if (name == nullptr) return 0;
  std::array<char, longest> text{};
  std::size_t size = 0;
  for (; size < text.size() && name[size] != L'\0'; ++size)
    text[size] = name[size] > 0 && name[size] < 128 ? static_cast<char>(name[size]) : '?';
  return number_of(std::string_view(text.data(), size));
}

std::uint64_t number_of(std::int64_t type, const Message& message) {
  switch (type) {
    case message_ascii:
      return number_of(message.ascii);
    case message_wide:
      return number_of(message.wide);
    case message_registered:
      return std::bit_cast<std::uint64_t>(message.registered);
    default:
      return 0;
  }
}

std::uint64_t number_of(const Attributes* attributes) {
  // Versions only ever append fields; the oldest one with a message has all of these.
  if (attributes == nullptr || attributes->size < sizeof(Attributes)) return 0;
  return number_of(attributes->message_type, attributes->message);
}

}  // namespace memreel::nvtx
