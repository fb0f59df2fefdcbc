// SPDX-License-Identifier: Apache-2.0
#include "formats/import/xplane/xplane.h"

#include <protozero/exception.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <new>
#include <unordered_set>

#include "formats/import/xplane/regions.h"
#include "formats/model/stack_text.h"

namespace memreel::xplane {
namespace {

/// "GPU_0_bfc" is on device 0, as is "XLA_backend_0_bfc" of JAX's allocator `platform`; names without such a number are
/// host memory.
std::int32_t device_of(std::string_view allocator) {
  if (!allocator.starts_with("GPU_") && !allocator.starts_with("XLA_backend_")) return -1;
  for (std::size_t at = allocator.find('_'); at != std::string_view::npos; at = allocator.find('_', at + 1)) {
    std::int32_t device = 0;
    const char* const end = allocator.data() + allocator.size();
    const auto [after, error] = std::from_chars(allocator.data() + at + 1, end, device);
    if (error == std::errc{} && device >= 0 && (after == end || *after == '_')) return device;
  }
  return -1;
}

/// One allocator's history.
class HeapWriter {
 public:
  HeapWriter(const std::string& name, std::vector<const MemoryEvent*> events, ImportOutput& writer)
      : writer_(writer), events_(std::move(events)), regions_(infer_regions(events_)) {
    heap_ = writer.intern(Heap{.name = writer.intern(name),
                               .level = Level::framework,
                               .device = device_of(name),
                               .observes_completion = false});
    find_preexisting();
  }

  void count_losses(Losses& losses) const {
    losses.preexisting_allocations += preexisting_.size();
    losses.began_late |= !preexisting_.empty() || events_[0]->in_use_before().count != 0;
    // Events that the profiler dropped show in the bytes in use.
    for (std::size_t i = 1; i < events_.size(); ++i)
      if (events_[i]->in_use_before() != events_[i - 1]->in_use) ++losses.ring_full;
  }

  void write_start(Nanoseconds time) {
    const MemoryEvent& first = *events_[0];
    const Bytes limit = first.in_use + first.available;
    const auto entry = [&](std::string_view key, std::string_view value) {
      return std::pair{writer_.intern(key), writer_.intern(value)};
    };
    Settings settings{.entries = {entry("allocator", "bfc"), entry("memory_limit", std::to_string(limit.count)),
                                  entry("regions", regions_ ? "deduced" : "unknown")}};
    if (regions_) {
      settings.entries.push_back(entry("allow_growth", regions_->growing ? "true" : "false"));
      settings.entries.push_back(entry("page", std::to_string(regions_->page.count)));
    }
    append({.kind = EventKind::settings, .time = time, .value = index(writer_.intern(settings))});
    for (const MemoryEvent* event : preexisting_)
      append({.kind = EventKind::alloc,
              .stack = single_frame(preexisting_frame),
              .time = time,
              .address = event->address,
              .size = event->requested});
    if (first.in_use_before().count != 0)
      append({.kind = EventKind::memory_info,
              .time = time,
              .size = first.in_use_before(),
              .value = (limit - first.in_use_before()).count});
  }

  /// Writes the next event.
  void write_next(Nanoseconds time) {
    const MemoryEvent& event = *events_[next_];
    if (regions_ && next_region_ < regions_->regions.size() && regions_->regions[next_region_].event == next_) {
      const Region& region = regions_->regions[next_region_++];
      append({.kind = EventKind::segment_alloc,
              .stack = single_frame(region_frame),
              .time = time,
              .address = region.address,
              .size = region.size});
    }
    ++next_;
    append({.kind = event.is_free ? EventKind::free_requested : EventKind::alloc,
            .stack = event.stack,
            .time = time,
            .address = event.address,
            .size = event.requested},
           event.thread);
    append({.kind = EventKind::memory_info, .time = time, .size = event.in_use, .value = event.available.count},
           event.thread);
  }

 private:
  void append(Event event, ThreadId thread = ThreadId::unknown) {
    event.origin = writer_.intern(Origin{.heap = heap_, .thread = thread});
    writer_.append(event);
  }

  StackId single_frame(std::string_view text) {
    return writer_.intern(Stack{.frame = writer_.intern(Frame{.function = writer_.intern(text)})});
  }

  /// Finds frees of memory never allocated here.
  void find_preexisting() {
    // If the profiler dropped events, only the first free at an address shows that something existed before.
    std::unordered_set<std::uint64_t> seen;
    for (const MemoryEvent* event : events_)
      if (seen.insert(event->address.value).second && event->is_free) preexisting_.push_back(event);
  }

  ImportOutput& writer_;
  std::vector<const MemoryEvent*> events_;  // in order
  std::optional<Regions> regions_;
  std::vector<const MemoryEvent*> preexisting_;  // their frees
  HeapId heap_ = HeapId::none;
  std::size_t next_ = 0, next_region_ = 0;
};

}  // namespace

void write_trace(const Recording& recording, ImportOutput& writer) {
  const auto absolute = [start = static_cast<std::uint64_t>(recording.start_ns.value_or(0))](std::int64_t time_ns) {
    const std::uint64_t time = start + static_cast<std::uint64_t>(time_ns);
    return Nanoseconds(static_cast<std::int64_t>(time & std::numeric_limits<std::int64_t>::max()));
  };

  std::vector<std::vector<const MemoryEvent*>> events(recording.allocators.size());
  for (const MemoryEvent& event : recording.events) events[event.allocator].push_back(&event);
  std::vector<std::pair<std::string, std::uint32_t>> names(recording.allocators.begin(), recording.allocators.end());
  std::ranges::stable_sort(names, {}, [](const auto& entry) {  // host memory last
    const std::int32_t device = device_of(entry.first);
    return device < 0 ? std::numeric_limits<std::int32_t>::max() : device;
  });
  std::vector<HeapWriter> heaps;
  std::vector<std::size_t> heap_of(names.size());  // by allocator number
  heaps.reserve(names.size());
  for (const auto& [name, number] : names) {
    heap_of[number] = heaps.size();
    heaps.emplace_back(name, std::move(events[number]), writer);
  }

  Losses losses{.unknown_actions = recording.incomplete, .unsized_failures = recording.failures};
  for (const HeapWriter& heap : heaps) heap.count_losses(losses);
  writer.set_losses(losses);

  std::int64_t start_ns = std::numeric_limits<std::int64_t>::max();
  if (!recording.events.empty()) start_ns = recording.events[0].time_ns;
  if (!recording.marks.empty()) start_ns = std::min(start_ns, recording.marks[0].time_ns);
  for (HeapWriter& heap : heaps) heap.write_start(absolute(start_ns));
  auto mark = recording.marks.begin();
  const auto write_marks = [&](std::int64_t until_ns) {
    for (; mark != recording.marks.end() && mark->time_ns <= until_ns; ++mark)
      writer.append({.kind = EventKind::mark,
                     .origin = writer.intern(Origin{.thread = mark->thread}),
                     .time = absolute(mark->time_ns),
                     .value = index(mark->mark)});
  };
  for (const MemoryEvent& event : recording.events) {
    write_marks(event.time_ns);
    heaps[heap_of[event.allocator]].write_next(absolute(event.time_ns));
  }
  write_marks(std::numeric_limits<std::int64_t>::max());
}

namespace {

constexpr std::uint64_t planes_field = 1;
constexpr std::uint64_t most_plane_bytes = std::uint64_t{1} << 31U;  // no protobuf message is larger

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// Removes a varint of at most ten bytes from the start of `text`.
std::optional<std::uint64_t> take_varint(std::string_view& text) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < 10 && i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << (7 * i);
    if ((byte & 0x80U) != 0) continue;
    text.remove_prefix(i + 1);
    return value;
  }
  return std::nullopt;
}

/// Walks the fields of the XSpace.
class SpaceReader {
 public:
  SpaceReader(ByteCursor& bytes, ImportOutput& writer) : bytes_(bytes), writer_(writer) {}

  Result<Recording> run() {
    while (!bytes_.peek(1).empty()) {
      if (auto read = read_field(); !read) return std::move(read).error();
    }
    if (bytes_.failure()) return *bytes_.failure();
    if (recording_.events.empty())
      return Error{
          .what = "the profile holds no memory events (MemoryAllocation, MemoryDeallocation)",
          .where = bytes_.where(),
          .remedy =
              "profile a program that runs on a GPU with host_tracer_level=2 or more; allocators of cudaMallocAsync "
              "tell profiles nothing: memreel record has each tensor"};
    return std::move(recording_);
  }

 private:
  Result<void> read_field() {
    const std::uint64_t begin = bytes_.position();
    const auto tag = varint();
    if (!tag) return damaged(begin, "a field's number is cut off or malformed");
    constexpr std::uint64_t most_fields = 15;  // a space has four; a field may be gigabytes to skip
    if (*tag >> 3U == 0 || *tag >> 3U > most_fields) return damaged(begin, "is not a protobuf field");
    switch (static_cast<WireType>(*tag & 7U)) {
      case WireType::varint:
        return varint() ? Result<void>{} : damaged(begin, "a number is cut off or malformed");
      case WireType::fixed64:
        return skip(8) ? Result<void>{} : damaged(begin, "a number is cut off");
      case WireType::fixed32:
        return skip(4) ? Result<void>{} : damaged(begin, "a number is cut off");
      case WireType::bytes:
        break;
      default:
        return damaged(begin, "is not a protobuf field");
    }
    const auto length = varint();
    if (!length || *length > most_plane_bytes) return damaged(begin, "the length of a field is malformed");
    if (*tag >> 3U == planes_field) return read_plane_of(*length);
    return skip(*length) ? Result<void>{} : damaged(begin, "a field is cut off");
  }

  Result<void> read_plane_of(std::uint64_t length) {
    const std::uint64_t begin = bytes_.position();
    plane_.clear();
    while (plane_.size() < length) {  // the declared size is not trusted: memory grows with the actual data
      const auto piece = bytes_.take(length - plane_.size());
      if (piece.empty()) return damaged(begin, "a plane is cut off");
      plane_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    try {
      read_plane(plane_, recording_, writer_);
    } catch (const protozero::exception&) {
      return damaged(begin, "a plane is damaged");
    }
    return {};
  }

  std::optional<std::uint64_t> varint() {
    std::string text;
    for (unsigned char byte = 0x80; (byte & 0x80U) != 0 && text.size() < 10;) {
      if (!bytes_.read(byte)) return std::nullopt;
      text.push_back(static_cast<char>(byte));
    }
    std::string_view rest = text;
    return take_varint(rest);
  }

  bool skip(std::uint64_t count) {
    while (count > 0) {
      const auto piece = bytes_.take(count);
      if (piece.empty()) return false;
      count -= piece.size();
    }
    return true;
  }

  Error damaged(std::uint64_t at, std::string what) const {
    if (bytes_.failure()) return *bytes_.failure();
    return {.what = std::move(what),
            .where = bytes_.where(),
            .offset = at,
            .remedy = "profile again, or copy the file again: it is incomplete or damaged"};
  }

  ByteCursor& bytes_;
  ImportOutput& writer_;
  std::string plane_;
  Recording recording_;
};

}  // namespace

/// A bytes field 1 that begins like a plane: its ID, if not 0, and a readable name.
bool looks_like_xspace(std::span<const std::byte> beginning) {
  std::string_view text(reinterpret_cast<const char*>(beginning.data()), beginning.size());
  constexpr std::uint64_t planes_tag = planes_field << 3U | static_cast<unsigned>(WireType::bytes);
  constexpr std::uint64_t id_tag = 1U << 3U | static_cast<unsigned>(WireType::varint);
  constexpr std::uint64_t name_tag = 2U << 3U | static_cast<unsigned>(WireType::bytes);
  if (take_varint(text) != planes_tag || !take_varint(text)) return false;
  auto tag = take_varint(text);
  if (tag == id_tag) {
    if (!take_varint(text)) return false;
    tag = take_varint(text);
  }
  const auto length = tag == name_tag ? take_varint(text) : std::nullopt;
  if (!length || *length == 0 || *length > text.size()) return false;
  return std::ranges::all_of(text.substr(0, *length), [](char c) { return c >= ' ' && c <= '~'; });
}

Result<Recording> read_xspace(ByteCursor& bytes, ImportOutput& writer) {
  Result<Recording> recording = SpaceReader(bytes, writer).run();
  if (!recording) return recording;
  const auto time = [](const auto& entry) { return entry.time_ns; };
  std::ranges::stable_sort(recording->events, {}, time);  // stable: equal times stay in reading order
  std::ranges::stable_sort(recording->marks, {}, time);
  return recording;
}

Result<void> import_xspace(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  header.source = "xplane";
  ImportOutput& writer = begin(header);
  try {
    const Result<Recording> recording = read_xspace(bytes, writer);
    if (!recording) return recording.error();
    write_trace(*recording, writer);
  } catch (const std::bad_alloc&) {
    return Error{.what = "not enough memory for this profile",
                 .where = bytes.where(),
                 .remedy = "profile a shorter part of the program"};
  }
  return writer.finish();
}

}  // namespace memreel::xplane
