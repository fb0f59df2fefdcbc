#include "analyzer/report/own_frame.h"

#include <optional>

#include "analyzer/category/frame_rules.h"
#include "formats/model/frame_kind.h"

namespace memreel {
namespace {

/// Sees the frames of a stack, innermost first, and keeps the one that says most.
template <class Item>
class OwnFrame {
 public:
  void see(const Item& item, FrameKind kind, CodeOwner owner) {
    const Rank rank = rank_of(kind, owner);
    const bool takes_outermost = rank == Rank::operation;
    if (best_ && (takes_outermost ? rank > rank_ : rank >= rank_)) return;
    best_ = item;
    rank_ = rank;
  }
  Item best() const { return best_.value_or(Item{}); }

 private:
  enum class Rank : std::uint8_t { own, python, node, operation, shown, hidden };

  static Rank rank_of(FrameKind kind, CodeOwner owner) {
    if (owner == CodeOwner::user) return Rank::own;
    if (kind == FrameKind::python) return Rank::python;
    if (kind == FrameKind::autograd_node) return Rank::node;
    if (kind == FrameKind::operation) return Rank::operation;
    return is_hidden(kind) ? Rank::hidden : Rank::shown;
  }

  std::optional<Item> best_;
  Rank rank_ = Rank::hidden;
};

}  // namespace

FrameText own_frame(const std::vector<FrameText>& frames) {
  OwnFrame<FrameText> own;
  for (const FrameText& frame : frames) own.see(frame, frame.kind, frame.owner);
  return own.best();
}

FrameId own_frame(const Tables& tables, StackId stack) {
  OwnFrame<FrameId> own;
  for (; stack != StackId::none; stack = tables[stack].caller) {
    const FrameId frame = tables[stack].frame;
    own.see(frame, tables[frame].kind, tables[frame].owner);
  }
  return own.best();
}

FrameId own_frame(const Tables& tables, std::span<const FrameId> innermost_first) {
  OwnFrame<FrameId> own;
  for (const FrameId frame : innermost_first) own.see(frame, tables[frame].kind, tables[frame].owner);
  return own.best();
}

FrameText compiled_frame(const std::vector<FrameText>& frames) {
  FrameText innermost;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (frames[i].owner == CodeOwner::user || calls_own_module(frames, i)) return innermost;
    if (frames[i].owner == CodeOwner::generated && innermost.file.empty()) innermost = frames[i];
  }
  return {};
}

FrameText explaining_frame(const std::vector<FrameText>& frames) {
  for (std::size_t i = 0; i < frames.size(); ++i)
    if (frames[i].owner == CodeOwner::user || calls_own_module(frames, i)) return frames[i];
  return own_frame(frames);
}

}  // namespace memreel
