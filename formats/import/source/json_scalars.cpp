#include "formats/import/source/json_scalars.h"

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "formats/import/source/json_characters.h"

namespace memreel {
namespace {

/// Tracks the path of the parser's position.
class PathKeeper final : public nlohmann::json_sax<nlohmann::json> {
 public:
  using ErrorOf = std::function<Error(const nlohmann::json::exception&)>;
  PathKeeper(JsonVisitor& visitor, ErrorOf error_of) : visitor_(visitor), error_of_(std::move(error_of)) {}

  bool null() override { return scalar({}); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(value); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(value); }
  bool number_float(number_float_t value, const string_t&) override { return scalar(value); }
  bool string(string_t& value) override { return scalar(std::string_view(value)); }
  bool binary(binary_t&) override { return false; }  // not in JSON

  bool start_object(std::size_t) override { return open(false); }
  bool key(string_t& value) override {
    path_.resize(before_.back());
    if (!path_.empty()) path_ += '.';
    path_ += value;
    return true;
  }
  bool end_object() override {
    path_.resize(before_.back());
    before_.pop_back();
    return keep(visitor_.end_object(path_));
  }
  bool start_array(std::size_t) override { return open(true); }
  bool end_array() override {
    before_.pop_back();
    path_.resize(path_.size() - in_list.size());
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& what) override {
    failed_ = error_of_(what);
    return false;
  }

  std::optional<Error> failed() const { return failed_; }

 private:
  static constexpr std::size_t deepest = 256;
  static constexpr std::string_view in_list = "[]";

  bool open(bool is_list) {
    if (before_.size() == deepest) {
      failed_ = Error{.what = "lists and objects nest more than " + std::to_string(deepest) + " deep",
                      .remedy = "the file is damaged: write it again"};
      return false;
    }
    if (is_list) path_ += in_list;
    before_.push_back(path_.size());
    return true;
  }
  bool scalar(const JsonScalar& value) { return keep(visitor_.scalar(path_, value)); }
  bool keep(const Result<void>& result) {
    if (!result) failed_ = result.error();
    return bool(result);
  }

  JsonVisitor& visitor_;
  ErrorOf error_of_;
  std::string path_;
  std::vector<std::size_t> before_;  // for each open container: length of the path before its members
  std::optional<Error> failed_;
};

}  // namespace

std::optional<std::uint64_t> as_unsigned(const JsonScalar& value) {
  if (const auto* const number = std::get_if<std::uint64_t>(&value)) return *number;
  return std::nullopt;
}

std::optional<std::int64_t> as_signed(const JsonScalar& value) {
  if (const auto* const number = std::get_if<std::int64_t>(&value)) return *number;
  const std::optional<std::uint64_t> number = as_unsigned(value);
  if (!number || *number > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::optional<double> as_number(const JsonScalar& value) {
  if (const auto* const number = std::get_if<double>(&value)) return *number;
  if (const auto number = as_signed(value)) return static_cast<double>(*number);
  if (const auto number = as_unsigned(value)) return static_cast<double>(*number);
  return std::nullopt;
}

std::string_view as_text(const JsonScalar& value) {
  const auto* const text = std::get_if<std::string_view>(&value);
  return text == nullptr ? std::string_view{} : *text;
}

Result<void> visit_json(ByteCursor& bytes, JsonVisitor& visitor) {
  PathKeeper keeper(visitor, [&](const nlohmann::json::exception& what) { return json_error(bytes, what); });
  nlohmann::json::sax_parse(JsonCharacters(bytes), JsonCharacters(), &keeper);
  if (bytes.failure()) return *bytes.failure();
  std::optional<Error> failed = keeper.failed();
  if (!failed) return {};
  if (failed->where.empty()) failed->where = bytes.where();
  if (!failed->offset) failed->offset = bytes.position();
  return *std::move(failed);
}

bool visit_json(std::string_view text, JsonVisitor& visitor) {
  PathKeeper keeper(visitor, [](const nlohmann::json::exception&) { return Error{.what = "not JSON"}; });
  return nlohmann::json::sax_parse(text.begin(), text.end(), &keeper) && !keeper.failed();
}

}  // namespace memreel
