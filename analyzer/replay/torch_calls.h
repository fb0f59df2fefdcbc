// Calls of a program to PyTorch's allocator, in recordings that only have what the allocator did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// memreel's recordings of PyTorch's allocator contain the allocator's own trace, as its histories do; in both,
/// torch.cuda.empty_cache() and the end of a private pool leave no record except the released memory. Adds the same
/// events in front of the same releases as the import of a history does (formats/import/torch/empty_cache.h,
/// destroyed_pools.h). Returns how many.
std::size_t infer_torch_calls(Trace& trace);

/// An unrecorded call, in front of event number `before`.
struct TorchCall {
  std::uint32_t before = 0;
  EventKind kind = EventKind::unknown;
  OriginId origin = OriginId::none;
};

/// Finds these calls, in a separate pass. Memory: all segments there ever were; everything, if expandable segments are
/// combined with a max_split_size.
class TorchCalls {
 public:
  /// `tables` must be complete and outlive this object; the origins of the calls are added to them.
  explicit TorchCalls(Tables& tables);
  TorchCalls(TorchCalls&&) noexcept;
  TorchCalls& operator=(TorchCalls&&) noexcept;
  ~TorchCalls();

  /// Whether any heap can have such calls.
  bool possible() const;
  /// Processes the next event and its number. Frees need not have the address and size of their allocation.
  void see(const Event& event, std::uint32_t number);
  /// The calls, in order.
  std::vector<TorchCall> find() &&;

 private:
  class Inference;
  std::vector<std::unique_ptr<Inference>> heaps_;
};

}  // namespace memreel
