// SPDX-License-Identifier: Apache-2.0
// The names by which users know who has memory: libraries, and the pools of frameworks.
#pragma once

#include "formats/model/tables.h"

namespace memreel {

/// What the allocators of JAX and of TensorFlow get from the driver.
inline constexpr std::string_view xla_pool = "XLA's pool";
inline constexpr std::string_view tensorflow_pool = "TensorFlow's pool";

/// The name of a library by its file, or by a label that adds a communicator: "NCCL" of "libnccl.so.2". The label
/// itself if the library is not known.
std::string library_name(std::string_view label);

/// "PyTorch" of "torch.cuda", "XLA's pool" or "TensorFlow's pool" of "GPU_0_bfc"; else the heap's own name.
std::string heap_name(const Tables& tables, HeapId heap);

}  // namespace memreel
