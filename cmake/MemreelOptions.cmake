# Options, and the interface target `memreel_options` that every target of this project links: language level, warnings,
# sanitizer.
include(GNUInstallDirs)

option(MEMREEL_TESTS "Build the tests" ON)
option(MEMREEL_BENCH "Build the benchmarks" ON)
option(MEMREEL_FUZZ "Build the fuzzers (needs Clang)" OFF)
option(MEMREEL_CUDA "Build what needs the CUDA toolkit, when it is found" ON)
set(MEMREEL_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(MEMREEL_CCACHE ccache)
if(MEMREEL_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MEMREEL_CCACHE})
endif()

add_library(memreel_options INTERFACE)
target_include_directories(memreel_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(memreel_options INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align -Woverloaded-virtual
  -Wconversion -Wsign-conversion -Wno-missing-field-initializers)
if(MEMREEL_SANITIZE)
  target_compile_options(memreel_options INTERFACE -fsanitize=${MEMREEL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(memreel_options INTERFACE -fsanitize=${MEMREEL_SANITIZE})
endif()
