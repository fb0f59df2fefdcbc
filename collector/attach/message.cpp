#include "collector/attach/message.h"

#include <algorithm>
#include <charconv>

namespace memreel::attach {
namespace {

constexpr std::string_view protocol = "memreel-control/1";

}  // namespace

std::string_view Message::operator[](std::string_view name) const {
  const auto found = std::ranges::find(fields, name, [](const auto& field) { return std::string_view(field.first); });
  return found != fields.end() ? std::string_view(found->second) : std::string_view{};
}

std::uint64_t Message::number(std::string_view name) const {
  const std::string_view text = (*this)[name];
  std::uint64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() ? value : 0;
}

std::string to_bytes(const Message& message) {
  std::string bytes;
  const auto add = [&](std::string_view text) { bytes.append(text.substr(0, text.find('\0'))).push_back('\0'); };
  add(protocol);
  add(message.word);
  for (const auto& [name, value] : message.fields) add(name + "=" + value);
  return bytes;
}

Result<Message> parse_message(std::span<const char> bytes) {
  const Error malformed{.what = "sent a malformed message"};
  std::string_view rest(bytes.data(), bytes.size());
  if (rest.size() > largest_message || !rest.ends_with('\0')) return malformed;
  const auto next = [&] {
    const std::string_view text = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(text.size() + 1);
    return text;
  };
  const std::string_view version = next();
  if (!version.starts_with(protocol.substr(0, protocol.find('/') + 1))) return malformed;
  if (version != protocol)
    return Error{.what = "uses protocol " + std::string(version) + ", not " + std::string(protocol),
                 .remedy = "use the version of memreel that the program was started with"};
  if (rest.empty()) return malformed;
  Message message{.word = std::string(next()), .fields = {}};
  while (!rest.empty()) {
    const std::string_view field = next();
    const std::size_t equals = field.find('=');
    if (equals == 0 || equals == std::string_view::npos) return malformed;
    message.fields.emplace_back(field.substr(0, equals), field.substr(equals + 1));
  }
  return message;
}

Message error_message(const Error& error) {
  return {.word = "error", .fields = {{"what", error.what}, {"where", error.where}, {"remedy", error.remedy}}};
}

Error error_of(const Message& answer) {
  return {.what = std::string(answer["what"]),
          .where = std::string(answer["where"]),
          .remedy = std::string(answer["remedy"])};
}

}  // namespace memreel::attach
