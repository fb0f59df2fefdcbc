// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/allocation_map.h"

#include <algorithm>
#include <cmath>

#include "viewer/model/heap_at.h"

namespace memreel::viewer {
namespace {

/// Calls `take` with each allocation of `heap` held at any time between two events, and the event that begins it.
template <class Take>
bool for_each_in_range(const Document& document, HeapId heap, std::uint32_t first, std::uint32_t end,
                       const Progress* progress, const Take& take) {
  for (const std::uint32_t id : held_at(document, heap, first)) take(id, document.begin_of(id));
  const std::uint32_t first_id = document.allocations_before(first), end_id = document.allocations_before(end);
  for (std::uint32_t id = first_id; id < end_id; ++id) {
    if (progress != nullptr && id % (1U << 16U) == 0) {
      if (progress->cancelled()) return false;
      progress->set(static_cast<double>(id - first_id) / (end_id - first_id));
    }
    if (document.heap_of(document.origin_of(id)) == heap) take(id, document.begin_of(id));
  }
  return true;
}

/// Merges address ranges into a sorted list without overlaps.
std::vector<AddressScale::Range> merged(std::vector<std::pair<Address, Address>> parts) {
  std::ranges::sort(parts);
  std::vector<AddressScale::Range> ranges;
  for (const auto& [begin, end] : parts) {
    if (!ranges.empty() && begin <= ranges.back().begin + ranges.back().size) {
      AddressScale::Range& last = ranges.back();
      last.size = std::max(last.size, end - last.begin);
    } else {
      ranges.push_back({.begin = begin, .size = end - begin});
    }
  }
  std::uint64_t offset = 0;
  for (AddressScale::Range& range : ranges) {
    range.offset = offset;
    offset += range.size.count;
  }
  return ranges;
}

/// Maps times and addresses to pixels.
class Canvas {
 public:
  Canvas(const MapQuery& query, MapPicture& picture)
      : query_(query), picture_(picture), total_(static_cast<double>(picture.scale.total())) {
    const bool by_time = query.axis.by() == AxisBy::time;
    from_ = by_time ? 0 : query.axis.position_of(query.begin);
    const double length =
        by_time ? static_cast<double>((query.end - query.begin).count()) : query.axis.position_of(query.end) - from_;
    per_pixel_ = std::max(length, 1e-9) / query.width;
    per_pixel_bytes_ = std::max((query.high - query.low) * total_ / query.height, 1e-9);
  }

  double x_of(Nanoseconds time) const {
    const double at = query_.axis.by() == AxisBy::time ? static_cast<double>((time - query_.begin).count())
                                                       : query_.axis.position_of(time) - from_;
    return at / per_pixel_;
  }
  /// From the top.
  double y_of(std::uint64_t offset) const {
    return query_.height - (static_cast<double>(offset) - query_.low * total_) / per_pixel_bytes_;
  }

  /// True when the rectangle is narrower than a pixel in either direction.
  bool fill(double left, double right, double top, double bottom, std::uint32_t colour, bool edge) {
    const auto pixel = [](double v, std::uint32_t limit) {
      return static_cast<std::uint32_t>(std::clamp(v, 0.0, static_cast<double>(limit)));
    };
    if (right < 0 || bottom < 0 || left >= query_.width || top >= query_.height) return false;
    const std::uint32_t x0 = pixel(std::floor(left), query_.width - 1);
    const std::uint32_t x1 = std::max(x0 + 1, pixel(std::round(right), query_.width));
    const std::uint32_t y0 = pixel(std::floor(top), query_.height - 1);
    const std::uint32_t y1 = std::max(y0 + 1, pixel(std::round(bottom), query_.height));
    // A line of background between rectangles that are large enough.
    const std::uint32_t y_end = edge && y1 - y0 >= 4 ? y1 - 1 : y1;
    const std::uint32_t x_end = edge && x1 - x0 >= 4 ? x1 - 1 : x1;
    for (std::uint32_t y = y0; y < y_end; ++y)
      std::fill_n(picture_.pixels.begin() + static_cast<std::ptrdiff_t>(y) * query_.width + x0, x_end - x0, colour);
    return right - left < 1 || bottom - top < 1;
  }

 private:
  const MapQuery& query_;
  MapPicture& picture_;
  double total_;
  double from_ = 0, per_pixel_ = 1;  // of the axis
  double per_pixel_bytes_ = 1;
};

}  // namespace

AddressScale::AddressScale(const Document& document, HeapId heap, std::uint32_t first_event, std::uint32_t end_event) {
  std::vector<std::pair<Address, Address>> parts;
  const HeapSeries* const series = document.series(heap);
  if (series != nullptr && series->has_segments) {
    const std::uint32_t end = document.segments_before(end_event);
    for (std::uint32_t i = 0; i < end; ++i) {
      const Segment s = document.segment(i);
      if (s.end >= first_event && document.heap_of(s.origin) == heap) parts.emplace_back(s.address, s.address + s.size);
    }
  } else {
    for_each_in_range(document, heap, first_event, end_event, nullptr, [&](std::uint32_t id, std::uint32_t) {
      // Neighbours within one driver page count as one range.
      constexpr std::uint64_t page = std::uint64_t{2} << 20U;
      const std::uint64_t begin = document.address_of(id).value / page * page;
      const std::uint64_t last = document.address_of(id).value + document.size_of(id).count;
      parts.emplace_back(Address{begin}, Address{(last / page + 1) * page});
    });
  }
  ranges_ = merged(std::move(parts));
}

std::optional<std::uint64_t> AddressScale::offset_of(Address address) const {
  const auto after = std::ranges::upper_bound(ranges_, address, {}, &Range::begin);
  if (after == ranges_.begin()) return std::nullopt;
  const Range& range = *std::prev(after);
  if (address - range.begin > range.size) return std::nullopt;
  return range.offset + (address - range.begin).count;
}

std::optional<Address> AddressScale::address_at(std::uint64_t offset) const {
  const auto after = std::ranges::upper_bound(ranges_, offset, {}, &Range::offset);
  if (after == ranges_.begin()) return std::nullopt;
  const Range& range = *std::prev(after);
  if (offset - range.offset >= range.size.count) return std::nullopt;
  return range.begin + Bytes{offset - range.offset};
}

std::optional<MapPicture> draw_map(const Document& document, const MapQuery& query, const ColourOf& colour_of,
                                   std::uint32_t segment_colour, const Progress& progress) {
  MapPicture picture{.query = query};
  picture.pixels.resize(std::size_t{query.width} * query.height);
  if (document.empty() || query.width == 0 || query.height == 0 || query.end <= query.begin) return picture;
  // The scale covers the whole trace, so that addresses stay in place when time is zoomed.
  picture.scale = AddressScale(document, query.heap, 0, document.event_count());
  const std::uint32_t first = document.events_until(query.begin), end = document.events_until(query.end);
  Canvas canvas(query, picture);
  const auto x_of_event = [&](std::uint32_t event, double open) {
    return event == never ? open : canvas.x_of(document.time(event));
  };
  const double right_end = canvas.x_of(std::min(query.end, document.last_time())) + 1;

  const std::uint32_t segment_end = document.segments_before(end);
  for (std::uint32_t i = 0; i < segment_end; ++i) {
    const Segment s = document.segment(i);
    if (s.end < first || document.heap_of(s.origin) != query.heap) continue;
    const auto offset = picture.scale.offset_of(s.address);
    if (!offset) continue;
    canvas.fill(x_of_event(s.begin, 0), x_of_event(s.end, right_end), canvas.y_of(*offset + s.size.count),
                canvas.y_of(*offset), segment_colour, false);
  }
  struct Large {
    double area = 0;
    std::uint32_t id = 0;
  };
  std::vector<Large> large;
  const bool done =
      for_each_in_range(document, query.heap, first, end, &progress, [&](std::uint32_t id, std::uint32_t begin) {
        const auto offset = picture.scale.offset_of(document.address_of(id));
        if (!offset) return;
        const double top = canvas.y_of(*offset + document.size_of(id).count), bottom = canvas.y_of(*offset);
        if (bottom < 0 || top > query.height) return;
        ++picture.drawn;
        const double left = canvas.x_of(document.time(begin)), right = x_of_event(document.completed(id), right_end);
        if (canvas.fill(left, right, top, bottom, colour_of(id), true)) ++picture.folded;
        const double width = std::min<double>(right, query.width) - std::max(left, 0.0);
        const double height = std::min<double>(bottom, query.height) - std::max(top, 0.0);
        if (query.label_width != 0 && width >= query.label_width && height >= query.label_height)
          large.push_back({width * height, id});
      });
  if (!done) return std::nullopt;
  constexpr std::size_t most_labels = 200;
  std::ranges::sort(large, std::ranges::greater{}, &Large::area);
  for (std::size_t i = 0; i < std::min(large.size(), most_labels); ++i) {
    const Allocation a = document.allocation(large[i].id);
    picture.labelled.push_back(
        {.id = large[i].id,
         .offset = picture.scale.offset_of(a.address).value_or(0),
         .size = a.size,
         .begin = document.time(a.begin),
         .end = a.completed == never ? std::nullopt : std::optional(document.time(a.completed))});
  }
  return picture;
}

std::optional<std::uint32_t> allocation_at(const Document& document, HeapId heap, Nanoseconds time, Address address) {
  const std::uint32_t events = document.events_until(time);
  for (const std::uint32_t id : held_at(document, heap, events)) {
    const Address begin = document.address_of(id);
    if (address >= begin && address - begin < std::max(document.size_of(id), Bytes{1})) return id;
  }
  return std::nullopt;
}

}  // namespace memreel::viewer
