// The device at the time of recording: grants what it granted, refuses what it refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/engine/device.h"
#include "analyzer/engine/prepared.h"
#include "formats/model/trace.h"

namespace memreel {

/// Follows the recorded segment events of one heap and compares them with what a policy does.
///
/// Segment events precede the request that caused them, so while a request is served the device knows what the recorded
/// allocator did for it. A recorded segment or mapping is granted at its address; one preceded by recorded releases, or
/// of a request that failed, is refused. Anything else is a mismatch: the policy did something that the recorded
/// allocator did not.
class RecordedDevice final : public Device {
 public:
  RecordedDevice(const Trace& trace, const Prepared& heap, std::optional<Bytes> capacity);

  // What is held from the start takes the place of the segment events before the heap's first row: these are not
  // compared, nor counted.

  /// Call before the policy executes row `row` of the heap.
  void begin(std::size_t row);
  /// Call after that. Segment events of this row that were not repeated are mismatches.
  void end();
  /// Call after all rows: remaining segment events are mismatches.
  void finish();

  std::optional<Address> reserve(Bytes size) override;
  void release(Address address, Bytes size) override;
  std::optional<Addresses> reserve_addresses(Bytes least, Bytes unit) override;
  bool map(Address address, Bytes size) override;
  void unmap(Address address, Bytes size) override;
  std::optional<Address> hold(Address recorded, Bytes size) override;
  std::optional<Addresses> hold_addresses(Address recorded, Bytes least, Bytes unit) override;
  bool hold_mapped(Address address, Bytes size) override;
  bool allows(Bytes size) const override { return !refused(size); }
  bool is_told_not_to_take(Bytes size) const override { return refused(size); }
  std::optional<Bytes> capacity() const override { return capacity_; }

  /// The first difference, if any.
  struct Mismatch {
    std::uint64_t event = 0;
    std::string expected, happened;
    std::size_t position = 0;                       // of the next recorded segment event, among them
    std::optional<RecordedSegment> recorded, ours;  // what was released, if that is how they differ
  };
  const std::optional<Mismatch>& mismatch() const { return mismatch_; }

  std::uint64_t segment_events() const { return segments_.size() - held_; }
  std::uint64_t matches() const { return matches_; }
  Bytes peak_reserved() const { return peak_reserved_; }                    // of the policy
  Bytes recorded_peak_reserved() const { return recorded_peak_reserved_; }  // of the recording

 private:
  struct SegmentEvent {
    std::uint32_t event = 0;
    EventKind kind = EventKind::unknown;
    Address address;
    Bytes size;
  };

  /// The next recorded segment event, if the policy may cause it in this row.
  const SegmentEvent* due() const;
  /// Whether the device refused the `size` bytes that the policy requests, or no device has that many.
  bool refused(Bytes size) const;
  void take(Bytes size);
  void held();
  /// Counts a match if this is the next recorded event, otherwise notes a mismatch.
  void repeats(EventKind kind, Address address, Bytes size);
  static std::string text_of(const SegmentEvent* event);
  void differ(std::string expected, std::string happened, std::optional<RecordedSegment> released = {});

  const Prepared& heap_;
  std::optional<Bytes> capacity_;
  std::vector<SegmentEvent> segments_;
  std::size_t next_ = 0;
  std::size_t held_ = 0;  // at the front of segments_: they stand for what is held from the start
  std::size_t row_ = 0;
  std::uint32_t until_ = 0;  // segment events before this one are due in this row
  std::uint64_t matches_ = 0;
  Bytes reserved_, peak_reserved_, recorded_peak_reserved_;
  Address elsewhere_;  // for segments that were not recorded
  std::optional<Mismatch> mismatch_;
};

}  // namespace memreel
