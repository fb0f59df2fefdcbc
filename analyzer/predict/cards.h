// SPDX-License-Identifier: Apache-2.0
// The graphics card that predictions are made for: its memory, what is in use already, and the properties that
// determine how much scratch its kernels take.
#pragma once

#include <span>

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
  std::optional<Bytes> capacity;  // what `others` leave the allocator
  Bytes memory;                   // of the device
  Bytes context;                  // the part of it that is in use at all times, but by no call
  Bytes others;                   // that, and what other heaps hold at the recordings' peak of the device, at most
  std::string card;               // its name; empty if a size was given
  bool assumed = true;            // `context` does not come from a recording
  bool has_driver = false;        // the recordings have the driver's calls: they tell what other heaps hold
  std::optional<GpuTraits> gpu;   // of the card

  /// What the allocator and the other heaps share.
  std::optional<Bytes> shared() const { return capacity ? std::optional(memory - context) : std::nullopt; }
};

/// What else the device of `heap` holds in a trace, for Recording::beside.
std::vector<HeldFrom> beside_heap(const Trace& trace, HeapId heap);

/// `capacity`: empty, a size, or a card's name. Of a card, samples show what is in use by no call, else it is assumed.
/// `alone`: the heap has the device for itself, without other heaps. Errors name --capacity: it is neither, or too
/// small.
Result<PredictDevice> predict_device(const std::string& capacity, std::span<const Recording> recordings,
                                     bool alone = false);

}  // namespace memreel
