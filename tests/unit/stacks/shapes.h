// Functions with every shape of stack frame that compilers make, built several times with different options.
#pragma once

#include <span>

namespace shapes {

using Callback = void (*)(void* argument);

/// Calls `callback` from a frame of its shape.
struct Shape {
  const char* name;
  void (*call)(Callback callback, void* argument);
};

struct Shapes {
  const Shape* first;
  std::size_t count;
};

}  // namespace shapes

// With frame pointers, without, and as a library of their own has them (SHAPES_LIBRARY), under the last name.
extern "C" shapes::Shapes shapes_with_frame_pointers();
extern "C" shapes::Shapes shapes_without_frame_pointers();
extern "C" shapes::Shapes shapes_of_library();
