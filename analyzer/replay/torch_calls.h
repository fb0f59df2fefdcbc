// What a program told PyTorch's allocator, in recordings that say only what the allocator did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// memreel's recordings of PyTorch's allocator have its own trace, as its histories do, and as in these
/// torch.cuda.empty_cache() and the end of a private pool leave no record but what was released. Adds the same events
/// in front of the same releases as the import of a history does (formats/import/torch/empty_cache.h,
/// destroyed_pools.h). Returns how many.
std::size_t infer_torch_calls(Trace& trace);

/// A call that left no record, in front of the event with number `before`.
struct TorchCall {
  std::uint32_t before = 0;
  EventKind kind = EventKind::unknown;
  OriginId origin = OriginId::none;
};

/// Finds these calls, in a pass of its own. Memory: the segments that there ever were; everything, where expandable
/// segments go with a max_split_size.
class TorchCalls {
 public:
  /// `tables` are complete, get the origins of the calls, and must outlive this.
  explicit TorchCalls(Tables& tables);
  TorchCalls(TorchCalls&&) noexcept;
  TorchCalls& operator=(TorchCalls&&) noexcept;
  ~TorchCalls();

  /// Whether there are heaps of which such calls are to be found.
  bool possible() const;
  /// The next event and its number. Frees need not have the address and size of their allocation.
  void see(const Event& event, std::uint32_t number);
  /// In order.
  std::vector<TorchCall> find() &&;

 private:
  class Inference;
  std::vector<std::unique_ptr<Inference>> heaps_;
};

}  // namespace memreel
