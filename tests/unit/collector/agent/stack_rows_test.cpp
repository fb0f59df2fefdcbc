// SPDX-License-Identifier: Apache-2.0
// Stacks through modules that are loaded and unloaded during recording, with old and new loaders.
#include "collector/trace/trace_builder.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "formats/writer/trace_writer.h"
#include "tests/unit/stacks/shapes.h"

namespace memreel::agent {
namespace {

class StackRowsBy : public ::testing::TestWithParam<stacks::CodeMap::Source> {
 protected:
  using Frames = std::vector<std::uintptr_t>;

  /// The calling thread's stack.
  [[gnu::noinline]] Frames capture() {
    Frames frames;
    for (auto key = recorder_.capture_stack(); key != stacks::StackKey::none; key = recorder_.stacks()[key].caller)
      frames.push_back(recorder_.stacks()[key].frame.bits);
    return frames;
  }

  /// The stack of a function called by the library.
  Frames capture_from(void* library) {
    const auto shapes = reinterpret_cast<shapes::Shapes (*)()>(dlsym(library, "shapes_of_library"));
    struct Look {
      StackRowsBy* self;
      Frames frames;
    } look{this, {}};
    shapes().first[2].call([](void* l) { static_cast<Look*>(l)->frames = static_cast<Look*>(l)->self->capture(); },
                           &look);
    return look.frames;
  }

  /// Whether a stack reaches the frames at which all stacks of this program end.
  bool is_whole(const Frames& frames) {
    const Frames here = capture();
    constexpr std::size_t common = 3;
    return frames.size() > here.size() && std::equal(here.end() - common, here.end(), frames.end() - common);
  }

  Recorder recorder_{{.depth = 200}, GetParam()};
  std::vector<std::byte> bytes_;
  TraceWriter writer_{memory_sink(bytes_), {.producer = "test"}};
  StackRows rows_{recorder_, writer_, {}};
};

INSTANTIATE_TEST_SUITE_P(, StackRowsBy,
                         ::testing::Values(stacks::CodeMap::Source::loader, stacks::CodeMap::Source::copy),
                         [](const auto& instance) {
                           return instance.param == stacks::CodeMap::Source::loader ? "AskingTheLoader" : "FromACopy";
                         });

TEST_P(StackRowsBy, AModuleThatCameLaterIsPassedFromTheNextRefreshOn) {
  for (int round = 0; round < 4; ++round)
    for (const char* const file : {SHAPES_LIBRARY, SHAPES_LIBRARY_FP}) {
      SCOPED_TRACE(file);
      void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
      ASSERT_NE(library, nullptr) << dlerror();
      rows_.refresh();
      EXPECT_TRUE(is_whole(capture_from(library)));
      EXPECT_TRUE(is_whole(capture_from(library))) << "the second time";
      dlclose(library);
      // Between two refreshes, a module may also be loaded at another's old address.
      if (round % 2 == 0) rows_.refresh();
    }
}

}  // namespace
}  // namespace memreel::agent
