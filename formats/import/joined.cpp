// SPDX-License-Identifier: Apache-2.0
#include "formats/import/joined.h"

#include <algorithm>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace memreel {
namespace {

namespace fs = std::filesystem;

/// Appends the events of one trace to another, and what they refer to.
class Copier {
 public:
  Copier(const Trace& trace, TraceWriter& writer)
      : trace_(trace), writer_(writer), frames_(trace.tables.frames.size()), stacks_(trace.tables.stacks.size()) {
    heaps_.push_back(HeapId::none);
    for (std::size_t h = 1; h < trace.tables.heaps.size(); ++h) heaps_.push_back(heap(trace.tables.heaps[h]));
    for (std::size_t s = 1; s < stacks_.size(); ++s) stacks_[s] = stack(trace.tables.stacks[s]);
    for (const Origin& each : trace.tables.origins) origins_.push_back(origin(each));
  }

  HeapId heap(HeapId id) const { return heaps_[index(id)]; }
  OriginId origin(OriginId id) const { return origins_[index(id)]; }

  void append(std::size_t i) {
    Event event = trace_.events[i];
    const AllocationId allocation = event.allocation;
    event.origin = origins_[index(event.origin)];
    event.stack = stacks_[index(event.stack)];
    if (event.kind == EventKind::mark && event.value < trace_.tables.marks.size()) {
      const Mark& mark = trace_.tables.marks[event.value];
      event.value = index(writer_.intern(Mark{.name = string(mark.name), .phase = mark.phase}));
    } else if (event.kind == EventKind::settings && event.value < trace_.tables.settings.size()) {
      Settings settings;
      for (const auto& [key, value] : trace_.tables.settings[event.value].entries)
        settings.entries.emplace_back(string(key), string(value));
      event.value = index(writer_.intern(settings));
    } else if (event.kind == EventKind::sync && event.value >= sync_edge &&
               event.value - sync_edge < trace_.tables.streams.size()) {
      event.value = sync_edge + index(writer_.intern(trace_.tables.streams[event.value - sync_edge]));
    }
    if (event.kind == EventKind::alloc) {
      event.allocation = AllocationId::none;
      const AllocationId copy = writer_.append(event);
      if (copies_.size() <= index(allocation)) copies_.resize(index(allocation) + 1, AllocationId::none);
      copies_[index(allocation)] = copy;
      return;
    }
    if (allocation != AllocationId::none)
      event.allocation = index(allocation) < copies_.size() ? copies_[index(allocation)] : AllocationId::none;
    writer_.append(event);
  }

 private:
  StringId string(StringId id) { return writer_.intern(trace_.tables[id]); }

  HeapId heap(Heap copy) {
    copy.name = string(copy.name);
    copy.parent = index(copy.parent) < heaps_.size() ? heaps_[index(copy.parent)] : HeapId::none;
    return writer_.intern(copy);
  }

  FrameId frame(FrameId id) {
    FrameId& known = frames_[index(id)];
    if (known != FrameId::none || id == FrameId::none) return known;
    Frame copy = trace_.tables[id];
    Module module = trace_.tables[copy.module];
    module.path = string(module.path);
    if (copy.module != ModuleId::none) copy.module = writer_.intern(module);
    copy.function = string(copy.function);
    copy.file = string(copy.file);
    copy.instance = string(copy.instance);
    return known = writer_.intern(copy);
  }

  /// Callers come first in the table.
  StackId stack(const Stack& of) {
    const StackId caller = index(of.caller) < stacks_.size() ? stacks_[index(of.caller)] : StackId::none;
    return writer_.intern(Stack{.frame = frame(of.frame), .caller = caller});
  }

  OriginId origin(Origin copy) {
    const Tables& tables = trace_.tables;
    Pool pool = tables[copy.pool];
    pool.name = string(pool.name);
    Thread thread = tables[copy.thread];
    thread.name = string(thread.name);
    copy.heap = heaps_[index(copy.heap)];
    if (copy.pool != PoolId::default_pool) copy.pool = writer_.intern(pool);
    if (copy.stream != StreamId::default_stream) copy.stream = writer_.intern(tables[copy.stream]);
    if (copy.thread != ThreadId::unknown) copy.thread = writer_.intern(thread);
    if (copy.metadata != StringId::none) copy.metadata = string(copy.metadata);
    return writer_.intern(copy);
  }

  const Trace& trace_;
  TraceWriter& writer_;
  std::vector<FrameId> frames_;
  std::vector<StackId> stacks_;
  std::vector<HeapId> heaps_;
  std::vector<OriginId> origins_;
  std::vector<AllocationId> copies_;
};

bool has_heap_on_device(const Tables& tables, Level level) {
  return std::ranges::any_of(std::span(tables.heaps).subspan(1),
                             [&](const Heap& heap) { return heap.level == level && heap.device >= 0; });
}

Losses sum_of(const Losses& recording, const Losses& profile) {
  Losses sum = recording;
  sum.ring_full += profile.ring_full;
  sum.hook_refused += profile.hook_refused;
  sum.unknown_actions += profile.unknown_actions;
  sum.unmatched_frees += profile.unmatched_frees;
  sum.preexisting_allocations += profile.preexisting_allocations;
  sum.began_late |= profile.began_late;
  return sum;
}

Result<void> can_be_joined(const Trace& recording, const Trace& profile) {
  const auto refuse = [](std::string what, std::string remedy) {
    return Error{.what = std::move(what), .where = "--profile", .remedy = std::move(remedy)};
  };
  if (!has_heap_on_device(recording.tables, Level::driver))
    return refuse("the recording holds no calls of the driver", "name the trace of memreel record");
  if (recording.losses.folded_events > 0)
    return refuse("a flight recorder's trace is not joined with a profile", "record without --flight");
  if (!has_heap_on_device(profile.tables, Level::framework))
    return refuse("the profile holds no memory of a device",
                  "profile a program that runs on a GPU; with allocators of cudaMallocAsync the recording itself has "
                  "each tensor");
  const auto& when = recording.events.time;
  const auto& then = profile.events.time;
  if (then.front() > when.back() || then.back() < when.front())
    return refuse("the profile is of another time than the recording", "name one that this run of the program made");
  return {};
}

}  // namespace

Result<fs::path> profile_in(const fs::path& path) {
  std::error_code problem;
  if (!fs::is_directory(path, problem)) return path;
  fs::path newest;
  fs::file_time_type at;
  for (fs::recursive_directory_iterator file(path, fs::directory_options::skip_permission_denied, problem), end;
       !problem && file != end; file.increment(problem)) {
    const std::string name = file->path().filename().string();
    if (!name.ends_with(".xplane.pb") && !name.ends_with(".xplane.pb.gz")) continue;
    std::error_code ignored;
    const fs::file_time_type time = file->last_write_time(ignored);
    if (!newest.empty() && time <= at) continue;
    newest = file->path();
    at = time;
  }
  if (newest.empty())
    return Error{.what = "holds no *.xplane.pb",
                 .where = path.string(),
                 .remedy = "name the directory that jax.profiler.trace() was given"};
  return newest;
}

Result<void> join(const Trace& recording, const Trace& profile, std::unique_ptr<ByteSink> sink,
                  const WriterOptions& options) {
  if (Result<void> sound = can_be_joined(recording, profile); !sound) return sound;
  TraceWriter writer(std::move(sink), recording.header, options);
  Copier calls(recording, writer), tensors(profile, writer);
  for (InitialHeap initial : recording.initial_heaps) {
    initial.heap = calls.heap(initial.heap);
    for (auto& segment : initial.segments) segment.origin = calls.origin(segment.origin);
    writer.add_initial_heap(std::move(initial));
  }
  std::size_t next = 0;
  const auto append_until = [&](Nanoseconds time) {
    for (; next < profile.events.count() && profile.events.time[next] < time; ++next) {
      const Tables& tables = profile.tables;
      const bool is_on_device = tables[tables[profile.events.origin[next]].heap].device >= 0;
      if (!is_segment(profile.events.kind[next]) || !is_on_device) tensors.append(next);
    }
  };
  for (std::size_t i = 0; i < recording.events.count(); ++i) {
    append_until(recording.events.time[i]);
    calls.append(i);
  }
  append_until(Nanoseconds::max());
  writer.set_losses(sum_of(recording.losses, profile.losses));
  writer.set_python_holders(recording.python_holders);
  return writer.finish();
}

}  // namespace memreel
