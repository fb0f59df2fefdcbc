// SPDX-License-Identifier: Apache-2.0
// A hand-made trace small enough to check by eye, for tests of everything that reads traces.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/model/frame_kind.h"
#include "formats/model/stack_text.h"
#include "formats/model/trace.h"

namespace memreel::testing {

inline void set_time(Events& events, std::size_t i, Nanoseconds time) {
  Event event = events[i];
  event.time = time;
  events.set(i, event);
}

/// A frame as a trace would have it. `module`: the path of its binary; empty for Python frames.
inline FrameText frame(std::string_view function, std::string_view file, std::uint32_t line = 0,
                       std::string_view module = {}) {
  const FrameNature nature = nature_of(function, file, module, !module.empty());
  return {.function = function,
          .file = file,
          .short_file = file,
          .line = line,
          .module = ModuleId{module.empty() ? 0U : 1U},
          .module_path = module,
          .kind = nature.kind,
          .owner = nature.owner};
}

/// Builds a trace in memory, event by event. Ids are rows of the tables, added as needed.
class TraceBuilder {
 public:
  TraceBuilder() { heap("torch.cuda", Level::framework, 0); }

  HeapId heap(std::string_view name, Level level, std::int32_t device) {
    trace_.tables.heaps.push_back({.name = string(name), .level = level, .device = device});
    return HeapId{static_cast<std::uint32_t>(trace_.tables.heaps.size() - 1)};
  }

  OriginId origin(HeapId heap, std::uint64_t stream_handle = 0, PoolId pool = PoolId::default_pool) {
    trace_.tables.streams.push_back({.handle = stream_handle});
    const StreamId stream = stream_handle == 0 ? StreamId::default_stream : last<StreamId>(trace_.tables.streams);
    trace_.tables.origins.push_back({.heap = heap, .pool = pool, .stream = stream});
    return last<OriginId>(trace_.tables.origins);
  }

  /// Frames innermost first, as "function@file:line"; with " [GPT2MLP 3]" appended, a call of that module.
  StackId stack(const std::vector<std::string_view>& frames) {
    StackId caller = StackId::none;
    for (auto frame = std::rbegin(frames); frame != std::rend(frames); ++frame) {
      const std::size_t at = frame->find('@');
      const std::size_t colon = frame->rfind(':');
      const std::size_t instance = frame->find(" [");
      const StringId function = string(frame->substr(0, at));
      const StringId file = string(frame->substr(at + 1, colon - at - 1));
      trace_.tables.frames.push_back(
          {.function = function,
           .file = file,
           .line = static_cast<std::uint32_t>(std::stoul(std::string(frame->substr(colon + 1)))),
           .instance = instance == std::string_view::npos
                           ? StringId::none
                           : string(frame->substr(instance + 2, frame->size() - instance - 3))});
      classify_frames(trace_.tables, trace_.tables.frames.size() - 1);
      shorten_paths(trace_.tables);
      trace_.tables.stacks.push_back({last<FrameId>(trace_.tables.frames), caller});
      caller = last<StackId>(trace_.tables.stacks);
    }
    return caller;
  }

  AllocationId alloc(OriginId origin, Address address, Bytes size, StackId stack = StackId::none) {
    const AllocationId id{static_cast<std::uint32_t>(trace_.events.allocation_count())};
    push({.kind = EventKind::alloc,
          .origin = origin,
          .stack = stack,
          .allocation = id,
          .address = address,
          .size = size});
    return id;
  }

  void free_requested(AllocationId id) { undo(EventKind::free_requested, id); }
  void free_completed(AllocationId id) { undo(EventKind::free_completed, id); }
  void free(AllocationId id) {
    free_requested(id);
    free_completed(id);
  }
  void event(EventKind kind, OriginId origin, Address address, Bytes size, StackId stack = StackId::none) {
    push({.kind = kind, .origin = origin, .stack = stack, .address = address, .size = size});
  }
  void push(Event event) {
    event.time = Nanoseconds{1000 * static_cast<std::int64_t>(trace_.events.count())};
    trace_.events.push_back(event);
  }

  StringId string(std::string_view text) {
    std::vector<std::string>& strings = trace_.tables.strings;
    const auto found = std::ranges::find(strings, text);
    if (found != strings.end()) return StringId{static_cast<std::uint32_t>(found - strings.begin())};
    strings.emplace_back(text);
    return last<StringId>(strings);
  }

  Trace& trace() { return trace_; }

 private:
  template <class Id, class Rows>
  static Id last(const Rows& rows) {
    return Id{static_cast<std::uint32_t>(rows.size() - 1)};
  }
  void undo(EventKind kind, AllocationId id) {
    Event event = trace_.events[trace_.events.begin_of(id)];
    event.kind = kind;
    push(event);
  }

  Trace trace_;
};

}  // namespace memreel::testing
