// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/rank_summary.h"

#include <map>
#include <protozero/exception.hpp>
#include <protozero/pbf_builder.hpp>
#include <utility>

#include "formats/model/stack_text.h"
#include "formats/wire/message_reader.h"

namespace memreel {
namespace {

using protozero::pbf_builder;
using protozero::pbf_tag_type;
using wire::MessageReader;

constexpr std::uint32_t rank_version = 2;

enum class Field : pbf_tag_type {
  version = 1,
  file = 2,
  bytes = 3,
  checksum = 4,
  status = 5,
  reason = 6,
  job = 7,
  rank = 8,
  world_size = 9,
  local_rank = 10,
  host = 11,
  process = 12,
  attempt = 13,
  coordinates = 14,
  source = 15,
  producer = 16,
  settings = 17,
  policy = 18,
  has_memory = 19,
  events = 20,
  allocations = 21,
  failed_allocations = 22,
  begin_ns = 23,
  end_ns = 24,
  device = 25,
  peak_live = 26,
  peak_allocated = 27,
  peak_reserved = 28,
  end_live = 29,
  end_reserved = 30,
  peak_reserved_time_ns = 31,
  other = 32,
  capacity = 33,
  least_free = 34,
  first_failure = 35,
  lost_events = 36,
  request_hash = 37,
  requests = 38,
  chunk_hash = 39,
  chunk_times = 40,
  reserved = 41,
  allocated = 42,
  strings = 43,
  frames = 44,
  sites = 45,
  leaks = 46,
  first_failure_time_ns = 47,
  devices = 48,
  start_ns = 49,
  visible_devices = 50,
  beside = 51,
  untimed_hash = 52,
  machine = 53,
  heap = 54,
  heaps = 55,
};
enum class PairField : pbf_tag_type { first = 1, second = 2 };  // of Coordinate and of Setting
enum class DeviceField : pbf_tag_type { device = 1, peak_reserved = 2, other = 3, capacity = 4, beside = 5 };
enum class FrameField : pbf_tag_type { function = 1, file = 2, line = 3 };
enum class SiteField : pbf_tag_type { id = 1, frames = 2, at_peak = 3, at_end = 4, count_at_peak = 5 };
enum class LeakField : pbf_tag_type {
  verdict = 1,
  bytes = 2,
  count = 3,
  growth_bytes_per_step = 4,
  steps = 5,
  site = 7,
  frames = 8,
};

/// Strings and frames, each written once.
class FrameTable {
 public:
  std::vector<std::uint32_t> rows_of(const std::vector<CodeFrame>& frames) {
    std::vector<std::uint32_t> rows;
    rows.reserve(frames.size());
    for (const CodeFrame& frame : frames) rows.push_back(row_of(frame));
    return rows;
  }
  void write(pbf_builder<Field>& message) const {
    for (const std::string& text : texts_) message.add_string(Field::strings, text);
    for (const auto& [function, file, line] : frames_) {
      pbf_builder<FrameField> frame(message, Field::frames);
      frame.add_uint32(FrameField::function, function);
      frame.add_uint32(FrameField::file, file);
      frame.add_uint32(FrameField::line, line);
    }
  }

 private:
  struct Row {
    std::uint32_t function = 0, file = 0, line = 0;
    friend auto operator<=>(const Row&, const Row&) = default;
  };
  std::uint32_t text_of(const std::string& text) {
    const auto [found, is_new] = text_rows_.try_emplace(text, static_cast<std::uint32_t>(texts_.size()));
    if (is_new) texts_.push_back(text);
    return found->second;
  }
  std::uint32_t row_of(const CodeFrame& frame) {
    const Row row{text_of(frame.function), text_of(frame.file), frame.line};
    const auto [found, is_new] = frame_rows_.try_emplace(row, static_cast<std::uint32_t>(frames_.size()));
    if (is_new) frames_.push_back(row);
    return found->second;
  }

  std::vector<std::string> texts_;
  std::vector<Row> frames_;
  std::map<std::string, std::uint32_t> text_rows_;
  std::map<Row, std::uint32_t> frame_rows_;
};

template <class F>
void add_rows(pbf_builder<F>& message, F field, const std::vector<std::uint32_t>& rows) {
  message.add_packed_uint32(field, rows.begin(), rows.end());
}

void add_column(pbf_builder<Field>& message, Field field, const std::vector<Bytes>& column) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(column.size());
  for (const Bytes size : column) numbers.push_back(size.count);
  message.add_packed_uint64(field, numbers.begin(), numbers.end());
}

template <class T>
std::uint64_t plus_one(const std::optional<T>& value) {
  if (!value) return 0;
  if constexpr (std::is_same_v<T, Bytes>)
    return value->count + 1;
  else
    return std::uint64_t{*value} + 1;
}

void add_pair(pbf_builder<Field>& message, Field field, const std::string& key, const std::string& value) {
  pbf_builder<PairField> pair(message, field);
  pair.add_string(PairField::first, key);
  pair.add_string(PairField::second, value);
}

void write_identity(pbf_builder<Field>& message, const Identity& identity) {
  message.add_string(Field::job, identity.job);
  message.add_uint64(Field::rank, plus_one(identity.rank));
  message.add_uint64(Field::world_size, plus_one(identity.world_size));
  message.add_uint64(Field::local_rank, plus_one(identity.local_rank));
  message.add_string(Field::host, identity.host);
  message.add_uint64(Field::process, identity.process);
  message.add_uint32(Field::attempt, identity.attempt);
  message.add_sint64(Field::start_ns, identity.start.count());
  message.add_string(Field::visible_devices, identity.visible_devices);
  for (const Coordinate& at : identity.coordinates) {
    pbf_builder<PairField> coordinate(message, Field::coordinates);
    coordinate.add_string(PairField::first, at.axis);
    coordinate.add_uint32(PairField::second, at.at);
  }
}

void write_metrics(pbf_builder<Field>& message, const RankSummary& s) {
  message.add_bool(Field::has_memory, s.has_memory);
  message.add_uint64(Field::events, s.events);
  message.add_uint64(Field::allocations, s.allocations);
  message.add_uint64(Field::failed_allocations, s.failed_allocations);
  message.add_sint64(Field::begin_ns, s.begin.count());
  message.add_sint64(Field::end_ns, s.end.count());
  message.add_sint32(Field::device, s.device);
  message.add_uint64(Field::peak_live, s.peak_live.count);
  message.add_uint64(Field::peak_allocated, s.peak_allocated.count);
  message.add_uint64(Field::peak_reserved, s.peak_reserved.count);
  message.add_uint64(Field::end_live, s.end_live.count);
  message.add_uint64(Field::end_reserved, s.end_reserved.count);
  message.add_sint64(Field::peak_reserved_time_ns, s.peak_reserved_time.count());
  message.add_uint64(Field::other, s.other.count);
  message.add_uint64(Field::beside, s.beside.count);
  message.add_uint64(Field::capacity, plus_one(s.capacity));
  message.add_uint64(Field::least_free, plus_one(s.least_free));
  message.add_uint64(Field::first_failure, plus_one(s.first_failure));
  message.add_sint64(Field::first_failure_time_ns, s.first_failure_time.count());
  for (const RankDevice& d : s.devices) {
    pbf_builder<DeviceField> device(message, Field::devices);
    device.add_sint32(DeviceField::device, d.device);
    device.add_uint64(DeviceField::peak_reserved, d.peak_reserved.count);
    device.add_uint64(DeviceField::other, d.other.count);
    device.add_uint64(DeviceField::beside, d.beside.count);
    device.add_uint64(DeviceField::capacity, plus_one(d.capacity));
  }
  message.add_uint64(Field::lost_events, s.lost_events);
  message.add_fixed64(Field::request_hash, s.requests.whole);
  message.add_fixed64(Field::untimed_hash, s.requests.untimed);
  message.add_uint64(Field::requests, s.requests.requests);
  std::vector<std::uint64_t> hashes, times;
  for (const RequestChunk& chunk : s.requests.sketch) {
    hashes.push_back(chunk.hash);
    times.push_back(chunk.times);
  }
  message.add_packed_fixed64(Field::chunk_hash, hashes.begin(), hashes.end());
  message.add_packed_uint64(Field::chunk_times, times.begin(), times.end());
  add_column(message, Field::reserved, s.reserved);
  add_column(message, Field::allocated, s.allocated);
}

// ---- Reading

struct Columns {
  std::vector<std::uint64_t> hashes, requests;
  std::vector<std::string> strings;
  std::vector<CodeFrame> frames;
};

std::vector<Bytes> bytes_of(const std::vector<std::uint64_t>& numbers) {
  std::vector<Bytes> bytes;
  bytes.reserve(numbers.size());
  for (const std::uint64_t number : numbers) bytes.push_back({number});
  return bytes;
}

std::optional<std::uint32_t> minus_one(std::uint64_t number) {
  return number == 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(number - 1));
}
std::optional<Bytes> size_minus_one(std::uint64_t number) {
  return number == 0 ? std::nullopt : std::optional(Bytes{number - 1});
}

std::vector<CodeFrame> frames_at(const Columns& columns, const std::vector<std::uint64_t>& rows) {
  std::vector<CodeFrame> frames;
  for (const std::uint64_t row : rows)
    if (row < columns.frames.size()) frames.push_back(columns.frames[row]);
  return frames;
}

CodeFrame read_frame(std::string_view bytes, const Columns& columns) {
  CodeFrame frame;
  const auto text = [&](std::uint32_t row) { return row < columns.strings.size() ? columns.strings[row] : ""; };
  for (MessageReader<FrameField> in(bytes); in.next();) {
    switch (in.field()) {
      case FrameField::function:
        frame.function = text(in.uint32());
        break;
      case FrameField::file:
        frame.file = text(in.uint32());
        break;
      case FrameField::line:
        frame.line = in.uint32();
        break;
      default:
        in.skip();
    }
  }
  return frame;
}

RankDevice read_device(std::string_view bytes) {
  RankDevice device;
  for (MessageReader<DeviceField> in(bytes); in.next();) {
    switch (in.field()) {
      case DeviceField::device:
        device.device = in.sint32();
        break;
      case DeviceField::peak_reserved:
        device.peak_reserved = {in.uint64()};
        break;
      case DeviceField::other:
        device.other = {in.uint64()};
        break;
      case DeviceField::beside:
        device.beside = {in.uint64()};
        break;
      case DeviceField::capacity:
        device.capacity = size_minus_one(in.uint64());
        break;
      default:
        in.skip();
    }
  }
  return device;
}

RankSite read_site(std::string_view bytes, const Columns& columns) {
  RankSite site;
  for (MessageReader<SiteField> in(bytes); in.next();) {
    switch (in.field()) {
      case SiteField::id:
        site.id = in.fixed64();
        break;
      case SiteField::frames:
        site.frames = frames_at(columns, in.numbers());
        break;
      case SiteField::at_peak:
        site.at_peak = {in.uint64()};
        break;
      case SiteField::at_end:
        site.at_end = {in.uint64()};
        break;
      case SiteField::count_at_peak:
        site.count_at_peak = in.uint64();
        break;
      default:
        in.skip();
    }
  }
  return site;
}

RankLeak read_leak(std::string_view bytes, const Columns& columns) {
  RankLeak leak;
  for (MessageReader<LeakField> in(bytes); in.next();) {
    switch (in.field()) {
      case LeakField::verdict:
        leak.verdict = printable(in.bytes());
        break;
      case LeakField::bytes:
        leak.bytes = {in.uint64()};
        break;
      case LeakField::count:
        leak.count = in.uint64();
        break;
      case LeakField::growth_bytes_per_step:
        leak.growth_bytes_per_step = in.floating();
        break;
      case LeakField::steps:
        leak.steps = in.uint32();
        break;
      case LeakField::site:
        leak.site = in.fixed64();
        break;
      case LeakField::frames:
        leak.frames = frames_at(columns, in.numbers());
        break;
      default:
        in.skip();
    }
  }
  return leak;
}

/// The two fields of a Coordinate or a Setting.
struct Pair {
  std::string first, text;
  std::uint32_t number = 0;
};
Pair read_pair(std::string_view bytes) {
  Pair pair;
  for (MessageReader<PairField> in(bytes); in.next();) {
    if (in.field() == PairField::first)
      pair.first = printable(in.bytes());
    else if (in.field() == PairField::second && in.is_bytes())
      pair.text = printable(in.bytes());
    else if (in.field() == PairField::second)
      pair.number = in.uint32();
    else
      in.skip();
  }
  return pair;
}

bool read_identity(MessageReader<Field>& in, RankSummary& s) {
  Identity& identity = s.identity;
  switch (in.field()) {
    case Field::file:
      return s.file = in.bytes(), true;
    case Field::machine:
      return s.machine = printable(in.bytes()), true;
    case Field::bytes:
      return s.bytes = in.uint64(), true;
    case Field::checksum:
      return s.checksum = in.fixed32(), true;
    case Field::status:
      return s.status = static_cast<RankStatus>(std::min(in.uint32(), 6U)), true;
    case Field::reason:
      return s.reason = printable(in.bytes()), true;
    case Field::job:
      return identity.job = printable(in.bytes()), true;
    case Field::rank:
      return identity.rank = minus_one(in.uint64()), true;
    case Field::world_size:
      return identity.world_size = minus_one(in.uint64()), true;
    case Field::local_rank:
      return identity.local_rank = minus_one(in.uint64()), true;
    case Field::host:
      return identity.host = printable(in.bytes()), true;
    case Field::process:
      return identity.process = in.uint64(), true;
    case Field::attempt:
      return identity.attempt = in.uint32(), true;
    case Field::start_ns:
      return identity.start = Nanoseconds{in.sint64()}, true;
    case Field::visible_devices:
      return identity.visible_devices = in.bytes(), true;
    case Field::coordinates: {
      Pair pair = read_pair(in.bytes());
      return identity.coordinates.push_back({.axis = std::move(pair.first), .at = pair.number}), true;
    }
    case Field::source:
      return s.source = printable(in.bytes()), true;
    case Field::producer:
      return s.producer = printable(in.bytes()), true;
    case Field::settings: {
      Pair pair = read_pair(in.bytes());
      return s.settings[pair.first] = std::move(pair.text), true;
    }
    case Field::policy:
      return s.policy = printable(in.bytes()), true;
    case Field::heap:
      return s.heap = in.bytes(), true;
    case Field::heaps:
      return s.heaps.push_back(printable(in.bytes())), true;
    default:
      return false;
  }
}

bool read_metrics(MessageReader<Field>& in, RankSummary& s) {
  const auto nanoseconds = [&] { return Nanoseconds{in.sint64()}; };
  switch (in.field()) {
    case Field::has_memory:
      return s.has_memory = in.boolean(), true;
    case Field::events:
      return s.events = in.uint64(), true;
    case Field::allocations:
      return s.allocations = in.uint64(), true;
    case Field::failed_allocations:
      return s.failed_allocations = in.uint64(), true;
    case Field::begin_ns:
      return s.begin = nanoseconds(), true;
    case Field::end_ns:
      return s.end = nanoseconds(), true;
    case Field::device:
      return s.device = in.sint32(), true;
    case Field::peak_live:
      return s.peak_live = {in.uint64()}, true;
    case Field::peak_allocated:
      return s.peak_allocated = {in.uint64()}, true;
    case Field::peak_reserved:
      return s.peak_reserved = {in.uint64()}, true;
    case Field::end_live:
      return s.end_live = {in.uint64()}, true;
    case Field::end_reserved:
      return s.end_reserved = {in.uint64()}, true;
    case Field::peak_reserved_time_ns:
      return s.peak_reserved_time = nanoseconds(), true;
    case Field::other:
      return s.other = {in.uint64()}, true;
    case Field::beside:
      return s.beside = {in.uint64()}, true;
    case Field::capacity:
      return s.capacity = size_minus_one(in.uint64()), true;
    case Field::least_free:
      return s.least_free = size_minus_one(in.uint64()), true;
    case Field::first_failure:
      return s.first_failure = size_minus_one(in.uint64()), true;
    case Field::first_failure_time_ns:
      return s.first_failure_time = nanoseconds(), true;
    case Field::devices:
      return s.devices.push_back(read_device(in.bytes())), true;
    case Field::lost_events:
      return s.lost_events = in.uint64(), true;
    case Field::request_hash:
      return s.requests.whole = in.fixed64(), true;
    case Field::untimed_hash:
      return s.requests.untimed = in.fixed64(), true;
    case Field::requests:
      return s.requests.requests = in.uint64(), true;
    case Field::reserved:
      return s.reserved = bytes_of(in.numbers()), true;
    case Field::allocated:
      return s.allocated = bytes_of(in.numbers()), true;
    default:
      return false;
  }
}

std::uint32_t read(std::string_view bytes, RankSummary& summary) {
  std::uint32_t version = 0;
  Columns columns;
  for (MessageReader<Field> in(bytes); in.next();) {
    if (read_identity(in, summary) || read_metrics(in, summary)) continue;
    switch (in.field()) {
      case Field::version:
        version = in.uint32();
        break;
      case Field::chunk_hash:
        columns.hashes = in.fixed_numbers();
        break;
      case Field::chunk_times:
        columns.requests = in.numbers();
        break;
      case Field::strings:
        columns.strings.push_back(printable(in.bytes()));
        break;
      case Field::frames:
        columns.frames.push_back(read_frame(in.bytes(), columns));
        break;
      case Field::sites:
        summary.sites.push_back(read_site(in.bytes(), columns));
        break;
      case Field::leaks:
        summary.leaks.push_back(read_leak(in.bytes(), columns));
        break;
      default:
        in.skip();
    }
  }
  for (std::size_t i = 0; i < std::min(columns.hashes.size(), columns.requests.size()); ++i)
    summary.requests.sketch.push_back({columns.hashes[i], columns.requests[i]});
  return version;
}

}  // namespace

std::string encode_rank(const RankSummary& summary) {
  std::string bytes;
  pbf_builder<Field> message(bytes);
  message.add_uint32(Field::version, rank_version);
  message.add_string(Field::file, summary.file);
  message.add_string(Field::machine, summary.machine);
  message.add_uint64(Field::bytes, summary.bytes);
  message.add_fixed32(Field::checksum, summary.checksum);
  message.add_uint32(Field::status, static_cast<std::uint32_t>(summary.status));
  message.add_string(Field::reason, summary.reason);
  write_identity(message, summary.identity);
  message.add_string(Field::source, summary.source);
  message.add_string(Field::producer, summary.producer);
  for (const auto& [key, value] : summary.settings) add_pair(message, Field::settings, key, value);
  message.add_string(Field::policy, summary.policy);
  if (!summary.heap.empty()) message.add_string(Field::heap, summary.heap);
  for (const std::string& name : summary.heaps) message.add_string(Field::heaps, name);
  write_metrics(message, summary);

  FrameTable frames;
  std::vector<std::vector<std::uint32_t>> rows;
  for (const RankSite& site : summary.sites) rows.push_back(frames.rows_of(site.frames));
  for (const RankLeak& leak : summary.leaks) rows.push_back(frames.rows_of(leak.frames));
  frames.write(message);  // before their users
  auto row = rows.begin();
  for (const RankSite& s : summary.sites) {
    pbf_builder<SiteField> site(message, Field::sites);
    site.add_fixed64(SiteField::id, s.id);
    add_rows(site, SiteField::frames, *row++);
    site.add_uint64(SiteField::at_peak, s.at_peak.count);
    site.add_uint64(SiteField::at_end, s.at_end.count);
    site.add_uint64(SiteField::count_at_peak, s.count_at_peak);
  }
  for (const RankLeak& l : summary.leaks) {
    pbf_builder<LeakField> leak(message, Field::leaks);
    leak.add_string(LeakField::verdict, l.verdict);
    leak.add_uint64(LeakField::bytes, l.bytes.count);
    leak.add_uint64(LeakField::count, l.count);
    leak.add_double(LeakField::growth_bytes_per_step, l.growth_bytes_per_step);
    leak.add_uint32(LeakField::steps, l.steps);
    leak.add_fixed64(LeakField::site, l.site);
    add_rows(leak, LeakField::frames, *row++);
  }
  return bytes;
}

Result<RankSummary> decode_rank(std::string_view bytes, const std::string& where) {
  RankSummary summary;
  try {
    const std::uint32_t version = read(bytes, summary);
    if (version == rank_version) return summary;
    if (version > rank_version)
      return Error{.what = "was made by a newer memreel (version " + std::to_string(version) + ")",
                   .where = where,
                   .remedy = "merge it with the memreel that made it"};
  } catch (const protozero::exception&) {
  }
  return Error{.what = "is not a rank summary", .where = where, .remedy = "make it again with memreel fleet map"};
}

}  // namespace memreel
