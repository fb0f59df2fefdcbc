// The memory that graphics cards have for a program, and the properties that determine how much scratch their kernels
// take.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "analyzer/predict/kernel_requests.h"
#include "formats/model/units.h"

namespace memreel {

struct Card {
  std::string_view name;  // as commonly written: "H100-80GB"
  Bytes memory;           // total reported by CUDA; less than the name says, because of ECC and the driver
  GpuTraits gpu;
};

std::span<const Card> cards();

/// The card with this name, in any case and with or without "RTX" or "NVIDIA" before it, or null.
const Card* find_card(std::string_view name);

/// The distinct GPUs of all cards: `first`, an H100's, and the others.
std::vector<GpuTraits> known_gpus(const GpuTraits& first);

/// What a process takes of a card in addition to what its allocator reserves, if no recording shows it: CUDA's context,
/// the code of kernels, and the handles of cuBLAS and cuDNN.
inline constexpr Bytes assumed_context = 600_MiB;

}  // namespace memreel
