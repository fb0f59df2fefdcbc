// SPDX-License-Identifier: Apache-2.0
// Stacks what is alive at one instant, without any gap.
//
// How the stack is ordered decides whether what ends soon after the instant, and what has begun shortly before it,
// leaves one gap or many. In order of their ends, a stack is emptied from the top forwards in time, but leaves gaps
// everywhere backwards. So what has lived for long lies above the rest, in order of ends, and the rest in order of
// begins:
//
//   forwards, the top is free soon     | old: ends last ... ends first  |  top
//   backwards, so is the middle        | young: began first ... last    |  bottom
//
// Buchsbaum et al. (see plan.h) box together what is alive at one instant.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/plan/problem.h"

namespace memreel::plan {

/// Bytes alive in each section.
std::vector<Bytes> bytes_alive(const Problem& problem);

/// What is alive in a section, from the bottom to the top, and sets its offsets, which are by buffer. Old is what has
/// spent the share `balance` of its life.
std::vector<std::uint32_t> stack_at(const Problem& problem, std::uint32_t section, double balance,
                                    std::vector<Bytes>& offsets);

}  // namespace memreel::plan
