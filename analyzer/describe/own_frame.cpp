// SPDX-License-Identifier: Apache-2.0
#include "analyzer/describe/own_frame.h"

#include <algorithm>
#include <array>

#include "analyzer/analysis/category/frame_rules.h"
#include "formats/model/frame_kind.h"

namespace memreel {
namespace {

/// Whether a frame is of an installed package other than PyTorch, and does more than to pass a call on.
bool is_of_package(const FrameText& frame) {
  return frame.owner == CodeOwner::library && frame.short_file.size() < frame.file.size() && !is_of_torch(frame) &&
         !passes_on(frame);
}

/// Sees the frames of a stack, innermost first, and keeps the one that says most.
template <class Item>
class OwnFrame {
 public:
  /// `text`: returns the frame's FrameText.
  template <class Text>
  void see(const Item& item, FrameKind kind, CodeOwner owner, const Text& text) {
    Rank rank = rank_of(kind, owner);
    if (rank == Rank::python && rank_ > Rank::package && is_of_package(text())) rank = Rank::package;
    const bool takes_outermost = rank == Rank::operation;
    if (best_ && (takes_outermost ? rank > rank_ : rank >= rank_)) return;
    best_ = item;
    rank_ = rank;
  }
  Item best() const { return best_.value_or(Item{}); }

 private:
  enum class Rank : std::uint8_t { own, package, python, node, operation, shown, hidden };

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
  for (const FrameText& frame : frames) own.see(frame, frame.kind, frame.owner, [&] { return frame; });
  return own.best();
}

FrameId own_frame(const Tables& tables, StackId stack) {
  OwnFrame<FrameId> own;
  for (; stack != StackId::none; stack = tables[stack].caller) {
    const FrameId frame = tables[stack].frame;
    own.see(frame, tables[frame].kind, tables[frame].owner, [&] { return frame_text(tables, frame); });
  }
  return own.best();
}

FrameId own_frame(const Tables& tables, std::span<const FrameId> innermost_first) {
  OwnFrame<FrameId> own;
  for (const FrameId frame : innermost_first)
    own.see(frame, tables[frame].kind, tables[frame].owner, [&] { return frame_text(tables, frame); });
  return own.best();
}

FrameText compiled_frame(const std::vector<FrameText>& frames) {
  const std::size_t modules = count_below_calls(frames);
  FrameText innermost;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (frames[i].owner == CodeOwner::user || (i < modules && calls_own_module(frames, i))) return innermost;
    if (frames[i].owner == CodeOwner::generated && innermost.file.empty()) innermost = frames[i];
  }
  return {};
}

FrameText explaining_frame(const std::vector<FrameText>& frames) {
  const std::size_t modules = count_below_calls(frames);
  for (std::size_t i = 0; i < frames.size(); ++i)
    if (frames[i].owner == CodeOwner::user || (i < modules && calls_own_module(frames, i))) return frames[i];
  return own_frame(frames);
}

namespace {

/// The path within the packages that are installed, or PyTorch's in its own source; empty if the file is in none.
std::string_view in_package(const FrameText& frame) {
  if (frame.owner == CodeOwner::library && frame.short_file.size() < frame.file.size()) return frame.short_file;
  return is_of_torch(frame) ? frame.file.substr(frame.file.rfind("torch/")) : std::string_view();
}

/// "cxlfggre": the beginning of a hash.
std::string region_of(const FrameText& generated) {
  constexpr std::size_t enough = 8;
  const std::string_view name = base_name(generated.file);
  return std::string(name.starts_with('<') ? name : name.substr(0, enough));
}

}  // namespace

std::string line_label(const FrameText& frame) {
  if (frame.file.empty() || names_operator(frame.kind)) {
    if (!frame.function.empty()) return display_name(frame.kind, frame.function);
    return std::string(frame.module_path.empty() ? no_stack_label : base_name(frame.module_path));
  }
  const std::string_view package = in_package(frame);
  if (frame.owner == CodeOwner::generated) return "compiled " + region_of(frame) + ":" + std::to_string(frame.line);
  return std::string(package.empty() ? frame.short_file : package) +
         (frame.line != 0 ? ":" + std::to_string(frame.line) : "");
}

namespace {

/// A module with XLA's allocators that is named like a Python extension: a plugin of JAX, jaxlib, TensorFlow.
bool is_xla(std::string_view module) {
  constexpr std::array<std::string_view, 4> prefixes{"xla_", "pjrt_", "_pywrap_tensorflow", "_xla"};
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return module.starts_with(prefix); });
}

}  // namespace

std::string library_label(const std::vector<FrameText>& frames) {
  for (const FrameText& frame : frames) {
    const std::string_view name = base_name(frame.module_path);
    if (is_hidden(frame.kind)) continue;
    if (name.starts_with("lib") || is_xla(name)) return std::string(name);
    const std::string_view package = in_package(frame);
    if (!package.empty()) return std::string(package.substr(0, package.find('/')));
    if (frame.owner == CodeOwner::user) return "own code";
  }
  return "not known";
}

std::string compiled_label(const std::vector<FrameText>& frames) {
  const FrameText generated = compiled_frame(frames);
  return generated.file.empty() ? std::string() : ", compiled " + region_of(generated);
}

std::string place_label(FrameText frame) {
  if (frame.owner == CodeOwner::generated) return line_label(frame);
  const std::string_view package = in_package(frame);
  frame.file = package.empty() ? frame.short_file : package;
  const std::string text = text_of(frame);
  return text.empty() ? std::string(base_name(frame.module_path)) : text;
}

std::string short_label(FrameText frame) {
  if (frame.owner == CodeOwner::generated) return line_label(frame);
  frame.file = base_name(frame.file);
  return text_of(frame);
}

std::string site_label(const Tables& tables, StackId stack) {
  const std::vector<FrameText> frames = frames_of(tables, stack);
  if (frames.empty()) return std::string(no_stack_label);
  return place_label(explaining_frame(frames)) + compiled_label(frames);
}

}  // namespace memreel
