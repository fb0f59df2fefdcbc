#include "collector/torch/autograd.h"

#include <dlfcn.h>

#include <atomic>
#include <bit>
#include <memory>

namespace memreel::torch {
namespace {

// ATen/SequenceNumber.h, torch/csrc/autograd/graph_task.h; at least from PyTorch 2.1 on.
constexpr const char* peek_symbol = "_ZN2at15sequence_number4peekEv";
constexpr const char* node_symbol = "_ZN5torch8autograd16get_current_nodeEv";
using Peek = std::uint64_t();
using CurrentNode = std::shared_ptr<const void>();

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): hooks have no other way to find them
std::atomic<Peek*> peek = nullptr;
std::atomic<CurrentNode*> current_node = nullptr;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

/// How a torch::autograd::Node begins (torch/csrc/autograd/function.h): it is polymorphic, derives from
/// enable_shared_from_this, and its first member is the number.
struct Node {
  const void* functions;
  const void* itself;  // what shared_from_this() gives
  const void* count;
  std::uint64_t sequence;
};

/// Of nodes that accumulate into leaves: no operator made them.
constexpr std::uint64_t no_sequence = ~std::uint64_t{0};

}  // namespace

void look_for_autograd() {
  if (peek.load(std::memory_order_relaxed) != nullptr) return;
  void* const library = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return;
  auto* const found_peek = std::bit_cast<Peek*>(dlsym(library, peek_symbol));
  auto* const found_node = std::bit_cast<CurrentNode*>(dlsym(library, node_symbol));
  if (found_peek == nullptr || found_node == nullptr) return;
  current_node.store(found_node, std::memory_order_relaxed);
  peek.store(found_peek, std::memory_order_release);
}

[[gnu::hot]] AutogradPlace autograd_place() noexcept {
  Peek* const next = peek.load(std::memory_order_acquire);
  if (next == nullptr) return {};
  const std::shared_ptr<const void> running = current_node.load(std::memory_order_relaxed)();
  if (running == nullptr) return {.sequence = static_cast<std::uint32_t>(next())};
  const auto* const node = static_cast<const Node*>(running.get());
  if (node->itself != node || node->sequence == no_sequence) return {.backward = true};
  return {.sequence = static_cast<std::uint32_t>(node->sequence + 1), .backward = true};
}

}  // namespace memreel::torch
