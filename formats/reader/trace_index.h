// Finds the state of all heaps at any instant of a trace without reading all of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/model/live_set.h"
#include "formats/model/result.h"
#include "formats/reader/trace_reader.h"

namespace memreel {

/// Where the packets of a trace are: from its footer, or by scanning when it has none.
class TraceIndex {
 public:
  struct Block {
    std::uint64_t offset = 0;  // of the packet in the file
    std::uint64_t size = 0;
    std::uint64_t first_event = 0;
    Nanoseconds first_time{};
    bool is_keyframe = false;
  };

  static Result<TraceIndex> open(std::shared_ptr<ByteFile> file, const std::string& name);

  const std::vector<Block>& blocks() const { return blocks_; }
  std::uint64_t event_count() const { return event_count_; }
  bool from_footer() const { return from_footer_; }

  /// The state after exactly `events` events (clamped to the trace). Cost: one keyframe and the blocks after it.
  Result<HeapSnapshot> state_after(std::uint64_t events) const;
  /// The state after the last event whose time is <= `time`, taking blocks to be ordered by time.
  Result<HeapSnapshot> state_at(Nanoseconds time) const;

 private:
  std::shared_ptr<ByteFile> file_;
  std::string name_;
  std::vector<Block> blocks_;
  std::uint64_t event_count_ = 0;
  bool from_footer_ = false;
};

}  // namespace memreel
