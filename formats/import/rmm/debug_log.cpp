#include "formats/import/rmm/debug_log.h"

#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/import/source/log_lines.h"
#include "formats/model/limits.h"
#include "formats/model/total_bytes.h"

namespace memreel::rmm {
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
  if (text.size() != 15 || text[2] != ':' || text[5] != ':' || (text[8] != ':' && text[8] != '.')) return std::nullopt;
  const auto hours = number_of_text(text.substr(0, 2)), minutes = number_of_text(text.substr(3, 2)),
             seconds = number_of_text(text.substr(6, 2)), micros = number_of_text(text.substr(9));
  if (!hours || !minutes || !seconds || !micros || *hours > 23 || *minutes > 59 || *seconds > 60) return std::nullopt;
  return std::chrono::hours(*hours) + std::chrono::minutes(*minutes) + std::chrono::seconds(*seconds) +
         std::chrono::microseconds(*micros);
}

bool is_debug_line(std::string_view line) {
  const auto parts = bracketed(line);
  return parts.size() >= 3 && number_of_text(parts[0]) && time_of_day(parts[1]);
}

class DebugLogReader {
 public:
  explicit DebugLogReader(TraceWriter& writer)
      : writer_(writer),
        heap_(writer.intern(Heap{
            .name = writer.intern("rmm"), .level = Level::framework, .device = 0, .observes_completion = false})) {}

  LineComplaint add(std::string_view line) {
    const auto parts = bracketed(line);
    if (parts.size() < 3) return "it does not begin with [thread][time][level]";
    const auto thread = number_of_text(parts[0]);
    const auto time = time_of_day(parts[1]);
    if (!thread || !time) return "it does not begin with [thread][time][level]";
    // From one day to the next.
    if (*time + day_ < latest_ - std::chrono::hours(12)) day_ += std::chrono::hours(24);
    latest_ = std::max(latest_, *time + day_);
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
                .time = latest_,
                .size = Bytes{as_request(*size)}};
    if (failed) {
      ++records_;
      writer_.append(event);
      return nullptr;
    }
    const auto pointer = parts.size() > 6 ? number_of_text(parts[6], 16) : std::nullopt;
    if (!pointer || (parts[3] != "A" && parts[3] != "D")) return not_a_record;
    if (!is_possible(Address{*pointer}, Bytes{*size})) return "it has an address or a size that no device has";
    event.address = Address{*pointer};
    event.kind = parts[3] == "A" ? EventKind::alloc : EventKind::free_requested;
    if (event.kind == EventKind::alloc) {
      if (total_.bytes() + event.size > max_total) return "the sizes add up to more than 2^62 bytes";
      total_ += event.size;
      if (const AllocationId before = writer_.live_at(heap_, event.address); before != AllocationId::none) {
        ++losses.hook_refused;
        writer_.append(
            {.kind = EventKind::free_requested, .origin = event.origin, .allocation = before, .time = latest_});
      }
    }
    ++records_;
    writer_.append(event);
    return nullptr;
  }

  Losses losses;
  std::uint64_t records() const { return records_; }

 private:
  TraceWriter& writer_;
  HeapId heap_;
  Nanoseconds day_{}, latest_{};
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

Result<void> import_debug_log(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                              const WriterOptions& options) {
  header.source = "rmm.debug";
  TraceWriter writer(std::move(sink), header, options);
  DebugLogReader reader(writer);
  const Result<LineTally> tally =
      LogLines(bytes, [&](std::string_view line, std::uint64_t /*number*/) { return reader.add(line); }).read();
  if (!tally) return tally.error();
  if (reader.records() == 0)
    return Error{.what = "is RMM's debug log, and has neither allocations nor failures",
                 .where = bytes.where(),
                 .remedy = "record with rmm::mr::logging_resource_adaptor or rmm.enable_logging(), which write a CSV"};
  reader.losses.unknown_actions = tally->skipped;
  writer.set_losses(reader.losses);
  return writer.finish();
}

}  // namespace memreel::rmm
