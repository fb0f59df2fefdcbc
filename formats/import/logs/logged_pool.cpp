// SPDX-License-Identifier: Apache-2.0
#include "formats/import/logs/logs.h"

#include "formats/model/value_check.h"

namespace memreel::logs {

LoggedPool::LoggedPool(TraceWriter& writer, std::string_view name, std::int32_t device)
    : writer_(writer),
      heap_(writer.intern(Heap{
          .name = writer.intern(name), .level = Level::framework, .device = device, .observes_completion = false})) {}

LineComplaint LoggedPool::allocate(Event event, Losses& losses) {
  if (const LineComplaint complaint = check(event)) return complaint;
  if (const AllocationId before = writer_.live_at(heap_, event.address); before != AllocationId::none) {
    ++losses.hook_refused;
    writer_.append(
        {.kind = EventKind::free_requested, .origin = event.origin, .allocation = before, .time = event.time});
    count_live(event.address, false);
  }
  event.kind = EventKind::alloc;
  writer_.append(event);
  count_live(event.address, true);
  return nullptr;
}

LineComplaint LoggedPool::free(Event event) {
  if (!is_possible(event.address, event.size)) return "it has an address or a size that no device has";
  const bool is_live = writer_.live_at(heap_, event.address) != AllocationId::none;
  event.kind = EventKind::free_requested;
  writer_.append(event);
  if (is_live) count_live(event.address, false);
  return nullptr;
}

LineComplaint LoggedPool::add_segment(Event event, Losses& losses) {
  if (event.size == 0_B) return nullptr;
  if (const LineComplaint complaint = check(event)) return complaint;
  // Older segments still there were freed without a record.
  auto older = segments_.lower_bound(event.address);
  if (older != segments_.begin() && event.address < std::prev(older)->first + std::prev(older)->second.size) --older;
  while (older != segments_.end() && older->first < event.address + event.size) {
    ++losses.hook_refused;
    give_back(older++, event);
  }
  const Segment segment{.size = event.size, .number = next_number_++};
  segments_[event.address] = segment;
  idle_.insert({event.size, {segment.number, event.address}});
  event.kind = EventKind::segment_alloc;
  writer_.append(event);
  return nullptr;
}

bool LoggedPool::remove_idle_segment(Event event) {
  const auto found = idle_.lower_bound({event.size, {0, Address{}}});
  if (found == idle_.end() || found->first != event.size) return false;
  give_back(segments_.find(found->second.second), event);
  return true;
}

void LoggedPool::give_back(Segments::iterator segment, Event event) {
  event.kind = EventKind::segment_free;
  event.stack = StackId::none;
  event.address = segment->first;
  event.size = segment->second.size;
  writer_.append(event);
  idle_.erase({segment->second.size, {segment->second.number, segment->first}});
  segments_.erase(segment);
}

LoggedPool::Segments::iterator LoggedPool::segment_of(Address address) {
  auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return segments_.end();
  --after;
  return address < after->first + after->second.size ? after : segments_.end();
}

void LoggedPool::count_live(Address address, bool more) {
  const auto segment = segment_of(address);
  if (segment == segments_.end()) return;
  std::uint64_t& live = segment->second.live;
  if (!more && live == 0) return;
  const std::pair key{segment->second.size, std::pair{segment->second.number, segment->first}};
  if (more && live == 0) idle_.erase(key);
  live += more ? 1 : std::uint64_t(-1);
  if (live == 0) idle_.insert(key);
}

LineComplaint LoggedPool::check(const Event& event) {
  if (!is_possible(event.address, event.size)) return "it has an address or a size that no device has";
  if (total_.bytes() + event.size > max_total) return "the sizes add up to more than 2^62 bytes";
  total_ += event.size;
  return nullptr;
}

}  // namespace memreel::logs
