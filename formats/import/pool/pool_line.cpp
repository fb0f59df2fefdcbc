#include "formats/import/pool/pool_line.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>

namespace memreel::pool_log {
namespace {

using Number = std::optional<std::uint64_t> Line::*;

constexpr std::array<std::pair<std::string_view, Number>, 7> numbers{{{"id", &Line::id},
                                                                      {"size", &Line::size},
                                                                      {"ptr", &Line::ptr},
                                                                      {"stream", &Line::stream},
                                                                      {"thread", &Line::thread},
                                                                      {"device", &Line::device},
                                                                      {"time", &Line::time}}};

/// Handles the parser's events: keys of the object itself, and of the frames in its "stack".
class Handler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Handler(Line& line) : line_(line) {}

  bool null() override { return true; }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return !is_number() && other(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (in_frame()) {
      if (key_ == "line") line_.stack.back().line = value;
      return true;
    }
    if (depth_ != 1) return true;
    for (const auto& [key, member] : numbers)
      if (key == key_) {
        line_.*member = value;
        return true;
      }
    return other(std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override { return !is_number() && other(text); }
  bool string(string_t& text) override {
    if (in_frame()) {
      if (key_ == "function") line_.stack.back().function = text;
      if (key_ == "file") line_.stack.back().file = text;
      return true;
    }
    if (is_number()) return false;
    if (depth_ == 1 && key_ == "op") line_.op = text;
    if (depth_ == 1 && key_ == "name") line_.name = text;
    if (depth_ == 1 && key_ == "metadata") line_.metadata = text;
    return key_ == "op" || other(text);
  }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override {
    ++depth_;
    if (in_frame()) line_.stack.emplace_back();
    return true;
  }
  bool key(string_t& text) override {
    if (depth_ == 1 || in_frame()) key_ = text;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return false;
    ++depth_;
    if (depth_ == 2) in_stack_ = key_ == "stack";
    return true;
  }
  bool end_array() override {
    if (--depth_ == 1) in_stack_ = false;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool in_frame() const { return in_stack_ && depth_ == 3; }
  bool is_number() const {
    return depth_ == 1 && std::ranges::any_of(numbers, [&](const auto& number) { return number.first == key_; });
  }
  bool other(std::string text) {
    if (depth_ == 1) line_.others.emplace_back(key_, std::move(text));
    return depth_ > 0;
  }

  Line& line_;
  std::size_t depth_ = 0;
  bool in_stack_ = false;
  std::string key_;  // of the object itself or of a frame
};

}  // namespace

bool parse(std::string_view text, Line& into) {
  into.op.clear();
  into.name.clear();
  into.metadata.clear();
  into.stack.clear();
  into.others.clear();
  for (const auto& [key, member] : numbers) into.*member = std::nullopt;
  Handler handler(into);
  return nlohmann::json::sax_parse(text.begin(), text.end(), &handler) && !into.op.empty();
}

}  // namespace memreel::pool_log
