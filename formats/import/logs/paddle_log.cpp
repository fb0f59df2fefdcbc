// SPDX-License-Identifier: Apache-2.0
#include "formats/import/logs/logs.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "formats/import/source/log_lines.h"

namespace memreel::logs {
namespace {

enum class PaddleAction : std::uint8_t { request, alloc, free, chunk, chunk_freed };

struct PaddleRecord {
  PaddleAction action = PaddleAction::request;
  Nanoseconds time{};
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
  constexpr std::array<std::uint16_t, 12> days_before{0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335};
  if (line.rest.empty() || std::string_view("IWEF").find(line.rest[0]) == std::string_view::npos) return false;
  line.rest.remove_prefix(1);
  std::uint64_t month = 0, day = 0, hour = 0, minute = 0, second = 0, us = 0, year = 0;
  if (line.rest.find(' ') == 8 && !line.digits(4, year)) return false;
  if (!line.digits(2, month) || !line.digits(2, day) || !line.take(" ") || !line.digits(2, hour) || !line.take(":") ||
      !line.digits(2, minute) || !line.take(":") || !line.digits(2, second) || !line.take(".") || !line.digits(6, us))
    return false;
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60) return false;
  line.rest.remove_prefix(std::min(line.rest.find_first_not_of(' '), line.rest.size()));
  const std::uint64_t days = days_before[month - 1] + day - 1;
  record.time = std::chrono::hours(days * 24 + hour) + std::chrono::minutes(minute) + std::chrono::seconds(second) +
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

class PaddleRecorder {
 public:
  explicit PaddleRecorder(TraceWriter& writer) : writer_(writer) {}

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
                .time = record.time,
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

  TraceWriter& writer_;
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

Result<void> import_paddle_log(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                               const WriterOptions& options) {
  header.source = "paddle.log";
  TraceWriter writer(std::move(sink), header, options);
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
