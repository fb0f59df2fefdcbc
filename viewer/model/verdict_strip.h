// What a trace comes down to, as the viewer opens: what decides, who holds the peak, what leaks, and the best setting,
// each with the place in the trace that it speaks of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/category/category.h"
#include "viewer/model/document.h"
#include "viewer/model/findings.h"

namespace memreel::viewer {

/// What a person has to look at first.
enum class Decision : std::uint8_t { out_of_memory, leak, fragmentation, peak };

/// "out of memory", "leak", "fragmentation", "peak".
std::string_view name_of(Decision decision);

/// Fragmentation decides where a setting gives back at least so much of the reserved peak.
inline constexpr double decisive_share = 0.05;

Decision decision_of(const Verdict& verdict);

/// Where a click leads; what is absent stays as it is.
struct Destination {
  HeapId heap = HeapId::none;
  std::optional<std::uint32_t> cursor;
  std::optional<StackId> stack;
  std::optional<Category> category;
  std::string_view tab;  // empty: as it is
};

struct VerdictItem {
  std::string name;   // of its place on screen: "decides", "holder 1", "leaks", "fragmented", "peak", "setting"
  std::string topic;  // "out of memory", "leaks"; of holders empty
  std::string text;
  bool alarm = false;
  std::optional<Category> category;  // that it is about
  Destination to;
};

/// A setting that serves more requests, or reserves less.
struct SettingOffer {
  VerdictItem item;         // with what it changes, before and after
  std::string export_line;  // for a shell; empty: it is no setting of PyTorch's
  std::string policy;       // to be replayed
};

struct VerdictStrip {
  static constexpr std::size_t most_holders = 3;

  Decision decides = Decision::peak;
  VerdictItem headline;
  Bytes held;                        // at the live peak, by all
  std::vector<VerdictItem> holders;  // the largest of them
  std::vector<VerdictItem> others;   // what else is worth a line: never what the headline says
  std::optional<SettingOffer> offer;
  std::optional<VerdictItem> no_offer;  // why nothing is offered
};

/// `findings` are of `document`, and have no problem.
VerdictStrip verdict_strip(const Document& document, const Findings& findings);

}  // namespace memreel::viewer
