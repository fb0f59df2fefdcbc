// OpenGL's functions, looked up on first call, so that memreel-view starts without OpenGL and reports what is missing.
// These are all that window.cpp and panes/texture.cpp use; Dear ImGui looks up its own.
#include "viewer/app/opengl.h"

#include <GL/gl.h>
#include <GL/glext.h>
#include <GLFW/glfw3.h>

namespace {

memreel::viewer::OpenGlFinder& finder() {
  static memreel::viewer::OpenGlFinder current = glfwGetProcAddress;
  return current;
}

/// Calls OpenGL's function `name`, of the type of `declared`, in the current context.
template <auto declared, typename... Arguments>
void call(const char* name, Arguments... arguments) {
  static const auto function = reinterpret_cast<decltype(declared)>(finder()(name));
  function(arguments...);
}

}  // namespace

void memreel::viewer::find_opengl_with(OpenGlFinder other) { finder() = other; }

void glBindFramebuffer(GLenum target, GLuint framebuffer) {
  call<glBindFramebuffer>("glBindFramebuffer", target, framebuffer);
}

void glBindTexture(GLenum target, GLuint texture) { call<glBindTexture>("glBindTexture", target, texture); }

void glClear(GLbitfield mask) { call<glClear>("glClear", mask); }

void glClearColor(GLclampf red, GLclampf green, GLclampf blue, GLclampf alpha) {
  call<glClearColor>("glClearColor", red, green, blue, alpha);
}

void glDeleteFramebuffers(GLsizei count, const GLuint* framebuffers) {
  call<glDeleteFramebuffers>("glDeleteFramebuffers", count, framebuffers);
}

void glDeleteTextures(GLsizei count, const GLuint* textures) {
  call<glDeleteTextures>("glDeleteTextures", count, textures);
}

void glFinish() { call<glFinish>("glFinish"); }

void glFramebufferTexture2D(GLenum target, GLenum attachment, GLenum kind, GLuint texture, GLint level) {
  call<glFramebufferTexture2D>("glFramebufferTexture2D", target, attachment, kind, texture, level);
}

void glGenFramebuffers(GLsizei count, GLuint* framebuffers) {
  call<glGenFramebuffers>("glGenFramebuffers", count, framebuffers);
}

void glGenTextures(GLsizei count, GLuint* textures) { call<glGenTextures>("glGenTextures", count, textures); }

void glPixelStorei(GLenum name, GLint value) { call<glPixelStorei>("glPixelStorei", name, value); }

void glReadBuffer(GLenum mode) { call<glReadBuffer>("glReadBuffer", mode); }

void glReadPixels(GLint x, GLint y, GLsizei width, GLsizei height, GLenum format, GLenum type, GLvoid* pixels) {
  call<glReadPixels>("glReadPixels", x, y, width, height, format, type, pixels);
}

void glTexImage2D(GLenum target, GLint level, GLint inside, GLsizei width, GLsizei height, GLint border, GLenum format,
                  GLenum type, const GLvoid* pixels) {
  call<glTexImage2D>("glTexImage2D", target, level, inside, width, height, border, format, type, pixels);
}

void glTexParameteri(GLenum target, GLenum name, GLint value) {
  call<glTexParameteri>("glTexParameteri", target, name, value);
}

void glViewport(GLint x, GLint y, GLsizei width, GLsizei height) {
  call<glViewport>("glViewport", x, y, width, height);
}
