// SPDX-License-Identifier: Apache-2.0
// The allocation map, rasterized: address over time, each allocation a rectangle.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "analyzer/analysis/category/category.h"
#include "viewer/model/axis.h"
#include "viewer/model/background.h"
#include "viewer/model/document.h"
#include "viewer/model/typed_input.h"

namespace memreel::viewer {

/// The address space of a heap, without the parts that it never used: where segments are far apart, a picture of all
/// addresses would be empty.
class AddressScale {
 public:
  AddressScale() = default;
  /// Covers the segments that exist between two events, or the allocations if the trace has no segments.
  AddressScale(const Document& document, HeapId heap, std::uint32_t first_event, std::uint32_t end_event);

  struct Range {
    Address begin;
    Bytes size;
    std::uint64_t offset = 0;  // where it begins on the scale, in bytes
    friend bool operator==(const Range&, const Range&) = default;
  };
  const std::vector<Range>& ranges() const { return ranges_; }
  std::uint64_t total() const { return ranges_.empty() ? 0 : ranges_.back().offset + ranges_.back().size.count; }
  /// None if the address is not on the scale.
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
  AxisScale axis;                                   // the unit of its width
  double low = 0, high = 1;                         // visible part of the address scale
  std::uint32_t width = 0, height = 0;              // pixels
  std::uint32_t label_width = 0, label_height = 0;  // minimum size in pixels of a rectangle with a label; 0: no labels
  MapColour colour = MapColour::stack;
  std::uint32_t palette = 0;             // changes with the colours
  std::uint32_t classified = 0;          // number of classified allocations; 0 if irrelevant
  std::optional<StackId> lit;            // all other stacks are pale,
  std::optional<Category> lit_category;  // or all other categories
  std::shared_ptr<const Sieve> sieve;    // non-matching allocations are pale; null: none
  std::uint32_t version = 0;

  friend bool operator==(const MapQuery&, const MapQuery&) = default;
};

/// An allocation with room for a label, and where it is: looked up where the picture is drawn, because a search for
/// each of them would take most of a frame.
struct LabelledAllocation {
  std::uint32_t id = 0;
  std::uint64_t offset = 0;  // on the address scale
  Bytes size;
  Nanoseconds begin{};
  std::optional<Nanoseconds> end;  // none: held to the end
};

/// Pixels are 0xAABBGGRR, in rows, low addresses at the bottom.
struct MapPicture {
  MapQuery query;
  AddressScale scale;
  std::vector<std::uint32_t> pixels;
  std::uint32_t drawn = 0;                   // rectangles
  std::uint32_t folded = 0;                  // of these, narrower than a pixel: they share a pixel with others
  std::vector<LabelledAllocation> labelled;  // the largest if there are too many
};

/// The colour of an allocation, `0xAABBGGRR`.
using ColourOf = std::function<std::uint32_t(std::uint32_t allocation)>;

/// Visits every allocation held at any time in the picture. None when cancelled.
std::optional<MapPicture> draw_map(const Document& document, const MapQuery& query, const ColourOf& colour_of,
                                   std::uint32_t segment_colour, const Progress& progress);

/// The allocation held at `time` that contains `address`.
std::optional<std::uint32_t> allocation_at(const Document& document, HeapId heap, Nanoseconds time, Address address);

}  // namespace memreel::viewer
