#include "viewer/page/keys.h"

#include <GLFW/glfw3.h>

#include <algorithm>
#include <array>
#include <utility>

namespace memreel::viewer {
namespace {

constexpr std::array<std::pair<std::string_view, int>, 36> names{{
    {"ArrowDown", GLFW_KEY_DOWN},
    {"ArrowLeft", GLFW_KEY_LEFT},
    {"ArrowRight", GLFW_KEY_RIGHT},
    {"ArrowUp", GLFW_KEY_UP},
    {"AltLeft", GLFW_KEY_LEFT_ALT},
    {"AltRight", GLFW_KEY_RIGHT_ALT},
    {"Backquote", GLFW_KEY_GRAVE_ACCENT},
    {"Backslash", GLFW_KEY_BACKSLASH},
    {"Backspace", GLFW_KEY_BACKSPACE},
    {"BracketLeft", GLFW_KEY_LEFT_BRACKET},
    {"BracketRight", GLFW_KEY_RIGHT_BRACKET},
    {"Comma", GLFW_KEY_COMMA},
    {"ControlLeft", GLFW_KEY_LEFT_CONTROL},
    {"ControlRight", GLFW_KEY_RIGHT_CONTROL},
    {"Delete", GLFW_KEY_DELETE},
    {"End", GLFW_KEY_END},
    {"Enter", GLFW_KEY_ENTER},
    {"Equal", GLFW_KEY_EQUAL},
    {"Escape", GLFW_KEY_ESCAPE},
    {"Home", GLFW_KEY_HOME},
    {"Insert", GLFW_KEY_INSERT},
    {"Minus", GLFW_KEY_MINUS},
    {"NumpadAdd", GLFW_KEY_KP_ADD},
    {"NumpadEnter", GLFW_KEY_KP_ENTER},
    {"NumpadSubtract", GLFW_KEY_KP_SUBTRACT},
    {"PageDown", GLFW_KEY_PAGE_DOWN},
    {"PageUp", GLFW_KEY_PAGE_UP},
    {"Period", GLFW_KEY_PERIOD},
    {"Quote", GLFW_KEY_APOSTROPHE},
    {"Semicolon", GLFW_KEY_SEMICOLON},
    {"ShiftLeft", GLFW_KEY_LEFT_SHIFT},
    {"ShiftRight", GLFW_KEY_RIGHT_SHIFT},
    {"Slash", GLFW_KEY_SLASH},
    {"Space", GLFW_KEY_SPACE},
    {"Tab", GLFW_KEY_TAB},
    {"F1", GLFW_KEY_F1},
}};

}  // namespace

int key_of_code(std::string_view code) {
  const auto is_one_of = [&](std::string_view kind, char first, char last) {
    return code.size() == kind.size() + 1 && code.starts_with(kind) && code.back() >= first && code.back() <= last;
  };
  if (is_one_of("Key", 'A', 'Z') || is_one_of("Digit", '0', '9')) return code.back();  // GLFW key codes
  if (is_one_of("Numpad", '0', '9')) return GLFW_KEY_KP_0 + (code.back() - '0');
  const auto found = std::ranges::find(names, code, &std::pair<std::string_view, int>::first);
  return found == names.end() ? 0 : found->second;
}

}  // namespace memreel::viewer
