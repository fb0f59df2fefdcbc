// SPDX-License-Identifier: Apache-2.0
// What forward passes keep that no backward pass takes, or not any more.
#pragma once

#include "analyzer/analysis/category/classify.h"

namespace memreel {

/// Live bytes of one heap at an instant.
struct KeptGraphs {
  // Of a program that runs no backward pass:
  Bytes running;         // kept for one by the running forward pass
  Bytes earlier;         // left by earlier ones
  bool by_loss = false;  // the earlier ones go with a number, as a loss is, rather than with an output
  Bytes autocast;        // autocast's copies of weights
  // Of one that does:
  Bytes past_backward;  // activations whose backward pass has ended
};

/// Of what is live in `heap` after the first `events` events.
KeptGraphs kept_graphs(const Trace& trace, const std::vector<Lifetime>& lives, const Categories& categories,
                       HeapId heap, std::uint64_t events);

}  // namespace memreel
