// A thread's position in PyTorch's autograd. A graph node has the sequence number of the operator that made it in the
// forward pass, so allocations in the backward pass can be attributed to the operator.
#pragma once

#include <cstdint>

namespace memreel::torch {

/// Finds PyTorch's functions, if loaded. Takes the dynamic loader's lock: for the writing thread.
void look_for_autograd();

struct AutogradPosition {
  /// Of the node whose backward the thread runs; else of the last node that the thread made, whose operator may be the
  /// one running now. Counted from 1, modulo 2^32; 0: none. None in a backward pass if a node can't be read without
  /// changing its reference count (PyTorch 2.14 and newer).
  std::uint32_t sequence = 0;
  bool backward = false;
};

/// For the calling thread. Reads two of PyTorch's variables; in a backward pass, four more.
AutogradPosition autograd_position() noexcept;

}  // namespace memreel::torch
