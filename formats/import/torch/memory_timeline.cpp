// SPDX-License-Identifier: Apache-2.0
#include "formats/import/torch/memory_timeline.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "formats/import/source/json_values.h"
#include "formats/import/source/log_lines.h"
#include "formats/model/files.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "formats/model/units.h"
#include "formats/model/value_check.h"
#include "formats/torch/settings.h"

namespace memreel::torch {
namespace {

struct CurrentAndPeak {
  std::optional<std::uint64_t> current, peak;
};

/// What one table says of one device.
struct DeviceStats {
  CurrentAndPeak allocated, reserved;
};

constexpr std::string_view table_title = "memory summary, device ID ";

/// The number that follows `key` behind quotes, colons and blanks; none if there is no such key.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key) {
  const std::size_t found = text.find(key);
  if (found == std::string_view::npos) return std::nullopt;
  text.remove_prefix(found + key.size());
  text.remove_prefix(std::min(text.find_first_not_of("'\": \t=,"), text.size()));
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{}) return std::nullopt;
  return number;
}

/// "  1024 MB " or "1024 MiB" or "512 B": powers of 1024 (_format_size of torch/cuda/memory.py).
std::optional<std::uint64_t> table_size(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  constexpr std::string_view prefixes = "KMGTPE";
  const std::size_t power = text.empty() ? std::string_view::npos : prefixes.find(text[0]);
  const unsigned shift = power == std::string_view::npos ? 0 : 10 * static_cast<unsigned>(power + 1);
  if (number > max_allocation.count >> std::min(shift, 45U)) return std::nullopt;
  return number << shift;
}

/// The first two columns of a row: "| Allocated memory      |    1024 MB |    2048 MB | ...".
bool read_row(std::string_view line, std::string_view name, CurrentAndPeak& into) {
  const std::size_t row = line.find(name);
  if (row == std::string_view::npos) return false;
  std::size_t bar = line.find('|', row + name.size());
  if (bar == std::string_view::npos) return false;
  into.current = table_size(line.substr(bar + 1));
  bar = line.find('|', bar + 1);
  if (bar == std::string_view::npos) return false;
  into.peak = table_size(line.substr(bar + 1));
  return into.current && into.peak;
}

class StatsReader {
 public:
  LineComplaint add(std::string_view line) {
    if (const auto device = number_after(line, table_title); device && *device < 1000) {
      stats_[device_ = static_cast<std::int32_t>(*device)] = {};  // the latest table of a device counts
      in_table_ = true;
      return nullptr;
    }
    DeviceStats& stats = stats_[device_];
    if (in_table_ && (read_row(line, "| Allocated memory", stats.allocated) ||
                      read_row(line, "| GPU reserved memory", stats.reserved)))
      return nullptr;
    const struct {
      std::string_view key;
      std::optional<std::uint64_t>& value;
    } keys[] = {{"allocated_bytes.all.current", stats.allocated.current},
                {"allocated_bytes.all.peak", stats.allocated.peak},
                {"reserved_bytes.all.current", stats.reserved.current},
                {"reserved_bytes.all.peak", stats.reserved.peak}};
    bool any = false;
    for (const auto& [key, value] : keys)
      if (const auto number = key_number(line, key); number && *number <= max_allocation.count) {
        value = number;
        any = true;
      }
    return any ? nullptr : not_a_record;
  }

  std::vector<std::pair<std::int32_t, DeviceStats>> complete() const {
    std::vector<std::pair<std::int32_t, DeviceStats>> result;
    for (const auto& [device, stats] : stats_)
      if (stats.allocated.current && stats.reserved.current) result.emplace_back(device, stats);
    return result;
  }

 private:
  /// "inactive_allocated_bytes.all.current" is another key.
  static std::optional<std::uint64_t> key_number(std::string_view line, std::string_view key) {
    for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1))
      if (at == 0 || line[at - 1] == '\'' || line[at - 1] == '"' || line[at - 1] == ' ' || line[at - 1] == '\t')
        return number_after(line.substr(at), key);
    return std::nullopt;
  }

  std::map<std::int32_t, DeviceStats> stats_;
  std::int32_t device_ = 0;
  bool in_table_ = false;
};

void write_stats(std::int32_t device, const DeviceStats& stats, ImportOutput& writer) {
  const HeapId heap = writer.intern(Heap{
      .name = writer.intern("torch.cuda"), .level = Level::framework, .device = device, .observes_completion = false});
  const OriginId origin = writer.intern(Origin{.heap = heap});
  const StackId stack = writer.intern(
      Stack{.frame = writer.intern(Frame{.function = writer.intern("<the sum of all blocks, from a table>")})});
  const std::uint64_t allocated = *stats.allocated.current, reserved = std::max(*stats.reserved.current, allocated);
  const std::uint64_t peak = std::max(stats.allocated.peak.value_or(allocated), allocated);
  const std::uint64_t most_reserved = std::max({stats.reserved.peak.value_or(reserved), reserved, peak});
  constexpr Address first{std::uint64_t{1} << 50U}, second{std::uint64_t{1} << 51U};
  const auto append = [&](EventKind kind, Address address, std::uint64_t size,
                          AllocationId allocation = AllocationId::none) {
    return writer.append({.kind = kind,
                          .origin = origin,
                          .stack = is_free(kind) ? StackId::none : stack,
                          .allocation = allocation,
                          .address = address,
                          .size = Bytes{size}});
  };
  // One block may straddle the two segments: only the sums mean anything.
  append(EventKind::segment_alloc, first, reserved);
  if (most_reserved > reserved) append(EventKind::segment_alloc, second, most_reserved - reserved);
  if (allocated > 0) append(EventKind::alloc, first, allocated);
  if (peak > allocated) {
    const Address more = peak <= reserved ? first + Bytes{allocated} : second;
    append(EventKind::free_requested, more, peak - allocated, append(EventKind::alloc, more, peak - allocated));
  }
  if (most_reserved > reserved) append(EventKind::segment_free, second, most_reserved - reserved);
}

}  // namespace

bool looks_like_stats(std::span<const std::byte> beginning) {
  const std::string_view text = text_of(beginning);
  const auto lacks = [&](std::string_view word) { return text.find(word) == std::string_view::npos; };
  return lacks(std::string_view("\0", 1)) && lacks("\"segments\"") && lacks("\"device_traces\"") &&
         (text.find("allocated_bytes.all.current") != std::string_view::npos ||
          (text.find(table_title) != std::string_view::npos &&
           text.find("| Allocated memory") != std::string_view::npos));
}

Result<void> import_stats(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  header.source = sums_source;
  StatsReader reader;
  const Result<LineTally> tally =
      LogLines(bytes, [&](std::string_view line, std::uint64_t /*number*/) { return reader.add(line); }).read();
  if (!tally) return tally.error();
  const auto devices = reader.complete();
  if (devices.empty())
    return Error{.what = "has no complete table of torch.cuda.memory_summary() or memory_stats()",
                 .where = bytes.where(),
                 .remedy = "print it again, or dump a snapshot: torch.cuda.memory._dump_snapshot()"};
  ImportOutput& writer = begin(header);
  for (const auto& [device, stats] : devices) write_stats(device, stats, writer);
  writer.set_losses({.skipped = all_of_a_history()});
  return writer.finish();
}

namespace {

constexpr std::array<std::string_view, 8> category_names{
    "parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "autograd_detail", "unknown"};

// Addresses are made up: each entry has its own.
constexpr std::uint64_t first_address = 512;
constexpr std::uint64_t space_of(Bytes size) { return (size.count + 511) / 512 * 512 + 512; }

enum class TimelineAction : std::uint8_t { existed = 1, created = 2, version = 3, destroyed = 4 };

struct TimelineRow {
  std::int64_t time_ns = -1;  // -1: existed before
  Bytes size;
  TimelineAction action = TimelineAction::existed;
  std::uint8_t category = 0;
  bool ends = false;  // its bytes are negative
};

class TimelineReader final : public JsonVisitor {
 public:
  explicit TimelineReader(const ByteCursor& bytes) : bytes_(bytes) {}

  Result<void> scalar(std::string_view path, const JsonScalar& value) override {
    if (path != "[][]") return refused();
    const std::optional<std::int64_t> number = as_signed(value);
    if (!number) return refused();
    row_[filled_++] = *number;
    if (filled_ < row_.size()) return {};
    filled_ = 0;
    return add();
  }
  Result<void> end_object(std::string_view) override { return refused(); }

  std::vector<TimelineRow> rows;
  bool is_complete() const { return filled_ == 0 && !rows.empty(); }

 private:
  static Error refused() {
    return {
        .what = "is not a list of [time, action, bytes, category]",
        .where = {},
        .remedy = "export_memory_timeline(\"x.raw.json.gz\") of torch.profiler writes one; \"x.json\" has only sums"};
  }

  Result<void> add() {
    const auto [time, action, bytes, category] = row_;
    const std::uint64_t size =
        bytes < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(bytes) : static_cast<std::uint64_t>(bytes);
    if (action < 1 || action > 4 || category < 0 || size > max_allocation.count || time < -1 ||
        !is_possible(Nanoseconds(time)))
      return refused();
    if (bytes > 0) total_ += Bytes{size};
    addresses_ += space_of(Bytes{size});
    if (total_.bytes() > max_total || addresses_ > max_address.value) return refused();
    const std::size_t known = std::min(static_cast<std::size_t>(category), category_names.size() - 1);
    rows.push_back({.time_ns = time,
                    .size = Bytes{size},
                    .action = static_cast<TimelineAction>(action),
                    .category = static_cast<std::uint8_t>(known),
                    .ends = bytes < 0});
    if (Bytes{2 * rows.size() * sizeof(TimelineRow)} <= bytes_.memory_limit()) return {};  // twice: it may have grown
    return over_memory_limit(bytes_.where(), "holds entries that need more than", bytes_.memory_limit());
  }

  const ByteCursor& bytes_;
  std::array<std::int64_t, 4> row_{};
  std::size_t filled_ = 0;
  std::uint64_t addresses_ = first_address;
  TotalBytes total_;
};

/// PyTorch's allocators of device memory report blocks, which are multiples of 512 bytes; that of host memory reports
/// what was requested. Of what existed before, the file has the sizes of tensors.
bool is_of_host(const std::vector<TimelineRow>& rows) {
  return std::ranges::any_of(rows, [](const TimelineRow& row) {
    return row.action == TimelineAction::created && row.size.count % TorchSettings::min_block.count != 0;
  });
}

class TimelineWriter {
 public:
  TimelineWriter(const std::vector<TimelineRow>& rows, ImportOutput& writer)
      : rows_(rows),
        writer_(writer),
        heap_(heap_of(is_of_host(rows), writer)),
        preexisting_(
            writer.intern(Stack{.frame = writer.intern(Frame{.function = writer.intern(preexisting_frame)})})) {}

  Losses write() {
    // What existed before has no time of its own: the recording begins with what has one.
    const auto timed = std::ranges::find_if(rows_, [](const TimelineRow& row) { return row.time_ns >= 0; });
    if (timed != rows_.end()) time_ = Nanoseconds(timed->time_ns);
    for (const TimelineRow& row : rows_) add(row);
    return losses_;
  }

 private:
  /// The size and the category, by which allocations are told apart.
  using Key = std::pair<std::uint64_t, std::size_t>;

  static HeapId heap_of(bool is_host, ImportOutput& writer) {
    return writer.intern(Heap{.name = writer.intern(is_host ? TorchHostSettings::pageable_heap : "torch.cuda"),
                              .level = Level::framework,
                              .device = is_host ? -1 : 0,
                              .observes_completion = false});
  }

  void add(const TimelineRow& row) {
    next_ += space_of(row.size);
    if (row.time_ns >= 0) time_ = Nanoseconds(row.time_ns);
    const Key key{row.size.count, row.category};
    if (row.action == TimelineAction::version) {
      change_version(row.ends, key);
    } else if (row.ends || row.action == TimelineAction::destroyed) {
      if (const AllocationId ended = take(key); ended != AllocationId::none) end(ended, key);
    } else {
      begin(key, row.action == TimelineAction::existed);
    }
  }

  /// The next version of an allocation may have another category.
  void change_version(bool ends, const Key& key) {
    std::vector<AllocationId>& changing = changing_[key.first];
    if (ends) {
      if (const AllocationId id = take(key); id != AllocationId::none) changing.push_back(id);
    } else if (changing.empty()) {
      begin(key, false);
    } else {
      live_[key].push_back(changing.back());
      changing.pop_back();
    }
  }

  void begin(const Key& key, bool existed) {
    if (existed) ++losses_.preexisting_allocations;
    if (existed) losses_.began_late = true;
    live_[key].push_back(writer_.append({.kind = EventKind::alloc,
                                         .origin = origin_of(key),
                                         .stack = existed ? preexisting_ : StackId::none,
                                         .time = time_,
                                         .address = Address{next_},
                                         .size = Bytes{key.first}}));
  }

  void end(AllocationId allocation, const Key& key) {
    writer_.append(
        {.kind = EventKind::free_requested, .origin = origin_of(key), .allocation = allocation, .time = time_});
  }

  AllocationId take(const Key& key) {
    const auto found = live_.find(key);
    if (found == live_.end() || found->second.empty()) {
      ++losses_.unmatched_frees;
      return AllocationId::none;
    }
    const AllocationId latest = found->second.back();
    found->second.pop_back();
    return latest;
  }

  OriginId origin_of(const Key& key) {
    return writer_.intern(Origin{.heap = heap_, .metadata = writer_.intern(category_names[key.second])});
  }

  const std::vector<TimelineRow>& rows_;
  ImportOutput& writer_;
  HeapId heap_;
  StackId preexisting_;
  Losses losses_;
  Nanoseconds time_{};
  std::uint64_t next_ = first_address;
  std::map<Key, std::vector<AllocationId>> live_;
  std::map<std::uint64_t, std::vector<AllocationId>> changing_;  // by size
};

}  // namespace

bool looks_like_timeline(std::span<const std::byte> beginning) {
  std::string_view text = text_of(beginning);
  for (const char expected : std::string_view("[[")) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos || text[first] != expected) return false;
    text.remove_prefix(first + 1);
  }
  const std::size_t number = text.find_first_not_of(" \t\r\n");
  return number != std::string_view::npos && (text[number] == '-' || (text[number] >= '0' && text[number] <= '9'));
}

Result<void> import_timeline(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  header.source = profiled_source;
  TimelineReader reader(bytes);
  Result<void> read = visit_json(bytes, reader);
  if (read && !reader.is_complete())
    read = Error{.what = "the list is empty, or its last entry is not complete", .remedy = "export it again"};
  if (!read) {
    if (read.error().where.empty()) read.error().where = bytes.where();
    return read;
  }
  ImportOutput& writer = begin(header);
  writer.set_losses(TimelineWriter(reader.rows, writer).write());
  return writer.finish();
}

}  // namespace memreel::torch
