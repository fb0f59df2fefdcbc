#include "formats/import/torch/settings_text.h"

#include <array>
#include <charconv>
#include <span>

namespace memreel::torch {
namespace {

constexpr std::size_t max_length = 4096;
constexpr int max_depth = 3;

std::string number_text(double number) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  std::string text(digits.data(), end);
  // Python always marks floating-point numbers.
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

// Containers may be shared, so the text's length bounds the work, not their number.
bool append_text(const ValueArena& arena, Value value, int depth, std::string& text) {
  switch (arena.kind(value)) {
    case ValueKind::none:
      text += "None";
      break;
    case ValueKind::boolean:
      text += arena.as_boolean(value).value_or(false) ? "True" : "False";
      break;
    case ValueKind::integer:
      if (const auto small = arena.as_signed(value))
        text += std::to_string(*small);
      else
        text += std::to_string(arena.as_unsigned(value).value_or(0));
      break;
    case ValueKind::huge_integer:
      return false;
    case ValueKind::number:
      text += number_text(arena.as_number(value).value_or(0));
      break;
    case ValueKind::text:
      text += arena.text(value);
      break;
    case ValueKind::list:
    case ValueKind::tuple:
    case ValueKind::dict: {
      if (depth == max_depth) return false;
      const bool keyed = arena.is(value, ValueKind::dict);
      const std::span<const Value> items = arena.items(value);
      text += '[';
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (i > 0) text += keyed && i % 2 != 0 ? ':' : ',';
        if (!append_text(arena, items[i], depth + 1, text)) return false;
      }
      text += ']';
      break;
    }
  }
  return text.size() <= max_length;
}

}  // namespace

std::optional<std::string> settings_text(const ValueArena& arena, Value value) {
  std::string text;
  if (!append_text(arena, value, 0, text)) return std::nullopt;
  return text;
}

}  // namespace memreel::torch
