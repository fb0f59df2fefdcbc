// SPDX-License-Identifier: Apache-2.0
// Finds the state of all heaps at any instant of a trace without reading all of it.
#pragma once

#include <memory>

#include "formats/model/live_set.h"
#include "formats/model/result.h"
#include "formats/reader/trace_reader.h"

namespace memreel {

/// The positions of a trace's packets: from its footer, or by scanning if that is missing or damaged.
///
/// Events are counted as recorded: those lost to damage count too, and counts continue through a concatenation. In an
/// undamaged trace that is their index in the result of load(), and allocation IDs are the same too.
class TraceIndex {
 public:
  struct Block {
    std::uint64_t offset = 0;  // of the packet in the file
    std::uint64_t size = 0;    // of the packet; from a footer: up to the next packet
    std::uint64_t first_event = 0;
    Nanoseconds first_time{};
    bool is_keyframe = false;
  };

  /// Fails if the file can't be read or does not begin like a trace. A file still being written is indexed up to its
  /// current end.
  static Result<TraceIndex> open(std::shared_ptr<ByteFile> file, const std::string& name);

  const Tables& tables() const;
  const std::vector<Block>& blocks() const;
  std::uint64_t event_count() const;
  bool from_footer() const;

  /// The state after exactly `events` events (clamped to the trace). Cost: one keyframe and the blocks after it, for
  /// each trace of a concatenation that begins before.
  ///
  /// Damaged blocks after the keyframe are skipped, and HeapSnapshot::missing_events counts their events: what they
  /// allocated is then missing and what they freed still live. A later keyframe corrects that.
  Result<HeapSnapshot> state_after(std::uint64_t events) const;
  /// The state after the last event whose time is <= `time`, assuming that blocks are ordered by time.
  Result<HeapSnapshot> state_at(Nanoseconds time) const;

 private:
  class Impl;
  explicit TraceIndex(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

}  // namespace memreel
