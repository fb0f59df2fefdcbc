// SPDX-License-Identifier: Apache-2.0
#include "formats/import/logs/logs.h"

#include <array>
#include <charconv>
#include <unordered_map>

#include "formats/import/source/json_values.h"
#include "formats/model/value_check.h"

namespace memreel::logs {

LoggedPool::LoggedPool(ImportOutput& writer, std::string_view name, std::int32_t device)
    : writer_(writer),
      heap_(writer.intern(Heap{
          .name = writer.intern(name), .level = Level::framework, .device = device, .observes_completion = false})) {}

LineComplaint LoggedPool::allocate(Event event, Losses& losses) {
  if (const LineComplaint complaint = check(event)) return complaint;
  if (writer_.end_unseen(event)) {
    ++losses.hook_refused;
    count_live(event.address, false);
  }
  event.kind = EventKind::alloc;
  writer_.append(event);
  count_live(event.address, true);
  return nullptr;
}

LineComplaint LoggedPool::free(Event event) {
  if (!is_possible(event.address, event.size)) return "it has an address or a size that no device has";
  const bool is_live = writer_.live_at(heap_, event.address) != AllocationId::none;
  event.kind = EventKind::free_requested;
  writer_.append(event);
  if (is_live) count_live(event.address, false);
  return nullptr;
}

LineComplaint LoggedPool::add_segment(Event event, Losses& losses) {
  if (event.size == 0_B) return nullptr;
  if (const LineComplaint complaint = check(event)) return complaint;
  // Older segments still there were freed without a record.
  auto older = segments_.lower_bound(event.address);
  if (older != segments_.begin() && event.address < std::prev(older)->first + std::prev(older)->second.size) --older;
  while (older != segments_.end() && older->first < event.address + event.size) {
    ++losses.hook_refused;
    give_back(older++, event);
  }
  const Segment segment{.size = event.size, .number = next_number_++};
  segments_[event.address] = segment;
  idle_.insert({event.size, {segment.number, event.address}});
  event.kind = EventKind::segment_alloc;
  writer_.append(event);
  return nullptr;
}

bool LoggedPool::remove_idle_segment(Event event) {
  const auto found = idle_.lower_bound({event.size, {0, Address{}}});
  if (found == idle_.end() || found->first != event.size) return false;
  give_back(segments_.find(found->second.second), event);
  return true;
}

void LoggedPool::give_back(Segments::iterator segment, Event event) {
  event.kind = EventKind::segment_free;
  event.stack = StackId::none;
  event.address = segment->first;
  event.size = segment->second.size;
  writer_.append(event);
  idle_.erase({segment->second.size, {segment->second.number, segment->first}});
  segments_.erase(segment);
}

LoggedPool::Segments::iterator LoggedPool::segment_of(Address address) {
  auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return segments_.end();
  --after;
  return address < after->first + after->second.size ? after : segments_.end();
}

void LoggedPool::count_live(Address address, bool more) {
  const auto segment = segment_of(address);
  if (segment == segments_.end()) return;
  std::uint64_t& live = segment->second.live;
  if (!more && live == 0) return;
  const std::pair key{segment->second.size, std::pair{segment->second.number, segment->first}};
  if (more && live == 0) idle_.erase(key);
  live += more ? 1 : std::uint64_t(-1);
  if (live == 0) idle_.insert(key);
}

LineComplaint LoggedPool::check(const Event& event) {
  if (!is_possible(event.address, event.size)) return "it has an address or a size that no device has";
  if (total_.bytes() + event.size > max_total) return "the sizes add up to more than 2^62 bytes";
  total_ += event.size;
  return nullptr;
}

namespace {

constexpr std::uint64_t cupy_device_limit = 1'000;

struct CupyRecord {
  std::string hook;
  std::optional<std::uint64_t> device, requested, size, address;
};

class CupyLine final : public JsonVisitor {
 public:
  explicit CupyLine(CupyRecord& record) : record_(record) {}

  Result<void> scalar(std::string_view path, const JsonScalar& value) override {
    if (path == "hook") record_.hook = as_text(value);
    if (path == "device_id") record_.device = as_unsigned(value);
    if (path == "size") record_.requested = as_unsigned(value);
    if (path == "mem_size") record_.size = as_unsigned(value);
    if (path == "mem_ptr") record_.address = as_unsigned(value);
    return {};
  }
  Result<void> end_object(std::string_view) override { return {}; }

 private:
  CupyRecord& record_;
};

LineComplaint parse_cupy(std::string_view line, CupyRecord& record) {
  record = {};
  CupyLine visitor(record);
  if (!line.starts_with('{') || !visit_json(line, visitor) || record.hook.empty())
    return "it is not a JSON object with a \"hook\"";
  if (record.hook != "alloc" && record.hook != "malloc" && record.hook != "free") return "its hook is unknown";
  if (!record.device || !record.size || !record.address || (record.hook == "malloc" && !record.requested))
    return "it lacks its device, a size or its address";
  return *record.device >= cupy_device_limit ? "its device number is out of range" : nullptr;
}

class CupyRecorder {
 public:
  explicit CupyRecorder(ImportOutput& writer) : writer_(writer) {}

  LineComplaint add(std::string_view line, std::uint64_t number) {
    if (const LineComplaint complaint = parse_cupy(line, record_)) return complaint;
    if (*record_.address == 0) return nullptr;  // nothing was requested, and nothing allocated
    LoggedPool& pool = pool_of(static_cast<std::int32_t>(*record_.device), Nanoseconds(number));
    const Event event{.origin = writer_.intern(Origin{.heap = pool.heap()}),
                      .time = Nanoseconds(number),
                      .address = Address{*record_.address},
                      .size = Bytes{record_.requested.value_or(*record_.size)}};
    if (record_.hook == "alloc") return pool.add_segment(event, losses);
    return record_.hook == "malloc" ? pool.allocate(event, losses) : pool.free(event);
  }

  Losses losses;

 private:
  LoggedPool& pool_of(std::int32_t device, Nanoseconds time) {
    const auto [pool, is_new] = pools_.try_emplace(device, writer_, "cupy", device);
    if (is_new) {
      const Settings settings{.entries = {{writer_.intern("kind"), writer_.intern("cupy.pool")}}};
      writer_.append({.kind = EventKind::settings,
                      .origin = writer_.intern(Origin{.heap = pool->second.heap()}),
                      .time = time,
                      .value = index(writer_.intern(settings))});
    }
    return pool->second;
  }

  ImportOutput& writer_;
  std::map<std::int32_t, LoggedPool> pools_;  // by device
  CupyRecord record_;
};

}  // namespace

bool looks_like_cupy_log(std::span<const std::byte> beginning) {
  return has_record(beginning, [](std::string_view line) {
    CupyRecord record;
    return parse_cupy(line, record) == nullptr;
  });
}

Result<void> import_cupy_log(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  header.source = "cupy.jsonl";
  ImportOutput& writer = begin(header);
  CupyRecorder recorder(writer);
  const auto take = [&](std::string_view line, std::uint64_t number) { return recorder.add(line, number); };
  const Result<LineTally> tally = LogLines(bytes, take).read();
  if (!tally) return tally.error();
  constexpr auto remedy =
      R"(a log of CuPy's DebugPrintHook has lines such as {"hook":"malloc","device_id":0,"size":24,"mem_size":512,...})";
  if (Result<void> fine = judge(*tally, bytes.where(), remedy); !fine) return fine;
  recorder.losses.unknown_actions = tally->skipped;
  writer.set_losses(recorder.losses);
  return writer.finish();
}

namespace {

enum class PaddleAction : std::uint8_t { request, alloc, free, chunk, chunk_freed };

struct PaddleRecord {
  PaddleAction action = PaddleAction::request;
  unsigned year = 0;  // 0: not said
  unsigned month = 0, day = 0;
  Nanoseconds time_of_day{};
  std::uint64_t thread = 0;
  std::uint64_t size = 0;
  std::uint64_t aligned = 0;  // of a request
  std::uint64_t address = 0;
  std::int32_t device = 0;
};

/// Consumes a line piece by piece.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest(text) {}

  bool take(std::string_view word) {
    if (!rest.starts_with(word)) return false;
    rest.remove_prefix(word.size());
    return true;
  }
  template <class Number>
  bool number(Number& into, int base = 10) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), into, base);
    if (error != std::errc{}) return false;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return true;
  }
  /// Exactly `count` digits.
  bool digits(std::size_t count, std::uint64_t& into) {
    if (rest.size() < count || rest.substr(0, count).find_first_not_of("0123456789") != std::string_view::npos)
      return false;
    std::from_chars(rest.data(), rest.data() + count, into);
    rest.remove_prefix(count);
    return true;
  }

  std::string_view rest;
};

/// "I1207 23:45:28.132863 2778380 ", or with a year, "I20231207 ".
bool take_prefix(Scanner& line, PaddleRecord& record) {
  if (line.rest.empty() || std::string_view("IWEF").find(line.rest[0]) == std::string_view::npos) return false;
  line.rest.remove_prefix(1);
  std::uint64_t month = 0, day = 0, hour = 0, minute = 0, second = 0, us = 0, year = 0;
  const bool says_year = line.rest.find(' ') == 8;
  if (says_year && (!line.digits(4, year) || year < 1970 || year > 2099)) return false;
  if (!line.digits(2, month) || !line.digits(2, day) || !line.take(" ") || !line.digits(2, hour) || !line.take(":") ||
      !line.digits(2, minute) || !line.take(":") || !line.digits(2, second) || !line.take(".") || !line.digits(6, us))
    return false;
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60) return false;
  record.year = static_cast<unsigned>(year);
  record.month = static_cast<unsigned>(month);
  record.day = static_cast<unsigned>(day);
  line.rest.remove_prefix(std::min(line.rest.find_first_not_of(' '), line.rest.size()));
  record.time_of_day = std::chrono::hours(hour) + std::chrono::minutes(minute) + std::chrono::seconds(second) +
                       std::chrono::microseconds(us);
  return line.number(record.thread);
}

/// "place=Place(gpu:1)" at the end; false if it is not a GPU.
bool take_place(std::string_view line, PaddleRecord& record) {
  constexpr std::string_view place = "place=Place(";
  const std::size_t at = line.rfind(place);
  if (at == std::string_view::npos) return true;
  Scanner scanner(line.substr(at + place.size()));
  constexpr std::int32_t most_devices = 1'000;
  return scanner.take("gpu:") && scanner.number(record.device) && record.device >= 0 && record.device < most_devices;
}

/// Finds the start of the allocator's message; the allocator may name itself before: "Allocator instance: 0x... Alloc".
bool find_words(Scanner& line) {
  const std::size_t end = line.rest.find("] ");
  if (end == std::string_view::npos) return false;
  line.rest.remove_prefix(end + 2);
  if (!line.take("Allocator instance: ")) return true;
  const std::size_t space = line.rest.find(' ');
  if (space == std::string_view::npos) return false;
  line.rest.remove_prefix(space + 1);
  return true;
}

/// What is wrong with one of its own lines; for all others, that they are not records.
LineComplaint parse_paddle(std::string_view text, PaddleRecord& record) {
  record = {};
  Scanner line(text);
  if (!take_prefix(line, record) || !find_words(line)) return not_a_record;
  constexpr LineComplaint cut = "it does not end like the allocator's lines";
  const std::string_view words = line.rest;
  if (line.take("Alloc ") || line.take("Free ")) {
    if (words.starts_with("Free chunk with size ")) {
      record.action = PaddleAction::chunk_freed;
      line.rest = words;
      line.take("Free chunk with size ");
      return line.number(record.size) ? nullptr : cut;
    }
    record.action = words.starts_with("Alloc") ? PaddleAction::alloc : PaddleAction::free;
    if (!line.number(record.size)) return not_a_record;
    if (!line.take(" bytes, ptr = 0x") || !line.number(record.address, 16)) return cut;
    return take_place(line.rest, record) ? nullptr : not_a_record;
  }
  if (line.take("Allocate ")) {
    record.action = PaddleAction::request;
    if (!line.number(record.size) || !line.take(" bytes, aligned to ")) return not_a_record;  // "from chunk size"
    return line.number(record.aligned) ? nullptr : cut;
  }
  if (line.take("Not found and reallocate ")) {
    record.action = PaddleAction::chunk;
    const bool whole = line.number(record.size) && line.take("(0x") && line.number(record.address, 16);
    if (!whole) return cut;
    return take_place(line.rest, record) ? nullptr : not_a_record;
  }
  return not_a_record;
}

/// The days of a log from the beginning of its first year. Where no year is said, it has no 29th of February until one
/// comes.
class Calendar {
 public:
  Nanoseconds operator()(const PaddleRecord& record) {
    namespace time = std::chrono;
    const time::month month(record.month);
    const time::day day(record.day);
    if (month == time::February && record.day == 29) is_leap_ = true;
    const time::year year(record.year != 0 ? static_cast<int>(record.year) : is_leap_ ? 2000 : 2001);
    const time::days since_new_year = time::sys_days(year / month / day) - time::sys_days(year / 1 / 1);
    if (record.year == 0) return clock_(since_new_year + record.time_of_day, time::days(is_leap_ ? 366 : 365));
    if (first_ == 0) first_ = record.year;
    const time::days years =
        time::sys_days(year / 1 / 1) - time::sys_days(time::year(static_cast<int>(first_)) / 1 / 1);
    return years + since_new_year + record.time_of_day;
  }

 private:
  unsigned first_ = 0;  // year
  bool is_leap_ = false;
  RepeatingClock clock_;
};

class PaddleRecorder {
 public:
  explicit PaddleRecorder(ImportOutput& writer) : writer_(writer) {}

  LineComplaint add(std::string_view line) {
    PaddleRecord record;
    if (const LineComplaint complaint = parse_paddle(line, record)) return complaint;
    if (record.action == PaddleAction::request) {
      requests_[record.thread] = {record.size, record.aligned};
      return nullptr;
    }
    LoggedPool& pool = pools_.try_emplace(record.device, writer_, "paddle", record.device).first->second;
    const Origin origin{.heap = pool.heap(), .thread = writer_.intern(Thread{.tid = record.thread})};
    Event event{.origin = writer_.intern(origin),
                .time = calendar_(record),
                .address = Address{record.address},
                .size = Bytes{record.size}};
    switch (record.action) {
      case PaddleAction::chunk:
        return pool.add_segment(event, losses);
      case PaddleAction::free:
        return pool.free(event);
      case PaddleAction::chunk_freed:
        if (!pool.remove_idle_segment(event)) ++losses.unknown_actions;
        return nullptr;
      default:
        event.size = requested(record);
        return pool.allocate(event, losses);
    }
  }

  Losses losses;

 private:
  struct Request {
    std::uint64_t size = 0, aligned = 0;
  };

  Bytes requested(const PaddleRecord& record) {
    const auto said = requests_.find(record.thread);
    const bool fits = said != requests_.end() && said->second.aligned == record.size &&
                      said->second.size <= record.size && said->second.size > 0;
    return Bytes{fits ? said->second.size : record.size};
  }

  ImportOutput& writer_;
  Calendar calendar_;
  std::map<std::int32_t, LoggedPool> pools_;             // by device
  std::unordered_map<std::uint64_t, Request> requests_;  // the last of each thread
};

}  // namespace

bool looks_like_paddle_log(std::span<const std::byte> beginning) {
  return has_record(beginning, [](std::string_view line) {
    PaddleRecord record;
    return parse_paddle(line, record) == nullptr;
  });
}

Result<void> import_paddle_log(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  header.source = "paddle.log";
  ImportOutput& writer = begin(header);
  PaddleRecorder recorder(writer);
  const auto take = [&](std::string_view line, std::uint64_t /*number*/) { return recorder.add(line); };
  const Result<LineTally> tally = LogLines(bytes, take).read();
  if (!tally) return tally.error();
  constexpr auto remedy =
      "log with GLOG_v=10; the allocator's lines end with \"] Alloc 256 bytes, ptr = 0x7fa263e00400\"";
  if (Result<void> fine = judge(*tally, bytes.where(), remedy); !fine) return fine;
  recorder.losses.unknown_actions += tally->skipped;
  writer.set_losses(recorder.losses);
  return writer.finish();
}

}  // namespace memreel::logs
