// SPDX-License-Identifier: Apache-2.0
// Functions with every kind of stack frame that compilers generate, built several times with different options.
#pragma once

#include <span>

namespace shapes {

using Callback = void (*)(void* argument);

/// Calls `callback` from a frame of that shape.
struct Shape {
  const char* name;
  void (*call)(Callback callback, void* argument);
};

struct Shapes {
  const Shape* first;
  std::size_t count;
};

}  // namespace shapes

// With frame pointers, without, and in a separate library (SHAPES_LIBRARY), under the last name.
extern "C" shapes::Shapes shapes_with_frame_pointers();
extern "C" shapes::Shapes shapes_without_frame_pointers();
extern "C" shapes::Shapes shapes_of_library();
