# Programs that run on other systems than this one, for the wheel that `./dev wheel` makes. Given as -D:
#   MEMREEL_OLD_GLIBC   what cmake/wheel/old_glibc.py made: symbols of a C library that is older than this system's
#   MEMREEL_GLFW        a libglfw.so.3 that finds X11 when it starts, from PyPI; Debian's is tied to it. Installed beside
#                       the agent
# With the former, libraries of others are linked as archives. libgcc_s.so.1 stays shared: each system has it, and unwinding
# asks the loader for what only the system's own copy knows how to ask. That release's start files don't say that they are made for
# IBT and SHSTK, so the programs don't either.
set(MEMREEL_OLD_GLIBC "" CACHE PATH "Link with the C library's symbols of this directory, and archives of all else")
set(MEMREEL_GLFW "" CACHE FILEPATH "A libglfw.so.3 to link and install")
if(MEMREEL_OLD_GLIBC)
  # Half of what the small programs would contain is unused parts of the archives.
  add_compile_options(-ffunction-sections -fdata-sections)
  add_link_options(-B${MEMREEL_OLD_GLIBC} -L${MEMREEL_OLD_GLIBC} -static-libstdc++ LINKER:--gc-sections)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
endif()
