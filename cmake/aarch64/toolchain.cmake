# SPDX-License-Identifier: Apache-2.0
# Debian's cross compiler for 64-bit Arm, with the libraries that make_root unpacked. Tests run with qemu-user, which
# finds the loader and libraries there.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(MEMREEL_ROOT ${CMAKE_CURRENT_LIST_DIR}/../../build/aarch64-root CACHE PATH "What make_root made")
get_filename_component(MEMREEL_ROOT ${MEMREEL_ROOT} ABSOLUTE)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MEMREEL_ROOT)

set(CMAKE_SYSROOT ${MEMREEL_ROOT})
set(CMAKE_FIND_ROOT_PATH ${MEMREEL_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)  # protoc and the like run here
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# The descriptions of libraries that pkg-config reads are those of the folder.
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${MEMREEL_ROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${MEMREEL_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${MEMREEL_ROOT}/usr/share/pkgconfig)

find_program(MEMREEL_QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(MEMREEL_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${MEMREEL_QEMU} -L ${MEMREEL_ROOT})
endif()
