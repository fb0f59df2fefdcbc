// Which requests of a program are for sums over rows, and over how many.
//
// A sum that took scratch is known by it. One that takes some only in larger runs is known by what stands beside it: a
// linear layer's backward pass asks for the gradients of its inputs (rows x inputs), its weights (inputs x outputs) and
// its bias (outputs) one after the other. PyTorch: AddmmBackward0 and LinearBackward0, tools/autograd/derivatives.yaml.
#pragma once

#include <vector>

#include "analyzer/predict/model.h"

namespace memreel {

/// For each request of a recording's base, its partner there, or no_partner.
using Partners = std::vector<std::uint32_t>;

/// The sums of the base of `model`, whose sizes have been learned. `partners`: by recording.
std::vector<SumRule> learn_sums(const Model& model, Recordings recordings, std::span<const Partners> partners);

}  // namespace memreel
