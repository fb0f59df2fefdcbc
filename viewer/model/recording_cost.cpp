#include "viewer/model/recording_cost.h"

namespace memreel::viewer {
namespace {

// The higher of two machines' costs for an event, including CUPTI's own share.
constexpr double nanoseconds_with_stack = 600, nanoseconds_without = 230;

}  // namespace

std::optional<double> recording_share(const Document& document) {
  if (document.header.source != "cupti" || document.empty()) return std::nullopt;
  const auto span = static_cast<double>((document.last_time() - document.first_time()).count());
  if (span <= 0) return std::nullopt;
  const bool has_stacks = document.tables->stacks.size() > 1;
  return document.event_count() * (has_stacks ? nanoseconds_with_stack : nanoseconds_without) / span;
}

}  // namespace memreel::viewer
