// SPDX-License-Identifier: Apache-2.0
// The graphics card that predictions are made for: its memory, what is in use already, and the properties that
// determine how much scratch its kernels take.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/predict/kernel_requests.h"
#include "analyzer/predict/model.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

// The memory that graphics cards have for a program, and the properties that determine how much scratch their kernels
// take.

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

struct PredictDevice {
  std::optional<Bytes> capacity;  // the most the allocator may reserve
  std::string card;               // its name; empty if a size was given
  Bytes others;                   // the part of it that the allocator can't have
  bool assumed = true;            // `others` does not come from a recording
  std::optional<GpuTraits> gpu;   // of the card
};

/// `capacity`: empty, a size, or a card's name. What the recordings' driver calls show beside the allocator at the
/// device's peak is subtracted; from a card, also what samples show to be in use, or an assumption. Errors name
/// --capacity: it is neither, or too small.
Result<PredictDevice> predict_device(const std::string& capacity, std::span<const Recording> recordings);

}  // namespace memreel
