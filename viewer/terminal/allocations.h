// SPDX-License-Identifier: Apache-2.0
// The allocations that were held at any time in the view, or in the marked range, as a list.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "viewer/model/allocation_list.h"
#include "viewer/model/background.h"
#include "viewer/terminal/list.h"
#include "viewer/terminal/look.h"
#include "viewer/terminal/session.h"

namespace memreel::viewer::terminal {

class Allocations {
 public:
  /// Takes over what is listed, and asks for what should be. `sorted_by`: a column; none: as they were made.
  void update(const Session& session, std::optional<std::size_t> sorted_by);
  /// "listing"; empty: nothing.
  std::string doing() { return work_.running() ? "listing" : ""; }
  /// Another whenever another list is to be made; null until there is one.
  const std::shared_ptr<const AllocationList>& listed() const { return listed_; }
  List list(const Session& session, const Look& look) const;

 private:
  std::shared_ptr<const AllocationList> listed_;
  Background<AllocationQuery, AllocationList> work_;
};

}  // namespace memreel::viewer::terminal
