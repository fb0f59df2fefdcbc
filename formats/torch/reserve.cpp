#include "formats/torch/reserve.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "formats/model/numbers.h"
#include "formats/model/origin_text.h"

namespace memreel {
namespace {

constexpr std::string_view no_classes = "none";

std::string plain_number(double value) {
  std::array<char, 512> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed).ptr;
  return {digits.data(), end};
}

/// Calls `item(key, value)` for each "key:value" of a bracketed list until it returns false. Returns false if it did,
/// or if the text is not such a list.
template <class Item>
bool for_each_item(std::string_view text, const Item& item) {
  if (!text.starts_with('[') || !text.ends_with(']')) return false;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view pair = text.substr(0, end);
    const std::size_t colon = pair.find(':');
    if (colon == 0 || colon == std::string_view::npos) return false;
    if (!item(pair.substr(0, colon), pair.substr(colon + 1))) return false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

template <class Map, class Text>
std::string list_of(const Map& map, const Text& text) {
  std::string list;
  for (const auto& item : map) list += (list.empty() ? "[" : ",") + text(item);
  return list.empty() ? std::string(no_classes) : list + "]";
}

std::optional<std::uint64_t> parse_handle(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<ReserveSize> ReserveSize::parse(std::string_view text) {
  const bool absolute = text.ends_with('G') || text.ends_with('g');
  if (absolute) text.remove_suffix(1);
  const auto value = parse_fraction(text, std::chars_format::general);
  if (!value || *value <= 0) return std::nullopt;
  return ReserveSize{.is_share = !absolute, .value = *value};
}

std::string ReserveSize::text() const { return plain_number(value) + (is_share ? "" : "G"); }

std::optional<Bytes> TorchReserve::limit(std::uint64_t stream) const {
  std::optional<ReserveSize> size = usual;
  if (const auto named = class_of_stream.find(stream); named != class_of_stream.end())
    if (const auto own = by_class.find(named->second); own != by_class.end()) size = own->second;
  if (!size || (size->is_share && !memory)) return std::nullopt;
  const double unit = static_cast<double>(size->is_share ? memory->count : (1_GiB).count);
  const double bytes = std::min(size->value * unit, 0x1p62);
  const Bytes limit{static_cast<std::uint64_t>(bytes)};
  return memory ? std::min(limit, *memory + Bytes{memory->count / 8}) : limit;
}

std::optional<std::map<std::string, ReserveSize>> TorchReserve::parse_classes(std::string_view text) {
  std::map<std::string, ReserveSize> classes;
  const bool good = text == no_classes || for_each_item(text, [&](std::string_view name, std::string_view value) {
                      const auto size = ReserveSize::parse(value);
                      if (size) classes.insert_or_assign(std::string(name), *size);
                      return size.has_value();
                    });
  return good ? std::optional(std::move(classes)) : std::nullopt;
}

std::optional<std::map<std::uint64_t, std::string>> TorchReserve::parse_streams(std::string_view text) {
  std::map<std::uint64_t, std::string> streams;
  const bool good = text == no_classes || for_each_item(text, [&](std::string_view handle, std::string_view name) {
                      const auto number = parse_handle(handle);
                      if (number) streams.insert_or_assign(*number, std::string(name));
                      return number.has_value() && !name.empty();
                    });
  return good ? std::optional(std::move(streams)) : std::nullopt;
}

std::string TorchReserve::classes_text() const {
  return list_of(by_class, [](const auto& item) { return item.first + ":" + item.second.text(); });
}

std::string TorchReserve::streams_text() const {
  return list_of(class_of_stream, [](const auto& item) { return hexadecimal(item.first) + ":" + item.second; });
}

}  // namespace memreel
