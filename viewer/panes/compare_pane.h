// Two instants of this trace, or the peaks of two traces: who holds more, who holds less.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/stack_weights.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/table.h"

namespace memreel::viewer {

class ComparePane {
 public:
  ComparePane();
  void draw(Scene& scene);

  /// The instant that the cursor is compared with.
  void keep(std::uint32_t event) { kept_ = event; }
  /// Another trace, whose peak is compared with this one's.
  void set_other(std::string file) { other_ = std::move(file); }
  const std::string& other() const { return other_; }

 private:
  struct Key {
    std::string other;
    HeapId heap = HeapId::none;
    std::uint32_t a = 0, b = 0, version = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Change {
    StackId stack = StackId::none;  // of this trace; none when only the other has it
    std::string label;
    std::uint64_t bytes_a = 0, bytes_b = 0, count_a = 0, count_b = 0;
  };
  struct Comparison {
    std::string title_a, title_b, problem;
    std::uint64_t bytes_a = 0, bytes_b = 0;
    std::vector<Change> changes;
  };

  static std::optional<Comparison> compare_instants(const Document& document, const Key& key, const Progress& progress);
  static std::optional<Comparison> compare_traces(const std::shared_ptr<ByteFile>& file, const Document& document,
                                                  const Key& key, const Progress& progress);

  Table table_;
  std::optional<std::uint32_t> kept_;
  std::string other_, typed_;
  Background<Key, Comparison> comparison_;
};

}  // namespace memreel::viewer
