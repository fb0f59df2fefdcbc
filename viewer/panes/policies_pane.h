// SPDX-License-Identifier: Apache-2.0
// Replays other allocators: what they would have reserved, overlaid on the timeline.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analyzer/replay/replay.h"
#include "viewer/model/background.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/table.h"

namespace memreel::viewer {

class PoliciesPane {
 public:
  PoliciesPane();
  /// Runs the requested replays; to be called in every frame, whether the pane is on screen or not.
  void update(Scene& scene);
  void draw(Scene& scene);
  /// Requests a replay, like its button.
  void run();
  /// Adds a policy to the list, replays the list, and overlays the policy's curve on the timeline.
  void overlay(const std::string& policy);

 private:
  struct Outcome {
    std::vector<ReplayResult> results;
    std::string problem;  // empty: none
  };

  void request(Scene& scene);
  void show_overlays(Scene& scene);

  Table table_;
  std::string specs_ = "torch.native,torch.expandable,cuda.malloc,fit.best,bound.live";
  std::string wanted_;
  std::string problem_;  // with the last request; the table shows the previous result
  Background<std::string, Outcome> replay_;
  std::shared_ptr<const Outcome> seen_;   // the latest
  std::shared_ptr<const Outcome> shown_;  // the latest without a problem
  std::vector<bool> overlaid_;
  std::string overlay_when_done_;  // a policy
};

}  // namespace memreel::viewer
