#include "formats/import/xplane/xplane_to_trace.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

#include "formats/import/xplane/regions.h"

namespace memreel::xplane {
namespace {

/// "GPU_0_bfc" is on device 0; names without such a number are host memory.
std::int32_t device_of(std::string_view allocator) {
  if (!allocator.starts_with("GPU_")) return -1;
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
  HeapWriter(const std::string& name, std::vector<const MemoryEvent*> events, TraceWriter& writer)
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
    std::unordered_map<std::uint64_t, bool> live;
    for (const MemoryEvent* event : events_) {
      bool& is_live = live[event->address.value];
      // If the profiler dropped events, only the first free at an address shows that something existed before.
      const bool seen = is_live || seen_.contains(event->address.value);
      if (event->is_free && !seen) preexisting_.push_back(event);
      seen_.emplace(event->address.value, true);
      is_live = !event->is_free;
    }
  }

  TraceWriter& writer_;
  std::vector<const MemoryEvent*> events_;  // in order
  std::optional<Regions> regions_;
  std::unordered_map<std::uint64_t, bool> seen_;
  std::vector<const MemoryEvent*> preexisting_;  // their frees
  HeapId heap_ = HeapId::none;
  std::size_t next_ = 0, next_region_ = 0;
};

}  // namespace

void write_trace(const Recording& recording, TraceWriter& writer) {
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

  Losses losses{.hook_refused = recording.failures, .unknown_actions = recording.incomplete};
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

}  // namespace memreel::xplane
