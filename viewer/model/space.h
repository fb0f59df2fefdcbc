// SPDX-License-Identifier: Apache-2.0
// What is at an address of a heap at an instant: the segment, what is in it until when, and what a hole could serve.
#pragma once

#include <array>

#include "analyzer/analysis/insight/fragmentation.h"
#include "analyzer/analysis/insight/heap_map.h"
#include "viewer/model/document.h"
#include "viewer/model/heap_at.h"
#include "viewer/model/selection.h"

namespace memreel::viewer {

/// A free part of a segment.
struct Hole {
  Address address;
  Bytes size;
  std::optional<Bytes> largest_request;  // that it could serve; 0: none; nothing: not known for this allocator
};

/// A place whose blocks keep a segment.
struct SpacePlace {
  PinningSite site;           // counts this segment only
  std::uint32_t until = 0;    // the event that ends its last block; never: not in this trace
  std::uint32_t largest = 0;  // its largest block, an allocation
};

struct SpaceBlock {
  HeldBlock block;
  std::uint32_t until = 0;  // likewise
};

struct Space {
  HeldSegment segment;
  PoolStreamKey pool_stream;       // whose requests it serves
  std::optional<Hole> hole;        // at the address; none: a block is there
  Bytes unreleasable;              // free, but kept by what is in use
  Hole largest_hole;               // of the segment; empty if it has none
  std::vector<SpaceBlock> blocks;  // by address
  std::vector<SpacePlace> places;  // the last to go first: once the blocks of all are gone, so can the segment
  std::uint32_t empty_from = 0;    // the event that ends the last block; never: not in this trace
};

/// None if no segment of the heap covers `address` then. Costs as much as the segment has blocks.
std::optional<Space> space_at(const Document& document, const HeapAt& heap, Address address);

/// The order of a heap's segments on screen.
enum class HeapOrder : std::uint8_t { address, size, age };
inline constexpr std::array<std::string_view, 3> heap_order_words{"address", "size", "age"};

/// The segments in that order: largest first, oldest first; equal ones by address.
std::vector<std::uint32_t> ordered_segments(const HeapAt& heap, HeapOrder order);

/// An address that selects a segment rather than a hole in it: that of its first block, if it has any.
Address address_to_select(const HeapAt& heap, const HeldSegment& segment);

/// Selects the largest free block, if there is one.
void select_hole(const HeapAt& heap, Selection& selection);
/// Selects the segment of the selected allocation; without one, the segment after the selected one in the order on
/// screen, the first after the last.
void select_segment(const Document& document, const HeapAt& heap, HeapOrder order, Selection& selection);

}  // namespace memreel::viewer
