// What every pane is given.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <imgui.h>

#include "formats/reader/trace_reader.h"
#include "viewer/model/classification.h"
#include "viewer/model/document.h"
#include "viewer/model/filter.h"
#include "viewer/model/findings.h"
#include "viewer/model/heap_at.h"
#include "viewer/model/rounding.h"
#include "viewer/model/selection.h"
#include "viewer/model/stacked_series.h"
#include "viewer/panes/theme.h"

namespace memreel::viewer {

/// A policy's reserved bytes over the trace, to be drawn over the recorded ones.
struct Overlay {
  HeapId heap = HeapId::none;
  std::string name;
  std::vector<std::uint32_t> events;  // ascending: from each on, up to the next,
  std::vector<std::uint64_t> bytes;   // so much was reserved at most
};

/// One frame's view of everything: alive for that frame only.
struct Scene {
  std::shared_ptr<const Document> document;  // jobs keep it
  std::shared_ptr<ByteFile> file;            // the whole trace, for jobs; null while it is imported
  Bytes memory_limit;                        // what it may ask for; 0: as its size suggests
  Selection& selection;
  const Theme& theme;
  float scale = 1;                                       // pixels per unit of length
  const HeapAt& heap;                                    // of the selection's heap at its cursor
  const LiveByCategory& live;                            // in it; zeros until that is known
  RoundingJob& rounding;                                 // asked for when all of the trace is read
  std::shared_ptr<const Classification> classification;  // what allocations are for; null until that is known
  bool classifying = false;                              // that is on its way
  std::shared_ptr<const Sieve> sieve;        // what lists and pictures are limited to; null: nothing limits them
  bool sieving = false;                      // another one is on its way
  std::uint32_t judged_events = 0;           // so many of a file that grows are judged: not each time that it has grown
  std::shared_ptr<const Findings> findings;  // of those that were asked for; null until they are made
  std::vector<Overlay>& overlays;
  std::map<std::string, ImVec4>& places;  // where things are on screen: x, y, width, height
  bool enter = false;                     // Enter was pressed since the last frame, if let go of within it
  bool& busy;                             // set by panes that wait for a job
  std::function<void()> wake;             // draws a frame when something has changed; from any thread

  const Document& doc() const { return *document; }
  const Tables& tables() const { return *document->tables; }
  const HeapSeries* series() const { return document->series(selection.heap); }
  /// How many allocations were classified.
  std::uint32_t classified() const {
    return classification ? static_cast<std::uint32_t>(classification->categories.evidence.size()) : 0;
  }
  /// Whether anything is known of what allocations are for.
  bool has_categories() const { return classification && classification->knows_any; }
  /// What the timeline is split and allocations are coloured by.
  SplitBy split() const { return selection.split_by(has_categories()); }
  MapColour colour() const { return selection.colour_by(has_categories()); }
  /// The sieve where it limits more than the category: pictures show that by their colours.
  std::shared_ptr<const Sieve> sieve_but_category() const {
    return sieve && (!sieve->filter().text.empty() || sieve->filter().limits_size()) ? sieve : nullptr;
  }
  float px(double length) const { return static_cast<float>(length) * scale; }
};

}  // namespace memreel::viewer
