// SPDX-License-Identifier: Apache-2.0
// The summary of the trace: the main finding, who holds the peak, what leaks, the setting that helps. Each is a click
// away from its moment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "viewer/model/verdict_strip.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {

class Flow;

/// The action requested by a click.
struct VerdictAction {
  std::optional<Destination> go;
  std::string overlay;  // a policy to replay and overlay on the timeline; empty: none
};

class VerdictPane {
 public:
  /// Draws it as lines above all panes: one for each thing, and nothing is cut. A low window has only the finding and
  /// the setting, and a button for the rest.
  VerdictAction draw_strip(Scene& scene, Verdicts& verdicts);
  /// Draws it alone in the window, each item on its own line.
  VerdictAction draw(Scene& scene, Verdicts& verdicts);
  /// The height of the strip as it was last drawn, including the space around it.
  float strip_height(const Scene& scene) const;
  /// Copies the setting that helps, as a line for a shell; does nothing without one.
  void copy_setting();
  /// The strip on screen, for tests; null until it is ready.
  const VerdictStrip* shown() const { return of_ ? &strip_ : nullptr; }

 private:
  /// Requests the findings; shows a status and returns false until they are ready.
  bool update(Scene& scene, Verdicts& verdicts);
  VerdictAction draw_items(Scene& scene, Verdicts& verdicts, bool beside);
  /// Whether all lines would take more of the window than the panes can spare.
  bool is_low(const Scene& scene, float width) const;
  void draw_headline(Scene& scene, Flow& flow, VerdictAction& action);
  void draw_holders(Scene& scene, Flow& flow, bool beside, VerdictAction& action);
  /// `low`: there is one line for it.
  void draw_offer(Scene& scene, Flow& flow, bool low, VerdictAction& action);

  std::shared_ptr<const Findings> of_;  // the source of strip_
  std::uint32_t version_ = 0;           // and its number of events
  VerdictStrip strip_;
  std::optional<double> copied_at_;  // in seconds; the button says so for a moment
  float height_ = 0;                 // of what was drawn
};

}  // namespace memreel::viewer
