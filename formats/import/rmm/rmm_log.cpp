// SPDX-License-Identifier: Apache-2.0
#include "formats/import/rmm/rmm_log.h"

#include <array>
#include <charconv>

#include "formats/model/flat_map.h"
#include "formats/model/value_check.h"

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

namespace {

/// The N of "log.devN.csv", else 0.
std::int32_t device_of(std::string_view file_name) {
  constexpr std::string_view mark = ".dev";
  const std::size_t found = file_name.rfind(mark);
  if (found == std::string_view::npos) return 0;
  std::int32_t device = 0;
  std::size_t at = found + mark.size();
  const std::size_t first = at;
  for (; at < file_name.size() && file_name[at] >= '0' && file_name[at] <= '9' && at - first < 4; ++at)
    device = device * 10 + (file_name[at] - '0');
  const bool ends = at == file_name.size() || file_name[at] == '.';
  return at > first && ends ? device : 0;
}

constexpr Nanoseconds day = std::chrono::hours(24);

/// Writes records as events.
class Recorder {
 public:
  Recorder(ImportOutput& writer, std::int32_t device)
      : writer_(writer),
        heap_(writer.intern(Heap{
            .name = writer.intern("rmm"), .level = Level::framework, .device = device, .observes_completion = false})) {
  }

  void add(const LogRecord& record) {
    const Nanoseconds time = clock_(record.time_of_day, day);
    if (record.action == Action::allocate_failure) {
      writer_.append({.kind = EventKind::alloc_failed, .origin = origin_of(record), .time = time, .size = record.size});
      return;
    }
    if (record.pointer == Address{}) return;  // nothing was requested, and nothing allocated
    Event event{.kind = EventKind::free_requested,
                .origin = origin_of(record),
                .time = time,
                .address = record.pointer,
                .size = record.size};
    if (record.action == Action::allocate) {
      if (writer_.end_unseen(event)) ++unseen_frees_;
      event.kind = EventKind::alloc;
    }
    writer_.append(event);
  }

  std::uint64_t unseen_frees() const { return unseen_frees_; }

 private:
  struct Key {
    std::uint64_t stream = 0, thread = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::uint64_t operator()(const Key& key) const { return mix_bits(key.stream ^ mix_bits(key.thread)); }
  };

  OriginId origin_of(const LogRecord& record) {
    const Key key{record.stream, record.thread};
    if (key == last_key_ && last_origin_ != OriginId::none) return last_origin_;
    last_key_ = key;
    const std::uint32_t known = origins_.find(key);
    if (known != absent) return last_origin_ = OriginId{known};
    Origin origin{.heap = heap_};
    if (record.stream != 0) origin.stream = writer_.intern(Stream{.handle = record.stream});
    if (record.thread != 0) origin.thread = writer_.intern(Thread{.tid = record.thread});
    last_origin_ = writer_.intern(origin);
    origins_.put(key, index(last_origin_));
    return last_origin_;
  }

  ImportOutput& writer_;
  HeapId heap_;
  RepeatingClock clock_;
  FlatMap<Key, KeyHash> origins_;
  Key last_key_;
  OriginId last_origin_ = OriginId::none;
  std::uint64_t unseen_frees_ = 0;
};

}  // namespace

bool looks_like_log(std::span<const std::byte> beginning) {
  return has_record(beginning, [](std::string_view line) {
    LogRecord record;
    return is_header(line) || parse(line, record) == nullptr;
  });
}

Result<void> import_log(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  header.source = "rmm.log";
  const std::int32_t device = device_of(header.source_name);
  ImportOutput& writer = begin(header);
  Recorder recorder(writer, device);
  const auto take = [&](std::string_view line, std::uint64_t /*number*/) -> LineComplaint {
    LogRecord record;
    const LineComplaint complaint = parse(line, record);
    if (complaint != nullptr) return is_header(line) ? not_a_record : complaint;
    recorder.add(record);
    return nullptr;
  };
  const Result<LineTally> tally = LogLines(bytes, take).read();
  if (!tally) return tally.error();
  constexpr auto remedy = "a log of RMM's logging_resource_adaptor has lines of Thread,Time,Action,Pointer,Size,Stream";
  if (Result<void> fine = judge(*tally, bytes.where(), remedy); !fine) return fine;
  writer.set_losses({.hook_refused = recorder.unseen_frees(), .unknown_actions = tally->skipped});
  return writer.finish();
}

namespace {

/// The texts between brackets at the start of a line, and where the last of them ends.
std::vector<std::string_view> bracketed(std::string_view line) {
  std::vector<std::string_view> parts;
  constexpr std::size_t most = 8;
  while (parts.size() < most) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (!line.starts_with('[')) break;
    const std::size_t end = line.find(']');
    if (end == std::string_view::npos) break;
    parts.push_back(line.substr(1, end - 1));
    line.remove_prefix(end + 1);
  }
  return parts;
}

std::optional<std::uint64_t> number_of_text(std::string_view text, int base = 10) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (problem != std::errc{} || end == text.data()) return std::nullopt;
  return number;
}

/// "09:18:05:831477".
std::optional<Nanoseconds> time_of_day(std::string_view text) {
  Cursor at(text);
  Nanoseconds time{};
  return at.time(time) && at.at_end() ? std::optional(time) : std::nullopt;
}

bool is_debug_line(std::string_view line) {
  const auto parts = bracketed(line);
  return parts.size() >= 3 && number_of_text(parts[0]) && time_of_day(parts[1]);
}

class DebugLogReader {
 public:
  explicit DebugLogReader(ImportOutput& writer)
      : writer_(writer),
        heap_(writer.intern(Heap{
            .name = writer.intern("rmm"), .level = Level::framework, .device = 0, .observes_completion = false})) {}

  LineComplaint add(std::string_view line) {
    const auto parts = bracketed(line);
    if (parts.size() < 3) return "it does not begin with [thread][time][level]";
    const auto thread = number_of_text(parts[0]);
    const auto said = time_of_day(parts[1]);
    if (!thread || !said) return "it does not begin with [thread][time][level]";
    const Nanoseconds time = clock_(*said, day);
    if (parts.size() < 6) return not_a_record;  // "RMM LOG BEGIN" and others
    Origin origin{.heap = heap_, .thread = writer_.intern(Thread{.tid = *thread})};
    std::string_view stream = parts[4];
    if (const std::size_t blank = stream.find(' '); blank != std::string_view::npos) stream.remove_prefix(blank);
    if (const auto handle = number_of_text(stream, 16); handle && *handle != 0)
      origin.stream = writer_.intern(Stream{.handle = *handle});
    const bool failed = parts[parts.size() - 1].find("FAILURE") != std::string_view::npos;
    std::string_view size_text = parts[5];
    if (size_text.starts_with("Upstream")) size_text.remove_prefix(8);
    const auto size = number_of_text(size_text);
    if (!size) return not_a_record;
    Event event{.kind = EventKind::alloc_failed,
                .origin = writer_.intern(origin),
                .time = time,
                .size = Bytes{as_request(*size)}};
    if (failed) {
      ++records_;
      // Without what the upstream resource said, which newer releases add, the same text stands for either of both
      // (pool_memory_resource.hpp, try_to_expand()): a maximum, which is optional, or a refusal of the device.
      if (parts.back().ends_with("maximum pool size exceeded")) event.value = refused_at_maximum;
      writer_.append(event);
      return nullptr;
    }
    const auto pointer = parts.size() > 6 ? number_of_text(parts[6], 16) : std::nullopt;
    if (!pointer || (parts[3] != "A" && parts[3] != "D")) return not_a_record;
    if (!is_possible(Address{*pointer}, Bytes{*size})) return "it has an address or a size that no device has";
    event.address = Address{*pointer};
    event.kind = parts[3] == "A" ? EventKind::alloc : EventKind::free_requested;
    tells_allocations_ = true;
    if (event.kind == EventKind::alloc) {
      if (total_.bytes() + event.size > max_total) return "the sizes add up to more than 2^62 bytes";
      total_ += event.size;
      if (writer_.end_unseen(event)) ++losses.hook_refused;
    }
    ++records_;
    writer_.append(event);
    return nullptr;
  }

  Losses losses;
  std::uint64_t records() const { return records_; }
  /// Below the level "trace", RMM logs failures only.
  bool tells_allocations() const { return tells_allocations_; }

 private:
  ImportOutput& writer_;
  HeapId heap_;
  RepeatingClock clock_;
  bool tells_allocations_ = false;
  TotalBytes total_;
  std::uint64_t records_ = 0;
};

}  // namespace

bool looks_like_debug_log(std::span<const std::byte> beginning) {
  return has_record(beginning, [](std::string_view line) {
    return is_debug_line(line) &&
           (line.find("RMM LOG BEGIN") != std::string_view::npos || line.find("][A][") != std::string_view::npos ||
            line.find(" [A][") != std::string_view::npos || line.find(" [D][") != std::string_view::npos);
  });
}

Result<void> import_debug_log(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  header.source = "rmm.debug";
  ImportOutput& writer = begin(header);
  DebugLogReader reader(writer);
  const Result<LineTally> tally =
      LogLines(bytes, [&](std::string_view line, std::uint64_t /*number*/) { return reader.add(line); }).read();
  if (!tally) return tally.error();
  if (reader.records() == 0)
    return Error{.what = "is RMM's debug log, and has neither allocations nor failures",
                 .where = bytes.where(),
                 .remedy = "record with rmm::mr::logging_resource_adaptor or rmm.enable_logging(), which write a CSV"};
  reader.losses.unknown_actions = tally->skipped;
  if (!reader.tells_allocations()) reader.losses.skipped = all_but_failures();
  writer.set_losses(reader.losses);
  return writer.finish();
}

}  // namespace memreel::rmm
