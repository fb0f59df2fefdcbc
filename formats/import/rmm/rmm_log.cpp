#include "formats/import/rmm/rmm_log.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "formats/import/rmm/log_line.h"
#include "formats/model/flat_map.h"

namespace memreel::rmm {
namespace {

/// Longer lines are no records and are not kept in memory.
constexpr std::size_t longest_line = std::size_t{64} << 10U;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

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

/// Puts times of day in a row: from one record to the next it is never more than half a day, forwards or (threads
/// overtake one another) backwards.
class Clock {
 public:
  Nanoseconds operator()(Nanoseconds time_of_day) {
    constexpr Nanoseconds day = std::chrono::hours(24);
    Nanoseconds time = day_ + time_of_day;
    if (latest_ && time < *latest_ - day / 2) {
      day_ += day;
      time += day;
    } else if (latest_ && time > *latest_ + day / 2 && day_ >= day) {
      time -= day;  // a record from before midnight
      return time;
    }
    latest_ = time;
    return time;
  }

 private:
  Nanoseconds day_{};
  std::optional<Nanoseconds> latest_;
};

/// Writes records as events.
class Recorder {
 public:
  Recorder(TraceWriter& writer, std::int32_t device)
      : writer_(writer),
        heap_(writer.intern(Heap{
            .name = writer.intern("rmm"), .level = Level::framework, .device = device, .observes_completion = false})) {
  }

  void add(const LogRecord& record) {
    const Nanoseconds time = clock_(record.time_of_day);
    if (record.action == Action::allocate_failure) {
      writer_.append({.kind = EventKind::alloc_failed, .origin = origin_of(record), .time = time, .size = record.size});
      return;
    }
    if (record.pointer == Address{}) return;  // nothing was asked for, and nothing given
    Event event{.kind = EventKind::free_requested,
                .origin = origin_of(record),
                .time = time,
                .address = record.pointer,
                .size = record.size};
    if (record.action == Action::allocate) {
      if (const AllocationId before = writer_.live_at(heap_, record.pointer); before != AllocationId::none) {
        ++unseen_frees_;
        writer_.append({.kind = EventKind::free_requested, .origin = event.origin, .allocation = before, .time = time});
      }
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

  TraceWriter& writer_;
  HeapId heap_;
  Clock clock_;
  FlatMap<Key, KeyHash> origins_;
  Key last_key_;
  OriginId last_origin_ = OriginId::none;
  std::uint64_t unseen_frees_ = 0;
};

/// What came of the lines of a log.
struct Tally {
  std::uint64_t lines = 0, records = 0, skipped = 0;
  /// The first that was skipped.
  std::uint64_t bad_line = 0, bad_offset = 0;
  Complaint complaint = nullptr;

  void skip(std::uint64_t offset, Complaint why) {
    if (skipped++ > 0) return;
    bad_line = lines;
    bad_offset = offset;
    complaint = why;
  }
};

class LogReader {
 public:
  LogReader(ByteCursor& bytes, Recorder& recorder) : bytes_(bytes), recorder_(recorder) {}

  Result<Tally> read() {
    for (;;) {
      const std::string_view ahead = as_text(bytes_.peek(longest_line));
      if (ahead.empty()) break;
      const std::size_t end = ahead.rfind('\n');
      if (end != std::string_view::npos) {
        read_lines(ahead.substr(0, end + 1));
        bytes_.take(end + 1);
      } else if (ahead.size() < longest_line) {
        read_line(ahead, bytes_.position());
        bytes_.take(ahead.size());
      } else {
        skip_long_line();
      }
    }
    if (bytes_.failure()) return *bytes_.failure();
    return tally_;
  }

 private:
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
    LogRecord record;
    const Complaint complaint = parse(line, record);
    if (complaint == nullptr) [[likely]] {
      ++tally_.records;
      recorder_.add(record);
    } else if (!line.empty() && !is_header(line)) {
      tally_.skip(offset, complaint);
    }
  }

  void skip_long_line() {
    ++tally_.lines;
    tally_.skip(bytes_.position(), "it is longer than any record");
    for (;;) {
      const std::string_view ahead = as_text(bytes_.peek(longest_line));
      const std::size_t end = ahead.find('\n');
      bytes_.take(end == std::string_view::npos ? ahead.size() : end + 1);
      if (end != std::string_view::npos || ahead.empty()) return;
    }
  }

  ByteCursor& bytes_;
  Recorder& recorder_;
  Tally tally_;
};

Result<void> judge(const Tally& tally, const std::string& where) {
  constexpr auto remedy = "a log of RMM's logging_resource_adaptor has lines of Thread,Time,Action,Pointer,Size,Stream";
  if (tally.skipped > tally.records)
    return Error{.what = std::to_string(tally.skipped) + " of " + std::to_string(tally.lines) +
                         " lines are not records; the first is line " + std::to_string(tally.bad_line) + ": " +
                         tally.complaint,
                 .where = where,
                 .offset = tally.bad_offset,
                 .remedy = remedy};
  if (tally.records == 0)
    return Error{.what = "the log has no records",
                 .where = where,
                 .remedy = "log again, and flush the log before the program ends"};
  return {};
}

}  // namespace

bool looks_like_log(std::span<const std::byte> beginning) {
  std::string_view text = as_text(beginning);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    LogRecord record;
    if (is_header(line) || parse(line, record) == nullptr) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

Result<void> import_log(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                        const WriterOptions& options) {
  header.source = "rmm.log";
  const std::int32_t device = device_of(header.source_name);
  TraceWriter writer(std::move(sink), header, options);
  Recorder recorder(writer, device);
  const Result<Tally> tally = LogReader(bytes, recorder).read();
  if (!tally) return tally.error();
  if (Result<void> fine = judge(*tally, bytes.where()); !fine) return fine;
  writer.set_losses({.hook_refused = recorder.unseen_frees(), .unknown_actions = tally->skipped});
  return writer.finish();
}

}  // namespace memreel::rmm
