// SPDX-License-Identifier: Apache-2.0
#include "collector/nvtx/names.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <span>

#include "collector/recorder/recorder.h"
#include "formats/model/nccl_range.h"
#include "formats/model/notation.h"

namespace memreel::nvtx {
namespace {

/// Maximum length of a name, in bytes.
constexpr std::size_t longest = 256;

/// The static schemas whose payloads begin with a communicator, a bit each. Other libraries may use the same numbers:
/// only ranges with names of NCCL's functions are looked up here.
std::atomic<std::uint64_t> with_communicators = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// What NCCL calls the entry (src/include/nvtx_payload_schemas.h).
constexpr std::string_view entry_of_nccl = "NCCL communicator ID";

std::uint64_t bit_of(std::uint64_t schema) {
  return schema >= first_static_schema && schema < first_static_schema + 64
             ? std::uint64_t{1} << (schema - first_static_schema)
             : 0;
}

/// 0: none of them names one.
std::uint64_t communicator_in(std::span<const Payload> payloads) {
  for (const Payload& payload : payloads) {
    std::uint64_t communicator = 0;
    if ((with_communicators.load(std::memory_order_relaxed) & bit_of(payload.schema)) == 0) continue;
    if (payload.data == nullptr || payload.size < sizeof communicator) continue;
    std::memcpy(&communicator, payload.data, sizeof communicator);
    return communicator;
  }
  return 0;
}

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
  const std::uint64_t name = number_of(attributes->message_type, attributes->message);
  if (attributes->payload_type != payload_extended || attributes->reserved <= 0) return name;
  return with_communicator(
      name, {std::bit_cast<const Payload*>(attributes->payload), static_cast<std::size_t>(attributes->reserved)});
}

std::uint64_t with_communicator(std::uint64_t name, std::span<const Payload> payloads) {
  const std::uint64_t communicator = communicator_in(payloads);
  agent::Recorder* const recorder = agent::recorder_for_annotations();
  if (communicator == 0 || name == 0 || recorder == nullptr) return name;
  const std::span<const std::byte> text = recorder->names()[static_cast<std::uint32_t>(name)];
  constexpr std::string_view prefix = "nccl";
  if (text.size() < prefix.size() || std::memcmp(text.data(), prefix.data(), prefix.size()) != 0) return name;
  std::array<char, 16> digits{};
  for (std::size_t i = 0; i < digits.size(); ++i) digits[i] = hex_digit(communicator >> (60 - 4 * i));
  return recorder->names().number_of(
      {text, std::as_bytes(std::span(nccl_communicator)), std::as_bytes(std::span(digits))});
}

std::uint64_t register_schema(const void* /*domain*/, const Schema* schema) {
  static std::atomic<std::uint64_t> next = first_dynamic_schema;
  if (schema == nullptr || (schema->fields & schema_has_id) == 0) return next.fetch_add(1, std::memory_order_relaxed);
  if (schema->entries != nullptr && schema->entry_count > 0 && schema->entries[0].name != nullptr &&
      schema->entries[0].name == entry_of_nccl)
    with_communicators.fetch_or(bit_of(schema->id), std::memory_order_relaxed);
  return schema->id;
}

}  // namespace memreel::nvtx
