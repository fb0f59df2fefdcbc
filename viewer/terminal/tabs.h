// SPDX-License-Identifier: Apache-2.0
// The tabs below the timeline, as lists.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "viewer/model/ranks.h"
#include "viewer/terminal/holders.h"
#include "viewer/terminal/list.h"
#include "viewer/terminal/look.h"
#include "viewer/terminal/session.h"

namespace memreel::viewer::terminal {

enum class Tab : std::uint8_t { holders, heap, leaks, fragmentation, failures, settings, compare, ranks };

struct TabName {
  Tab tab = Tab::holders;
  char key = '2';  // as in the window, where its tab has the same contents
  std::string_view title;
  std::string_view destination;  // of verdicts (Destination::tab)
};

inline constexpr std::array<TabName, 8> tab_names{{{Tab::holders, '2', "holders", "stacks"},
                                                   {Tab::heap, '4', "heap", "segments"},
                                                   {Tab::leaks, '5', "leaks", "leaks"},
                                                   {Tab::fragmentation, '6', "fragmentation", "fragmentation"},
                                                   {Tab::failures, '7', "failures", "oom"},
                                                   {Tab::settings, '8', "settings", "policies"},
                                                   {Tab::compare, '9', "compare", "compare"},
                                                   {Tab::ranks, 'r', "ranks", "ranks"}}};

/// Rows of the tree that are shown; its nodes in the same order are `rows`.
List holders_list(const HolderTree& tree, const HolderView& view, const std::vector<HolderRow>& rows, const Look& look);

/// The segments at the cursor, each as a bar of `width` characters.
List heap_list(const Session& session, const Look& look, int width);

// These say so where nothing is known yet.

List leaks_list(const Session& session, const Look& look);
List fragmentation_list(const Session& session, const Look& look);
List failures_list(const Session& session, const Look& look);
List settings_list(const Session& session, const Look& look);
/// `width`: of the list; the rank in `shown` is marked.
List ranks_list(const Ranks& ranks, const std::filesystem::path& shown, const Look& look, int width);

}  // namespace memreel::viewer::terminal
