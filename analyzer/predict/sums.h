// Which requests of a program are for sums over rows, and over how many.
//
// A sum that took scratch is known by it. One that takes some only in larger runs is known by what stands beside it: a
// linear layer's backward pass asks for the gradients of its inputs (rows x inputs), its weights (inputs x outputs) and
// its bias (outputs) one after the other. PyTorch: AddmmBackward0 and LinearBackward0, tools/autograd/derivatives.yaml.
#pragma once

#include <span>
#include <vector>

#include "analyzer/predict/align.h"
#include "analyzer/predict/model.h"

namespace memreel {

/// The sums of the base of `model`, whose sizes have been learned. `partners`: by recording.
std::vector<SumRule> learn_sums(const Model& model, Recordings recordings, std::span<const Partners> partners);

}  // namespace memreel
