// SPDX-License-Identifier: Apache-2.0
// A stand-in for libtorch_cpu.so of releases whose get_current_node() returns a c10::intrusive_ptr: one word, with the
// reference count in the node.
#include <cstdint>

namespace {
struct Node {
  const void* functions = nullptr;
  std::uint64_t owners = 1;
} node;            // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
int running = -1;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): the task of the backward pass
}  // namespace

// NOLINTBEGIN(readability-identifier-naming): PyTorch's names
namespace at::sequence_number {
std::uint64_t peek() { return 41; }
}  // namespace at::sequence_number

namespace torch::autograd {

class intrusive_ptr {
 public:
  explicit intrusive_ptr(Node* target) : target_(target) {
    if (target_ != nullptr) ++target_->owners;
  }
  intrusive_ptr(const intrusive_ptr& other) : intrusive_ptr(other.target_) {}
  intrusive_ptr& operator=(const intrusive_ptr&) = delete;
  ~intrusive_ptr() {
    if (target_ != nullptr) --target_->owners;
  }

 private:
  Node* target_;
};

intrusive_ptr get_current_node() { return intrusive_ptr(running < 0 ? nullptr : &node); }
int get_current_graph_task_id() { return running; }

}  // namespace torch::autograd
// NOLINTEND(readability-identifier-naming)

extern "C" void fake_backward(int task) { running = task; }
extern "C" std::uint64_t fake_owners() { return node.owners; }
