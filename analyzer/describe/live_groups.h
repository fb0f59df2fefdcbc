// SPDX-License-Identifier: Apache-2.0
// Who holds the memory at an instant, by a chosen grouping.
#pragma once

#include <span>

#include "analyzer/analysis/category/category.h"
#include "analyzer/analysis/category/classify.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "formats/model/quantity.h"
#include "formats/model/trace.h"

namespace memreel {

// The appearance of categories in all charts: one order and one colour each.

struct CategoryStyle {
  Category category = Category::unknown;
  std::uint32_t on_light = 0, on_dark = 0;  // 0xRRGGBB
};

/// Every category once, in stacking order: the longest-lived at the bottom.
std::span<const CategoryStyle> category_styles();

/// Every colour as a CSS property, "--parameter:#0072b2;", for a light or a dark background.
std::string css_colours(bool dark);
/// "var(--parameter)".
std::string css_colour(Category category);

// Live memory at an instant, by category.

/// The module call that a stack lies in, else its explaining frame; without one, its function is "(no stack)".
FrameText holder_frame(const Tables& tables, const Categories& categories, StackId stack);

/// It as "forward (modeling_gpt2.py:240)". Files have no directories, because lines are short.
std::string holder_label(const Tables& tables, const Categories& categories, StackId stack);

/// `label`; in a recording of instants "(no stack)" for what has none, as nothing of it is from before a recording.
std::string label_in(const Trace& trace, std::string label);

struct CategoryShare {
  struct Holder {
    std::string label;  // a module call; else a line of the program
    Bytes bytes;
  };

  Category category = Category::unknown;
  Bytes bytes;
  std::uint64_t count = 0;
  Evidence evidence = Evidence::none;  // of most of its bytes
  std::vector<Holder> holders;         // largest first; never empty

  /// Of its bytes, what its largest holder has.
  double largest() const { return share_of(holders.front().bytes, bytes); }
};

/// The allocations of `heap` that are live after the first `events` events, largest category first. Omits empty
/// categories.
std::vector<CategoryShare> category_shares(const Trace& trace, const std::vector<Lifetime>& lives,
                                           const Categories& categories, HeapId heap, std::uint64_t events);

/// Whether the category of any of it is known.
bool says_something(std::span<const CategoryShare> shares);

enum class GroupBy : std::uint8_t {
  stack,
  line,      // of the explaining frame (own_frame.h)
  function,  // likewise
  module,    // native: of the innermost frame
  library,   // the first outside CUDA and PyTorch's allocators; Python frames count as their package; NCCL's
             // communicators
  layer,     // the module calls that the stack lies in
  category,
  phase,
  thread,
  stream,
  pool,
  device,
  metadata,  // what the program attached: PyTorch's user_metadata
  tag        // the ranges that the program had open in the allocating thread: "epoch > forward"
};

/// "stack", "line"...; nothing if there is no such grouping.
std::optional<GroupBy> group_by_name(std::string_view name);
std::string_view name_of(GroupBy by);
std::vector<std::string_view> group_by_names();

struct LiveGroup {
  std::string label;              // one line
  StackId stack = StackId::none;  // the largest stack of the group; its only one if grouped by stack
  Bytes bytes;
  std::uint64_t count = 0;
  std::vector<AllocationId> allocations;  // by id
};

/// Whether live_groups() needs the trace's categories for this grouping.
bool needs_categories(GroupBy by);

/// The allocations of `heap` that are live after the first `events` events, largest group first; ties by label.
/// `categories`: of the trace; may be empty unless needs_categories(by).
std::vector<LiveGroup> live_groups(const Trace& trace, const std::vector<Lifetime>& lives, const Categories& categories,
                                   HeapId heap, std::uint64_t events, GroupBy by);

/// What a group held at its own peak, whenever that was.
struct GroupPeak {
  std::string label;
  Bytes peak;
  std::uint64_t events = 0;  // number of events by then, the first time
  std::uint64_t count = 0;   // its allocations, from the first event to the last
};

/// Of all allocations of `heap`, largest peak first. The other parameters are those of live_groups().
std::vector<GroupPeak> group_peaks(const Trace& trace, const Categories& categories, HeapId heap, GroupBy by);

}  // namespace memreel
