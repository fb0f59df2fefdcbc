// How much memory graphics cards have for a program, and what decides how much scratch its kernels take.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "analyzer/predict/kernel_requests.h"
#include "formats/model/units.h"

namespace memreel {

struct Card {
  std::string_view name;  // as people write it: "H100-80GB"
  Bytes memory;           // total that CUDA reports; less than the name says, for ECC and the driver take theirs
  GpuTraits gpu;
};

std::span<const Card> cards();

/// Of a name in any case, "RTX" or "NVIDIA" before it or not, or null.
const Card* find_card(std::string_view name);

/// The GPUs of all cards, each once: `first`, an H100's, and the others.
std::vector<GpuTraits> known_gpus(const GpuTraits& first);

/// What a process takes of a card besides what its allocator reserves, where no recording says: CUDA's context, the
/// code of kernels, and the handles of cuBLAS and cuDNN.
inline constexpr Bytes assumed_context = 600_MiB;

}  // namespace memreel
