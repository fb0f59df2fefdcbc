// SPDX-License-Identifier: Apache-2.0
// Reads a log in which other output may be mixed with the records.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "formats/import/source/bytes.h"
#include "formats/model/printable.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

// Reads a text line by line.

class Lines {
 public:
  static constexpr std::size_t longest = std::size_t{1} << 16U;  // bytes

  explicit Lines(ByteCursor& bytes) : bytes_(bytes) {}

  /// False at the end, and if the line is too long or the file can't be read.
  bool next() {
    line_.clear();
    ++number_;
    ended_ = false;
    bool any = false;
    for (auto byte = bytes_.take(1); !byte.empty(); byte = bytes_.take(1)) {
      any = true;
      const auto character = std::to_integer<char>(byte[0]);
      if (character == '\n') return ended_ = true;
      if (line_.size() == longest) return !(too_long_ = true);
      line_ += character;
    }
    return any;
  }

  /// Without its line ending. Valid until the next call.
  std::string_view text() const { return line_; }
  /// From 1.
  std::uint64_t number() const { return number_; }
  /// Whether the line has a line ending: the last one of a truncated file does not.
  bool ended() const { return ended_; }
  bool too_long() const { return too_long_; }

 private:
  ByteCursor& bytes_;
  std::string line_;
  std::uint64_t number_ = 0;
  bool ended_ = false, too_long_ = false;
};

/// Makes times that begin anew each day, or year, continuous: consecutive ones are never more than half a `period`
/// apart, forwards or (as threads overtake one another) backwards.
class RepeatingClock {
 public:
  Nanoseconds operator()(Nanoseconds since_begin, Nanoseconds period) {
    Nanoseconds time = begin_ + since_begin;
    if (latest_ && time < *latest_ - period / 2 && begin_ < longest) {
      begin_ += period;
      time += period;
    } else if (latest_ && time > *latest_ + period / 2 && begin_ >= period) {
      return time - period;  // from before the latest beginning
    }
    latest_ = time;
    return time;
  }

 private:
  static constexpr Nanoseconds longest = std::chrono::hours(24) * 365 * 100;  // a trace has 146 years

  Nanoseconds begin_{};  // of the day, or year
  std::optional<Nanoseconds> latest_;
};

/// Why a line is not a record: "the time is not HH:MM:SS.ffffff". Null: it is one.
using LineComplaint = const char*;

/// For a line that is legitimately not a record. Recognised by being empty.
inline constexpr LineComplaint not_a_record = "";

/// The outcome for the lines of a log.
struct LineTally {
  std::uint64_t lines = 0, records = 0, skipped = 0;
  /// The first skipped line.
  std::uint64_t bad_line = 0, bad_offset = 0;
  LineComplaint complaint = nullptr;

  void count(LineComplaint said, std::uint64_t offset) {
    if (said == nullptr) {
      ++records;
    } else if (*said != '\0' && skipped++ == 0) {
      bad_line = lines;
      bad_offset = offset;
      complaint = said;
    }
  }
};

/// An error if there are no records, or more than half of the lines were skipped: then the file is something else.
/// `remedy`: what lines of such a log look like.
Result<void> judge(const LineTally& tally, const std::string& where, const std::string& remedy);

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// For what is not text, or a line that never ends.
inline Error no_log(std::string what, const std::string& where, std::uint64_t offset) {
  return {.what = std::move(what), .where = where, .offset = offset, .remedy = "give the log itself"};
}

/// Passes each line without its line ending to `take`, with its number from 1; `take` returns what is wrong with it.
/// Lines longer than 64 KiB are not records and are not kept in memory. Errors: the bytes can't be read, or before the
/// first record there is something that no log has.
template <class Take>
class LogLines {
 public:
  LogLines(ByteCursor& bytes, Take take) : bytes_(bytes), take_(std::move(take)) {}

  Result<LineTally> read() {
    for (;;) {
      const std::string_view ahead = text_of(bytes_.peek(longest));
      if (ahead.empty()) break;
      if (tally_.records == 0 && is_binary(ahead)) return no_log("is not text", bytes_.where(), bytes_.position());
      const std::size_t end = ahead.rfind('\n');
      if (end != std::string_view::npos) {
        read_lines(ahead.substr(0, end + 1));
        bytes_.take(end + 1);
      } else if (ahead.size() < longest) {
        read_line(ahead, bytes_.position());
        bytes_.take(ahead.size());
      } else if (const std::uint64_t begin = bytes_.position(); !skip_long_line()) {
        return no_log("this line is longer than 256 MiB", bytes_.where(), begin);
      }
    }
    if (bytes_.failure()) return *bytes_.failure();
    return tally_;
  }

 private:
  static constexpr std::size_t longest = std::size_t{64} << 10U;
  static constexpr std::uint64_t longest_skipped = std::uint64_t{256} << 20U;

  void read_lines(std::string_view text) {
    const std::uint64_t offset = bytes_.position();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      read_line(text.substr(at, end - at), offset + at);
      at = end + 1;
    }
  }

  void read_line(std::string_view line, std::uint64_t offset) {
    ++tally_.lines;
    if (line.ends_with('\r')) line.remove_suffix(1);
    tally_.count(line.empty() ? not_a_record : take_(line, tally_.lines), offset);
  }

  /// False if it is not a line.
  bool skip_long_line() {
    const std::uint64_t begin = bytes_.position();
    ++tally_.lines;
    tally_.count("it is longer than any record", begin);
    while (bytes_.position() - begin <= longest_skipped) {
      const std::string_view ahead = text_of(bytes_.peek(longest));
      const std::size_t end = ahead.find('\n');
      bytes_.take(end == std::string_view::npos ? ahead.size() : end + 1);
      if (end != std::string_view::npos || ahead.empty()) return true;
    }
    return false;
  }

  ByteCursor& bytes_;
  Take take_;
  LineTally tally_;
};

/// For format detection: passes each of a file's first lines to `is_record` until it returns true.
template <class IsRecord>
bool has_record(std::span<const std::byte> beginning, IsRecord is_record) {
  std::string_view text = text_of(beginning);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (is_record(line)) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

}  // namespace memreel
