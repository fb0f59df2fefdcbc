// The allocation map: address over time, each allocation a rectangle, as pixels.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "analyzer/category/category.h"
#include "viewer/model/axis_scale.h"
#include "viewer/model/background.h"
#include "viewer/model/document.h"
#include "viewer/model/filter.h"

namespace memreel::viewer {

/// The address space of a heap with the parts that it never had left out. Where segments are far apart a picture of
/// all addresses would be empty.
class AddressScale {
 public:
  AddressScale() = default;
  /// Of the segments that exist between two events; of the allocations when the trace has no segments.
  AddressScale(const Document& document, HeapId heap, std::uint32_t first_event, std::uint32_t end_event);

  struct Range {
    Address begin;
    Bytes size;
    std::uint64_t offset = 0;  // of its begin on the scale, in bytes
    friend bool operator==(const Range&, const Range&) = default;
  };
  const std::vector<Range>& ranges() const { return ranges_; }
  std::uint64_t total() const { return ranges_.empty() ? 0 : ranges_.back().offset + ranges_.back().size.count; }
  /// None when the address is not on the scale.
  std::optional<std::uint64_t> offset_of(Address address) const;
  std::optional<Address> address_at(std::uint64_t offset) const;

 private:
  std::vector<Range> ranges_;
};

enum class MapColour : std::uint8_t { category, stack, size, age, stream, pool, verdict };
inline constexpr std::array<std::string_view, 7> colour_words{"category", "stack", "size",   "age",
                                                              "stream",   "pool",  "verdict"};

struct MapQuery {
  HeapId heap = HeapId::none;
  Nanoseconds begin{}, end{};                       // of the picture
  AxisScale axis;                                   // what its width counts
  double low = 0, high = 1;                         // part of the address scale
  std::uint32_t width = 0, height = 0;              // pixels
  std::uint32_t label_width = 0, label_height = 0;  // pixels, of rectangles that have room for a label; 0: none have
  MapColour colour = MapColour::stack;
  std::uint32_t palette = 0;             // changes with the colours
  std::uint32_t classified = 0;          // allocations; 0 where that does not matter
  std::optional<StackId> lit;            // all but this stack's are pale,
  std::optional<Category> lit_category;  // or all but this category's
  std::shared_ptr<const Sieve> sieve;    // what does not pass is pale; null: nothing is
  std::uint32_t version = 0;

  friend bool operator==(const MapQuery&, const MapQuery&) = default;
};

/// Pixels are 0xAABBGGRR, row by row, low addresses at the bottom.
struct MapPicture {
  MapQuery query;
  AddressScale scale;
  std::vector<std::uint32_t> pixels;
  std::uint32_t drawn = 0;              // rectangles
  std::uint32_t folded = 0;             // of these, narrower than a pixel: they share one with others
  std::vector<std::uint32_t> labelled;  // allocations that have room for a label; of too many the largest
};

/// The colour of an allocation, `0xAABBGGRR`.
using ColourOf = std::function<std::uint32_t(std::uint32_t allocation)>;

/// Looks at every allocation that is held at some time of the picture. None when cancelled.
std::optional<MapPicture> draw_map(const Document& document, const MapQuery& query, const ColourOf& colour_of,
                                   std::uint32_t segment_colour, const Progress& progress);

/// The allocation that is held at `time` and lies at `address`.
std::optional<std::uint32_t> allocation_at(const Document& document, HeapId heap, Nanoseconds time, Address address);

}  // namespace memreel::viewer
