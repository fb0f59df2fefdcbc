// What the trace comes down to: what decides, who holds the peak, what leaks, the setting that helps. Each is a click
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

/// What a click in it asks for.
struct VerdictAction {
  std::optional<Destination> go;
  std::string overlay;  // a policy, to be replayed and laid over the timeline; empty: none
};

class VerdictPane {
 public:
  /// In lines above all panes.
  VerdictAction draw_strip(Scene& scene, Verdicts& verdicts);
  /// Alone in the window: each in a line of its own.
  VerdictAction draw(Scene& scene, Verdicts& verdicts);
  /// How high the strip is, with the space around it.
  static float strip_height(const Scene& scene);
  /// What is on screen, for tests; null before it is known.
  const VerdictStrip* shown() const { return of_ ? &strip_ : nullptr; }

 private:
  /// Asks for the findings, and says what is to be said while there are none. False then.
  bool update(Scene& scene, Verdicts& verdicts);
  void draw_headline(Scene& scene, VerdictAction& action);
  void draw_holders(Scene& scene, VerdictAction& action);
  void draw_offer(Scene& scene, VerdictAction& action);

  std::shared_ptr<const Findings> of_;  // what strip_ was made of
  std::uint32_t version_ = 0;           // and of how many events
  VerdictStrip strip_;
  bool copied_ = false;
};

}  // namespace memreel::viewer
