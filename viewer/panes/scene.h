// SPDX-License-Identifier: Apache-2.0
// The input of every pane.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include <imgui.h>

#include "formats/reader/trace_reader.h"
#include "viewer/model/document.h"
#include "viewer/model/findings.h"
#include "viewer/model/heap_at.h"
#include "viewer/model/selection.h"
#include "viewer/model/space.h"
#include "viewer/model/stacked_series.h"
#include "viewer/model/typed_input.h"
#include "viewer/panes/controls.h"
#include "viewer/panes/focus.h"
#include "viewer/panes/theme.h"

namespace memreel::viewer {

/// A policy's reserved bytes over the trace, overlaid on the recorded ones.
struct Overlay {
  HeapId heap = HeapId::none;
  std::string name;
  std::vector<std::uint32_t> events;  // ascending: from each one to the next,
  std::vector<std::uint64_t> bytes;   // the maximum reserved
};

/// The state of one frame: valid for that frame only.
struct Scene {
  std::shared_ptr<const Document> document;  // shared with jobs
  Bytes memory_limit;                        // for the trace; 0: a limit based on its size
  Selection& selection;
  const Theme& theme;
  float scale = 1;                                       // pixels per unit of length
  const HeapAt& heap;                                    // of the selection's heap at its cursor
  HeapOrder& heap_order;                                 // of its segments on screen
  const LiveByCategory& live;                            // in this heap; zeros until known
  RoundingJob& rounding;                                 // requested once the whole trace is read
  std::shared_ptr<const Classification> classification;  // null until known
  bool classifying = false;                              // a classification is being computed
  std::shared_ptr<const Sieve> sieve;                    // the filter of lists and pictures; null: none
  bool sieving = false;                                  // a new one is being computed
  std::uint32_t judged_events = 0;           // events of a growing file that are judged; lags behind its growth
  std::shared_ptr<WholeTrace> judged;        // the trace with these events; null until it is read
  std::shared_ptr<const Findings> findings;  // if requested; null until they are ready
  std::vector<Overlay>& overlays;
  std::map<std::string, ImVec4>& places;  // positions on screen: x, y, width, height
  Focus& focus;                           // of the keyboard
  Controls& controls;                     // what the list of commands says of buttons
  bool enter = false;                     // Enter was pressed since the last frame, even if already released
  bool& busy;                             // set by panes that are waiting for a job
  std::function<void()> wake;             // requests a frame after a change; callable from any thread

  const Document& doc() const { return *document; }
  const Tables& tables() const { return *document->tables; }
  const HeapSeries* series() const { return document->series(selection.heap); }
  /// The number of classified allocations.
  std::uint32_t classified() const { return classification ? classification->count() : 0; }
  /// Whether any category is known.
  bool has_categories() const { return classification && classification->knows_any; }
  /// How the timeline is split and allocations are coloured.
  SplitBy split() const { return selection.split_by(has_categories()); }
  MapColour colour() const { return selection.colour_by(has_categories()); }
  /// The sieve if it filters by more than the category, which pictures show by their colours.
  std::shared_ptr<const Sieve> sieve_but_category() const {
    return sieve && (!sieve->filter().text.empty() || sieve->filter().limits_size()) ? sieve : nullptr;
  }
  float px(double length) const { return static_cast<float>(length) * scale; }
};

}  // namespace memreel::viewer
