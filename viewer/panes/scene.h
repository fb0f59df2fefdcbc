// SPDX-License-Identifier: Apache-2.0
// The input of every pane.
#pragma once

#include <imgui.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/reader/trace_reader.h"
#include "viewer/model/document.h"
#include "viewer/model/findings.h"
#include "viewer/model/heap_at.h"
#include "viewer/model/selection.h"
#include "viewer/model/space.h"
#include "viewer/model/stacked_series.h"
#include "viewer/model/typed_input.h"
#include "viewer/panes/focus.h"
#include "viewer/panes/theme.h"

namespace memreel::viewer {

// The buttons of panes. What they say, and whether they can be pressed, comes from the list of commands: a pane has no
// button that is not a command.

struct Scene;

/// A command, as its button shows it.
struct ButtonWords {
  std::string label;    // on the button
  std::string name;     // in the list, with its key
  std::string hint;     // shown while it is pointed at; empty: the name, but of choices nothing
  std::string why_not;  // why it can't be pressed now; empty: it can
};

/// A button of the last frame.
struct DrawnButton {
  std::string place, label;
  bool is_command = false, can_be_pressed = false;
};

/// The commands, as panes know them.
class Controls {
 public:
  virtual ~Controls() = default;
  /// The command that a button at this place belongs to; none: there is no such command.
  virtual std::optional<ButtonWords> at(std::string_view place) const = 0;
  /// Runs it once the frame is drawn.
  virtual void press(std::string_view place) = 0;

  void begin_frame() { drawn_.clear(); }
  void add(DrawnButton control) { drawn_.push_back(std::move(control)); }
  std::span<const DrawnButton> drawn() const { return drawn_; }

 private:
  std::vector<DrawnButton> drawn_;
};

/// What a pane adds to a button.
struct ButtonLook {
  std::string says{};  // data instead of the command's label, such as the name of a block; empty: the label
  std::string hint{};  // the same for what is shown while it is pointed at
  ImVec2 size{0, 0};   // 0: as the text needs it
  bool is_large = false;
};

/// A button whose command presses it: the pane acts. True when it was pressed.
bool push_button(Scene& scene, std::string_view place, const ButtonLook& look = {});
/// A button that runs its command.
void command_button(Scene& scene, std::string_view place, const ButtonLook& look = {});
/// True when it was pressed. With an edge, so that those that are not chosen can be seen.
bool radio_button(Scene& scene, std::string_view place, bool chosen);
bool check_box(Scene& scene, std::string_view place, bool& checked);

/// Of a button without a size of its own.
float button_width(const Scene& scene, std::string_view place, std::string_view says = {});

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
  std::uint32_t classified() const {
    return classification ? static_cast<std::uint32_t>(classification->categories.evidence.size()) : 0;
  }
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
