// The time series of two sides, one below the other on one axis.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "viewer/model/alignment.h"
#include "viewer/model/background.h"
#include "viewer/model/comparison.h"
#include "viewer/model/series_columns.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

struct CompareSide {
  Moment moment;
  SideScale scale = SideScale::by_time({});
  std::string title;

  Nanoseconds time() const { return moment.document->time(std::max(moment.event, 1U) - 1); }
};
using CompareSides = std::array<CompareSide, 2>;

class CompareRows {
 public:
  /// Draws both sides over the part of the axis covered by the view of `sides[reference]`. Returns the clicked side and
  /// the number of its events before that position.
  struct Click {
    std::size_t side = 0;
    std::uint32_t event = 0;
  };
  std::optional<Click> draw(Scene& scene, const CompareSides& sides, std::size_t reference, AlignBy by, float height);

 private:
  struct Range {
    double begin = 0, end = 1;
    friend bool operator==(const Range&, const Range&) = default;
  };
  /// The key of the columns on screen.
  struct Key {
    std::array<std::shared_ptr<const Document>, 2> documents;
    std::array<HeapId, 2> heaps{};
    std::array<Nanoseconds, 2> begins{}, ends{};  // of the range, in each side's time
    AlignBy by = AlignBy::time;
    Range range;
    std::uint32_t width = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  using Columns = std::array<std::vector<SeriesColumn>, 2>;

  static Range range_of(const Selection& selection, const CompareSides& sides, std::size_t reference);
  void request(Scene& scene, const CompareSides& sides, const Range& range, AlignBy by, float width);
  std::optional<Click> draw_row(Scene& scene, const CompareSides& sides, std::size_t number, const Range& range,
                                std::uint64_t top);
  static void draw_axis(Scene& scene, const CompareSides& sides, const Range& range, AlignBy by);

  Background<Key, Columns> columns_;
  std::optional<double> hovered_, next_hovered_;  // a position on the axis
};

}  // namespace memreel::viewer
