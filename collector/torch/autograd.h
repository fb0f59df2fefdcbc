// Where a thread is in PyTorch's autograd. A node of its graph has a sequence number, which the operator that made it
// in the forward pass had; so what the backward pass allocates can be told from which operator it comes.
#pragma once

#include <cstdint>

namespace memreel::torch {

/// Finds PyTorch's functions, if it is loaded. It takes the dynamic loader's lock: the writing thread calls it.
void look_for_autograd();

struct AutogradPosition {
  /// Of the node whose backward the thread runs; else of the last node that the thread made, whose operator may be what
  /// runs now. Counted from 1, modulo 2^32; 0: none. None in a backward pass where a node can't be looked at without
  /// changing its count of owners (PyTorch 2.14 and newer).
  std::uint32_t sequence = 0;
  bool backward = false;
};

/// Of the calling thread. Reads two variables of PyTorch's; in a backward pass, four more.
AutogradPosition autograd_position() noexcept;

}  // namespace memreel::torch
