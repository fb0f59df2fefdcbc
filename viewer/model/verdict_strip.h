// SPDX-License-Identifier: Apache-2.0
// The summary of a trace that the viewer opens with: the main finding, who holds the peak, what leaks, and the best
// setting, each with its place in the trace.
#pragma once

#include "analyzer/analysis/category/category.h"
#include "viewer/model/document.h"
#include "viewer/model/findings.h"

namespace memreel::viewer {

/// What the user should look at first.
enum class Decision : std::uint8_t { out_of_memory, leak, fragmentation, peak, instant };

/// "out of memory", "leak", "fragmentation", "peak", "instant": of a recording without a history.
std::string_view name_of(Decision decision);

/// Fragmentation is the main finding if a setting saves at least this much of the reserved peak.
inline constexpr double decisive_share = 0.05;

Decision decision_of(const Verdict& verdict);

/// Where a click leads; absent members leave the selection unchanged.
struct Destination {
  HeapId heap = HeapId::none;
  std::optional<std::uint32_t> cursor;
  std::optional<StackId> stack;
  std::optional<Category> category;
  std::string_view tab;  // empty: unchanged
};

struct VerdictItem {
  std::string name;   // of its position on screen: "decides", "holder 1", "leaks", "fragmented", "peak", "setting"
  std::string topic;  // "out of memory", "leaks"; empty for holders
  std::string text;
  std::string brief;  // without what a tooltip can say; empty: the same
  bool alarm = false;
  std::optional<Category> category;  // its category
  Destination to;
};

/// A setting that serves more requests, or reserves less.
struct SettingOffer {
  VerdictItem item;         // includes the effect, before and after
  std::string export_line;  // for a shell; empty: not a PyTorch setting
  std::string policy;       // policy to replay
};

struct VerdictStrip {
  static constexpr std::size_t most_holders = 3;

  Decision decides = Decision::peak;
  VerdictItem headline;
  Bytes held;                        // at the live peak, in total
  std::string held_text;             // "5.37 GiB live at the peak:"
  std::vector<VerdictItem> holders;  // the largest of them
  std::vector<VerdictItem> others;   // other findings worth a line; never the headline's
  std::optional<SettingOffer> offer;
  std::optional<VerdictItem> no_offer;  // why nothing is offered
};

/// `findings` belong to `document` and have no problem.
VerdictStrip verdict_strip(const Document& document, const Findings& findings);

}  // namespace memreel::viewer
