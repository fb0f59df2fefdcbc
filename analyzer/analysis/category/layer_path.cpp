// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>

#include "analyzer/analysis/category/classify.h"

namespace memreel {
namespace {

/// The stacks whose frames are module calls, innermost first.
std::vector<StackId> layers_of(const Tables& tables, std::span<const StackMeaning> stacks, StackId stack) {
  std::vector<StackId> layers;
  for (StackId at = stacks[index(stack)].layer; at != StackId::none; at = stacks[index(tables[at].caller)].layer)
    layers.push_back(at);
  return layers;
}

/// Names that a program gives to modules are Python name paths; a class and its number are separated by a space.
bool is_named(const std::string& instance) { return instance.find(' ') == std::string::npos; }

std::string instance_path(const Tables& tables, std::span<const StackMeaning> stacks, StackId call) {
  std::string path;
  for (; call != StackId::none; call = stacks[index(tables[call].caller)].call) {
    const std::string& instance = tables[tables[tables[call].frame].instance];
    path = path.empty() ? instance : instance + "/" + path;
    if (is_named(instance)) break;
  }
  return path;
}

}  // namespace

FrameText layer_frame(const Tables& tables, std::span<const StackMeaning> stacks, StackId stack) {
  const std::vector<StackId> layers = layers_of(tables, stacks, stack);
  if (layers.empty()) return {};
  const auto text = [&](StackId layer) { return frame_text(tables, tables[layer].frame); };
  const auto own = std::ranges::find_if(layers, [&](StackId layer) { return !is_of_torch(text(layer)); });
  return text(own == layers.end() ? layers.front() : *own);
}

std::string layer_path(const Tables& tables, const Categories& categories, StackId stack, std::uint16_t call) {
  const std::span<const StackMeaning> stacks = categories.stacks();
  if (const StackId module = stacks[index(stack)].call; module != StackId::none)
    return instance_path(tables, stacks, module);
  std::string path;
  const std::vector<StackId> layers = layers_of(tables, stacks, stack);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const FrameText frame = frame_text(tables, tables[*layer].frame);
    if (!path.empty()) path += '/';
    path += base_name(frame.file);
    path += ':' + std::to_string(frame.line);
    if (call != LayerCalls::none && *layer == categories.calls.line[index(stack)]) path += " #" + std::to_string(call);
  }
  return path;
}

}  // namespace memreel
