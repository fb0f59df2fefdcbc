// Where OpenGL's functions come from: GLFW, unless something else made the context.
#pragma once

namespace memreel::viewer {

using OpenGlFinder = void (*(*)(const char* name))();
/// Before the first call.
void find_opengl_with(OpenGlFinder other);

}  // namespace memreel::viewer
