// What other allocators would have reserved: replays run from here, their series laid over the timeline.
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
  void draw(Scene& scene);
  /// Asks for a replay, as its button does.
  void run() {
    wanted_ = specs_;
    replay_.retry();
  }

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
  Background<std::string, Outcome> replay_;
  std::shared_ptr<const Outcome> shown_;
  std::vector<bool> overlaid_;
};

}  // namespace memreel::viewer
