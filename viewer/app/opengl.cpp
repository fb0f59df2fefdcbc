// OpenGL's functions, found when they are first called: memreel-view starts, and says what is missing, where there is
// no OpenGL. These are all that window.cpp and panes/texture.cpp use; Dear ImGui finds its own.
#include "viewer/app/opengl.h"

#include <GL/gl.h>
#include <GL/glext.h>
#include <GLFW/glfw3.h>

#include <type_traits>

namespace {

memreel::viewer::OpenGlFinder& finder() {
  static memreel::viewer::OpenGlFinder current = glfwGetProcAddress;
  return current;
}

/// The function of that name and type in the OpenGL of the current context.
template <typename Function>
auto find(const char* name) {
  return reinterpret_cast<std::add_pointer_t<Function>>(finder()(name));
}

}  // namespace

void memreel::viewer::find_opengl_with(OpenGlFinder other) { finder() = other; }

void glBindFramebuffer(GLenum target, GLuint framebuffer) {
  static const auto call = find<decltype(glBindFramebuffer)>("glBindFramebuffer");
  call(target, framebuffer);
}

void glBindTexture(GLenum target, GLuint texture) {
  static const auto call = find<decltype(glBindTexture)>("glBindTexture");
  call(target, texture);
}

void glClear(GLbitfield mask) {
  static const auto call = find<decltype(glClear)>("glClear");
  call(mask);
}

void glClearColor(GLclampf red, GLclampf green, GLclampf blue, GLclampf alpha) {
  static const auto call = find<decltype(glClearColor)>("glClearColor");
  call(red, green, blue, alpha);
}

void glDeleteFramebuffers(GLsizei count, const GLuint* framebuffers) {
  static const auto call = find<decltype(glDeleteFramebuffers)>("glDeleteFramebuffers");
  call(count, framebuffers);
}

void glDeleteTextures(GLsizei count, const GLuint* textures) {
  static const auto call = find<decltype(glDeleteTextures)>("glDeleteTextures");
  call(count, textures);
}

void glFinish() {
  static const auto call = find<decltype(glFinish)>("glFinish");
  call();
}

void glFramebufferTexture2D(GLenum target, GLenum attachment, GLenum kind, GLuint texture, GLint level) {
  static const auto call = find<decltype(glFramebufferTexture2D)>("glFramebufferTexture2D");
  call(target, attachment, kind, texture, level);
}

void glGenFramebuffers(GLsizei count, GLuint* framebuffers) {
  static const auto call = find<decltype(glGenFramebuffers)>("glGenFramebuffers");
  call(count, framebuffers);
}

void glGenTextures(GLsizei count, GLuint* textures) {
  static const auto call = find<decltype(glGenTextures)>("glGenTextures");
  call(count, textures);
}

void glPixelStorei(GLenum name, GLint value) {
  static const auto call = find<decltype(glPixelStorei)>("glPixelStorei");
  call(name, value);
}

void glReadBuffer(GLenum mode) {
  static const auto call = find<decltype(glReadBuffer)>("glReadBuffer");
  call(mode);
}

void glReadPixels(GLint x, GLint y, GLsizei width, GLsizei height, GLenum format, GLenum type, GLvoid* pixels) {
  static const auto call = find<decltype(glReadPixels)>("glReadPixels");
  call(x, y, width, height, format, type, pixels);
}

void glTexImage2D(GLenum target, GLint level, GLint inside, GLsizei width, GLsizei height, GLint border, GLenum format,
                  GLenum type, const GLvoid* pixels) {
  static const auto call = find<decltype(glTexImage2D)>("glTexImage2D");
  call(target, level, inside, width, height, border, format, type, pixels);
}

void glTexParameteri(GLenum target, GLenum name, GLint value) {
  static const auto call = find<decltype(glTexParameteri)>("glTexParameteri");
  call(target, name, value);
}

void glViewport(GLint x, GLint y, GLsizei width, GLsizei height) {
  static const auto call = find<decltype(glViewport)>("glViewport");
  call(x, y, width, height);
}
