#include "analyzer/insight/category_timeline.h"

#include <algorithm>
#include <utility>

#include "analyzer/insight/time_columns.h"

namespace memreel {
namespace {

/// One heap, event by event.
class Builder {
 public:
  void see(std::size_t column, Category category, Bytes size, bool is_more) {
    fill_until(column);
    Bytes& of_category = now_.at(static_cast<std::size_t>(category));
    if (!is_more) {
      of_category -= size;
      live_ -= size;
      return;
    }
    of_category += size;
    live_ += size;
    if (live_ <= most_) return;
    most_ = live_;
    columns_.back() = now_;
  }

  bool used() const { return !columns_.empty(); }

  std::vector<BytesByCategory> take(std::size_t columns) && {
    fill_until(columns - 1);
    return std::move(columns_);
  }

 private:
  /// What is live when a stretch begins counts as live in it.
  void fill_until(std::size_t column) {
    if (columns_.size() > column) return;
    columns_.resize(column + 1, now_);
    most_ = live_;
  }

  std::vector<BytesByCategory> columns_;
  BytesByCategory now_{};
  Bytes live_;
  Bytes most_;  // in the last column
};

}  // namespace

std::vector<CategoryTimeline> category_timelines(const Trace& trace, const Categories& categories,
                                                 std::size_t columns) {
  const EventColumns& events = trace.events;
  if (events.count() == 0 || columns == 0) return {};
  std::vector<Builder> heaps(trace.tables.heaps.size());
  TimeColumns time(events, columns);
  for (std::size_t i = 0; i < events.count(); ++i) {
    const std::size_t column = time.column(i);
    const bool is_more = events.kind[i] == EventKind::alloc;
    const AllocationId id = events.allocation[i];
    if (id == AllocationId::none || (!is_more && events.kind[i] != EventKind::free_requested)) continue;
    const std::uint32_t begin = trace.allocation_events[index(id)];
    heaps[index(trace.tables[events.origin[begin]].heap)].see(column, categories.category(id), events.size[begin],
                                                              is_more);
  }
  std::vector<CategoryTimeline> timelines;
  for (std::uint32_t h = 0; h < heaps.size(); ++h)
    if (heaps[h].used()) timelines.push_back({HeapId{h}, std::move(heaps[h]).take(columns)});
  return timelines;
}

}  // namespace memreel
