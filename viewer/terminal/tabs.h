// SPDX-License-Identifier: Apache-2.0
// The tabs below the timeline, as lists.
#pragma once

#include <array>
#include <filesystem>
#include <memory>

#include "viewer/model/allocation_list.h"
#include "viewer/model/background.h"
#include "viewer/model/ranks.h"
#include "viewer/terminal/holders.h"
#include "viewer/terminal/list.h"
#include "viewer/terminal/open_trace.h"
#include "viewer/terminal/screen.h"

namespace memreel::viewer::terminal {

enum class Tab : std::uint8_t {
  allocations,
  holders,
  flame,
  heap,
  leaks,
  fragmentation,
  failures,
  settings,
  compare,
  variables,
  ranks
};

struct TabName {
  Tab tab = Tab::holders;
  char key = '2';                 // as in the window, where its tab has the same contents
  std::string_view title, brief;  // the latter where there is no room for all titles
  std::string_view destination;   // of verdicts (Destination::tab)
};

/// In the order of Tab.
inline constexpr std::array<TabName, 11> tab_names{{{Tab::allocations, '1', "allocations", "allocs", "allocations"},
                                                    {Tab::holders, '2', "holders", "holders", "stacks"},
                                                    {Tab::flame, '3', "flame", "flame", "flame"},
                                                    {Tab::heap, '4', "heap", "heap", "segments"},
                                                    {Tab::leaks, '5', "leaks", "leaks", "leaks"},
                                                    {Tab::fragmentation, '6', "fragmentation", "frag", "fragmentation"},
                                                    {Tab::failures, '7', "failures", "fails", "oom"},
                                                    {Tab::settings, '8', "settings", "set", "policies"},
                                                    {Tab::compare, '9', "compare", "diff", "compare"},
                                                    {Tab::variables, 'u', "variables", "vars", "holders"},
                                                    {Tab::ranks, 'r', "ranks", "ranks", "ranks"}}};

enum class TreeLook : std::uint8_t { plain, bars };  // `bars`: of each row's share
/// Rows of the tree that are shown; its nodes in the same order are `rows`. `scope`: of which time; empty: the cursor.
List holders_list(const HolderTree& tree, const HolderView& view, const std::vector<HolderRow>& rows, const Look& look,
                  const std::string& scope, TreeLook tree_look);

/// The segments at the cursor, each as a bar of `width` characters.
List heap_list(const Session& session, const Look& look, int width);

// These say so where nothing is known yet.

List leaks_list(const Session& session, const Look& look);
List fragmentation_list(const Session& session, const Look& look);
List failures_list(const Session& session, const Look& look);
List settings_list(const Session& session, const Look& look);
/// What keeps memory in a Python program, as a walk over its objects found.
List variables_list(const Session& session, const Look& look);
/// `width`: of the list; the rank in `shown` is marked.
List ranks_list(const Ranks& ranks, const std::filesystem::path& shown, const Look& look, int width);

// The allocations that were held at any time in the view, or in the marked range, as a list.

class Allocations {
 public:
  /// Takes over what is listed, and asks for what should be. `sorted_by`: a column; none: as they were made.
  void update(const Session& session, std::optional<std::size_t> sorted_by);
  /// "listing"; empty: nothing.
  std::string doing() { return work_.running() ? "listing" : ""; }
  /// Another whenever another list is to be made; null until there is one.
  const std::shared_ptr<const AllocationList>& listed() const { return listed_; }
  List list(const Session& session, const Look& look) const;

 private:
  std::shared_ptr<const AllocationList> listed_;
  Background<AllocationQuery, AllocationList> work_;
};

}  // namespace memreel::viewer::terminal
