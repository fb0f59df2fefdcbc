// SPDX-License-Identifier: Apache-2.0
// The tab that compares: this trace at the cursor with another trace at its peak, or two instants of this trace.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "viewer/model/comparison.h"
#include "viewer/model/source.h"
#include "viewer/terminal/list.h"
#include "viewer/terminal/open_trace.h"
#include "viewer/terminal/screen.h"

namespace memreel::viewer::terminal {

/// For use from one thread.
class Compare {
 public:
  /// `wake`, `memory_limit`: as for a Session.
  Compare(std::function<void()> wake, Bytes memory_limit) : wake_(std::move(wake)), memory_limit_(memory_limit) {}

  /// The trace to compare with; empty: the kept instant is compared with the cursor.
  void set_other(const std::filesystem::path& file);
  const std::filesystem::path& other() const { return other_; }

  /// Requests what list() shows. To be called while the tab is shown.
  void update(const Session& session);
  /// "comparing"; empty: nothing is being done.
  std::string doing();
  List list(const Look& look);

 private:
  struct Key {
    MomentPair moments;
    ClassificationPair known;
    SievePair sieves;
    friend bool operator==(const Key&, const Key&) = default;
  };

  /// Why there is nothing to compare; empty: there is.
  std::string find_moments(const Session& session, MomentPair& moments);

  std::function<void()> wake_;
  Bytes memory_limit_;
  std::filesystem::path other_;
  std::unique_ptr<Source> source_;  // of the other trace
  std::string reason_;              // why nothing is compared
  bool waits_ = false;
  MomentPair moments_;
  ClassificationJob other_known_;
  SieveJob other_sieve_;
  Background<Key, Comparison> comparison_;
};

}  // namespace memreel::viewer::terminal
