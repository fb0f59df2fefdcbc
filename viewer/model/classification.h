// What every allocation is for, which layer made it and in which phase: as the analyzer infers it (docs/categories.md).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "analyzer/category/classify.h"
#include "formats/reader/trace_reader.h"
#include "viewer/model/background.h"
#include "viewer/model/document.h"
#include "viewer/model/heap_at.h"

namespace memreel::viewer {

class Sieve;

/// Answers for allocations and stacks that were there when it was made; of later ones nothing is known. Memory: two
/// bytes for each allocation, and a few for each stack.
struct Classification {
  Categories categories;
  bool knows_any = false;  // whether any allocation is more than `unknown`
  bool knows_layers = false;
  std::string problem;  // why nothing is known; empty: nothing stood in the way

  Evidence evidence(std::uint32_t allocation) const {
    return allocation < categories.evidence.size() ? categories.evidence[allocation] : Evidence::none;
  }
  Category category(std::uint32_t allocation) const { return category_of(evidence(allocation)); }
  Phase phase(std::uint32_t allocation) const {
    return allocation < categories.phase.size() ? categories.phase[allocation] : Phase::other;
  }
  /// Which time the line ran that the layer of the allocation goes through (analyzer/category/layer_calls.h).
  std::uint16_t call(std::uint32_t allocation) const { return categories.calls.of(allocation); }
  /// The path of the layer; empty where the stack is in no module. Of a long one the innermost part.
  std::string layer(const Tables& tables, StackId stack, std::uint16_t call) const;
};

/// The key is how many events the document has.
using ClassificationJob = Background<std::uint32_t, Classification>;

/// Whether the trace is one of those that are judged: longer ones are only browsed.
bool can_be_classified(const Document& document);

/// Whether it is time to classify `events` events, after `classified` were. A file that is still written is classified
/// anew once it has grown by an eighth, or has been `still` for two seconds: in all that is some nine times what it
/// holds in the end, however often it grows.
bool is_due(std::optional<std::uint32_t> classified, std::uint32_t events, bool followed, double still);

/// Reads the whole trace. Nothing is known of one that needs more than `memory_limit` for this (0: as its size
/// suggests). None when cancelled.
std::optional<Classification> classify_file(const std::shared_ptr<ByteFile>& file, Bytes memory_limit,
                                            const Progress& progress);

struct CategoryHolding {
  Bytes bytes;
  std::uint64_t count = 0;
};

using LiveByCategory = std::array<CategoryHolding, category_count>;  // by Category

/// What is live after `events` events. Cost: as that of heap_at(). `sieve`: what passes but for its category; null:
/// all.
LiveByCategory live_by_category(const Document& document, const Classification& classification, HeapId heap,
                                std::uint32_t events, const Sieve* sieve = nullptr);
/// The same of the blocks that a heap holds at an instant.
LiveByCategory live_by_category(std::span<const HeldBlock> blocks, const Classification& classification,
                                const Sieve* sieve = nullptr);

}  // namespace memreel::viewer
