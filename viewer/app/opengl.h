// The source of OpenGL's functions: GLFW, unless something else created the context.
#pragma once

namespace memreel::viewer {

using OpenGlFinder = void (*(*)(const char* name))();
/// Call before the first use of OpenGL.
void find_opengl_with(OpenGlFinder other);

}  // namespace memreel::viewer
