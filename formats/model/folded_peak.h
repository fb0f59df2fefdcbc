// SPDX-License-Identifier: Apache-2.0
// What a flight recorder's sums say of the peak, which may be older than the events that it keeps.
#pragma once

#include "formats/model/folded.h"

namespace memreel {

/// Bytes that were live in the heap at some moment before the events that are kept, at least: sums at the ends of
/// intervals, or an allocation of average size. 0: nothing was folded.
Bytes folded_peak(const FoldedHistory& folded, HeapId heap);

}  // namespace memreel
