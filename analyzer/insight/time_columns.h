// The columns of a chart of a trace: equal stretches of its time.
#pragma once

#include <algorithm>
#include <cstddef>

#include "formats/model/trace.h"

namespace memreel {

/// For a trace without times, stretches of equally many events.
class TimeColumns {
 public:
  /// `events` must not be empty and must outlive this object. `columns`: at least 1.
  TimeColumns(const EventColumns& events, std::size_t columns)
      : events_(events),
        columns_(columns),
        begin_(events.time.front()),
        end_(*std::ranges::max_element(events.time)),
        timed_(end_ > begin_),
        span_(timed_ ? static_cast<double>((end_ - begin_).count()) : static_cast<double>(events.count())) {}

  bool timed() const { return timed_; }
  Nanoseconds begin() const { return begin_; }
  Nanoseconds end() const { return end_; }

  /// The column of event `i`. Call in event order: times can go back a little where threads meet; columns don't.
  std::size_t column(std::size_t i) {
    const double at = timed_ ? static_cast<double>((events_.time[i] - begin_).count()) : static_cast<double>(i);
    const double share = std::max(0.0, at) / span_;
    last_ = std::max(last_, std::min(columns_ - 1, static_cast<std::size_t>(share * static_cast<double>(columns_))));
    return last_;
  }

 private:
  const EventColumns& events_;
  std::size_t columns_;
  Nanoseconds begin_, end_;
  bool timed_;
  double span_;
  std::size_t last_ = 0;
};

}  // namespace memreel
