#include "formats/import/rmm/log_line.h"

#include <array>
#include <chrono>

#include "formats/model/limits.h"

namespace memreel::rmm {
namespace {

/// The value of each character; more than 15 for non-digits.
constexpr auto hexadecimal_digits = [] {
  std::array<std::uint8_t, 256> digits{};
  digits.fill(255);
  for (std::uint8_t i = 0; i < 10; ++i) digits['0' + std::size_t{i}] = i;
  for (std::uint8_t i = 0; i < 6; ++i)
    digits['a' + std::size_t{i}] = digits['A' + std::size_t{i}] = static_cast<std::uint8_t>(10 + i);
  return digits;
}();

unsigned digit_of(char c) { return static_cast<unsigned>(static_cast<unsigned char>(c)) - '0'; }

/// Consumes a line piece by piece. A missing piece leaves the line unchanged.
class Cursor {
 public:
  explicit Cursor(std::string_view line) : at_(line.data()), end_(line.data() + line.size()) {}

  bool at_end() const { return at_ == end_; }

  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  bool take(std::string_view text) {
    if (static_cast<std::size_t>(end_ - at_) < text.size() || std::string_view(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }

  bool decimal(std::uint64_t& into) {
    constexpr std::ptrdiff_t most_digits = 19;  // never too large for 64 bits
    const char* at = at_;
    std::uint64_t value = 0;
    for (unsigned digit = 0; at != end_ && (digit = digit_of(*at)) < 10; ++at) value = value * 10 + digit;
    if (at == at_ || at - at_ > most_digits) return false;
    at_ = at;
    into = value;
    return true;
  }

  bool hexadecimal(std::uint64_t& into) {
    constexpr std::ptrdiff_t most_digits = 16;
    const char* at = at_;
    std::uint64_t value = 0;
    for (unsigned digit = 0; at != end_ && (digit = hexadecimal_digits[static_cast<unsigned char>(*at)]) < 16; ++at)
      value = value << 4U | digit;
    if (at == at_ || at - at_ > most_digits) return false;
    at_ = at;
    into = value;
    return true;
  }

  /// "15:47:02.841961"
  bool time(Nanoseconds& into) {
    constexpr std::size_t length = 15;
    if (static_cast<std::size_t>(end_ - at_) < length) return false;
    if (at_[2] != ':' || at_[5] != ':' || (at_[8] != '.' && at_[8] != ':')) return false;
    constexpr std::array<std::uint8_t, 12> places{0, 1, 3, 4, 6, 7, 9, 10, 11, 12, 13, 14};
    std::array<std::uint32_t, 12> digits{};
    bool all_digits = true;
    for (std::size_t i = 0; i < places.size(); ++i) {
      digits[i] = digit_of(at_[places[i]]);
      all_digits = all_digits && digits[i] < 10;
    }
    const auto two = [&](std::size_t i) { return digits[i] * 10 + digits[i + 1]; };
    if (!all_digits || two(0) > 23 || two(2) > 59 || two(4) > 60) return false;
    const std::uint64_t seconds = two(0) * 3600 + two(2) * 60 + two(4);
    const std::uint64_t micros = two(6) * 10000 + two(8) * 100 + two(10);
    into = std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1'000'000 + micros));
    at_ += length;
    return true;
  }

 private:
  const char* at_;
  const char* end_;
};

bool pointer(Cursor& line, std::uint64_t& into) {
  if (line.take("0x")) return line.hexadecimal(into);
  into = 0;
  return line.take("(nil)") || line.hexadecimal(into);
}

bool stream(Cursor& line, std::uint64_t& into) {
  if (line.take("0x")) return line.hexadecimal(into) && line.at_end();
  Cursor again = line;
  if (line.decimal(into) && line.at_end()) return true;
  line = again;
  into = 0;
  return (line.take("(nil)") || line.hexadecimal(into)) && line.at_end();
}

bool action(Cursor& line, Action& into) {
  if (line.take("free")) {
    into = Action::free;
    return true;
  }
  if (!line.take("allocate")) return false;
  into = line.take(" failure") ? Action::allocate_failure : Action::allocate;
  return true;
}

}  // namespace

LineComplaint parse(std::string_view line, LogRecord& record) {
  Cursor at(line);
  record.thread = 0;
  if (!at.time(record.time_of_day)) {
    if (!at.decimal(record.thread) || !at.take(',')) return "it does not begin with a thread or a time";
    if (!at.time(record.time_of_day)) return "the time is not HH:MM:SS.ffffff";
  }
  if (!at.take(',') || !action(at, record.action) || !at.take(','))
    return "the action is not allocate, free or allocate failure";
  if (!pointer(at, record.pointer.value) || !at.take(',')) return "the pointer is not a 64-bit hexadecimal number";
  if (!at.decimal(record.size.count) || !at.take(',')) return "the size is not a number of bytes";
  if (!stream(at, record.stream)) return "it does not end with a stream";
  if (record.action != Action::allocate_failure && !is_possible(record.pointer, record.size))
    return "it has an address or a size that no device has";
  return nullptr;
}

bool is_header(std::string_view line) {
  return line == "Thread,Time,Action,Pointer,Size,Stream" || line == "Time,Action,Pointer,Size,Stream";
}

}  // namespace memreel::rmm
