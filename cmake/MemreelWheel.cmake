# SPDX-License-Identifier: Apache-2.0
# Programs for the wheel made by `./dev wheel`, which must run on systems other than this one. Set with -D:
#   MEMREEL_OLD_GLIBC   the output of cmake/wheel/old_glibc.py: symbols of a C library older than this system's
#   MEMREEL_GLFW        a libglfw.so.3 from PyPI that loads X11 at startup; Debian's links it. Installed next to
#                       the agent
# With MEMREEL_OLD_GLIBC, third-party libraries are linked statically. libgcc_s.so.1 stays shared: every system has it,
# and unwinding asks the loader in ways that only the system's own copy knows. That release's start files are not marked
# for IBT and SHSTK, so the programs aren't either.
set(MEMREEL_OLD_GLIBC "" CACHE PATH "Link with the C library stubs in this directory, and everything else statically")
set(MEMREEL_GLFW "" CACHE FILEPATH "A libglfw.so.3 to link and install")
if(MEMREEL_OLD_GLIBC)
  add_link_options(-B${MEMREEL_OLD_GLIBC} -L${MEMREEL_OLD_GLIBC} -static-libstdc++)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
endif()
