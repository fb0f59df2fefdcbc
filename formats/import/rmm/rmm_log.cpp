#include "formats/import/rmm/rmm_log.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "formats/import/rmm/log_line.h"
#include "formats/import/source/log_lines.h"
#include "formats/model/flat_map.h"

namespace memreel::rmm {
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

/// Makes times of day continuous: consecutive records are never more than half a day apart, forwards or (as threads
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
    if (record.pointer == Address{}) return;  // nothing was requested, and nothing allocated
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

}  // namespace

bool looks_like_log(std::span<const std::byte> beginning) {
  return has_record(beginning, [](std::string_view line) {
    LogRecord record;
    return is_header(line) || parse(line, record) == nullptr;
  });
}

Result<void> import_log(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                        const WriterOptions& options) {
  header.source = "rmm.log";
  const std::int32_t device = device_of(header.source_name);
  TraceWriter writer(std::move(sink), header, options);
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

}  // namespace memreel::rmm
