// SPDX-License-Identifier: Apache-2.0
#include "formats/import/source/json_values.h"

#include <functional>
#include <limits>
#include <vector>

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

namespace {

/// Builds values from the parser's events.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(const ByteCursor& bytes, ValueArena& arena, DocumentSink& sink) : bytes_(bytes), arena_(arena), sink_(sink) {}

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add(ValueArena::boolean(value)); }
  bool number_integer(number_integer_t value) override { return add(arena_.integer(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(arena_.integer(value)); }
  bool number_float(number_float_t value, const string_t&) override { return add(arena_.number(value)); }
  bool string(string_t& value) override { return add(text(value)); }
  bool binary(binary_t&) override { return false; }  // not in JSON
  bool key(string_t& value) override {
    const Value name = text(value);
    const Value container = open_.back().container;
    return (!arena_.full() && arena_.append(container, std::span(&name, 1))) || fail_too_large();
  }
  bool start_object(std::size_t) override { return open(ValueKind::dict); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(ValueKind::list); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& what) override {
    failed_ = json_error(bytes_, what);
    return false;
  }

  Result<Value> result() const {
    if (bytes_.failure()) return *bytes_.failure();
    if (failed_) return *failed_;
    return root_;
  }

 private:
  struct Open {
    Value container;
    ValueArena::Extent before;           // before the container was made
    std::optional<std::size_t> streams;  // which list the sink takes its items as, if it does
  };

  Value text(const std::string& value) {
    arena_.begin_text();
    if (arena_.full()) return {};
    arena_.add_text(std::as_bytes(std::span(value)));
    return arena_.end_text();
  }

  bool open(ValueKind kind) {
    if (open_.size() == deepest) {
      failed_ = Error{.what = "lists and objects nest more than " + std::to_string(deepest) + " deep",
                      .where = bytes_.where(),
                      .offset = bytes_.position(),
                      .remedy = "memreel reads what torch.cuda.memory._snapshot returns"};
      return false;
    }
    Open container{.before = arena_.extent()};
    container.container = arena_.make(kind);
    if (kind == ValueKind::list) container.streams = streamed_as();
    open_.push_back(container);
    return !arena_.full() || fail_too_large();
  }

  bool close() {
    const Open closed = open_.back();
    open_.pop_back();
    return add(closed.container, closed.before);
  }

  bool add(Value value) { return add(value, std::nullopt); }

  /// Stores a finished value where it belongs: the root, a container, or the sink; after the sink, what was made since
  /// `before` is discarded.
  bool add(Value value, std::optional<ValueArena::Extent> before) {
    if (arena_.full()) return fail_too_large();
    if (open_.empty()) {
      root_ = value;
      return true;
    }
    const Open& into = open_.back();
    if (!into.streams) return arena_.append(into.container, std::span(&value, 1)) || fail_too_large();
    const Result<void> taken = sink_.take(*into.streams, into.container, std::span(&value, 1));
    if (!taken) {
      failed_ = taken.error();
      if (failed_->where.empty()) failed_->where = bytes_.where();
      return false;
    }
    if (before) arena_.truncate(*before);
    return true;
  }

  /// If the list that begins here is root[streamed_key()][i]: i.
  std::optional<std::size_t> streamed_as() const {
    if (open_.size() != 2 || !arena_.is(open_[0].container, ValueKind::dict) ||
        !arena_.is(open_[1].container, ValueKind::list))
      return std::nullopt;
    const Value key = arena_.items(open_[0].container).back();
    if (arena_.text(key) != sink_.streamed_key()) return std::nullopt;
    return arena_.items(open_[1].container).size();
  }

  bool fail_too_large() {
    failed_ = arena_.too_large(bytes_.where(), bytes_.position());
    return false;
  }

  static constexpr std::size_t deepest = 256;

  const ByteCursor& bytes_;
  ValueArena& arena_;
  DocumentSink& sink_;
  std::vector<Open> open_;
  Value root_;
  std::optional<Error> failed_;
};

}  // namespace

bool looks_like_json(std::span<const std::byte> beginning) {
  const std::string_view text(reinterpret_cast<const char*>(beginning.data()), beginning.size());
  const std::size_t first = text.find_first_not_of(json_white_space);
  if (first == std::string_view::npos || (text[first] != '{' && text[first] != '[')) return false;
  const std::size_t second = text.find_first_not_of(json_white_space, first + 1);
  // Pickles of protocol 0 and 1 may begin with an opening bracket too.
  return second == std::string_view::npos ||
         std::string_view("{[]}\"-0123456789tfn").find(text[second]) != std::string_view::npos;
}

Result<Value> parse_json(ByteCursor& bytes, ValueArena& arena, DocumentSink& sink) {
  Builder builder(bytes, arena, sink);
  nlohmann::json::sax_parse(JsonCharacters(bytes), JsonCharacters(), &builder);
  return builder.result();
}

}  // namespace memreel
