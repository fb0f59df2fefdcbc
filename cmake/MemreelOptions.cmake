# SPDX-License-Identifier: Apache-2.0
# Options, and the interface target `memreel_options` that every target of this project links: language level, warnings,
# sanitizer. Nothing here touches third-party targets, so a dependency's header can't break our warnings.
include(GNUInstallDirs)

option(MEMREEL_TESTS "Build the tests" ON)
option(MEMREEL_PEERS "Build what only ./dev test --peers needs, if its dependencies are found" OFF)
option(MEMREEL_BENCH "Build the benchmarks" OFF)
option(MEMREEL_FUZZ "Build the fuzzers (needs Clang)" OFF)
option(MEMREEL_VIEW "Build the viewer, if its dependencies are found" ON)
option(MEMREEL_CUDA "Build what needs the CUDA toolkit, if it is found" ON)
option(MEMREEL_WARNINGS_AS_ERRORS "Stop at the first warning" ON)
set(MEMREEL_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_package(Threads REQUIRED)
find_program(MEMREEL_CCACHE ccache)
if(MEMREEL_CCACHE AND NOT EMSCRIPTEN)
  # For a precompiled header ccache hashes the contents of its headers, if told to tolerate macros in it. With paths relative
  # to the build directory, `./dev wheel` and `./dev test` share objects. Without depend mode each miss preprocesses twice.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_DEPEND=true ${MEMREEL_CCACHE})
endif()

# Half of a unit's compile time is headers. With CMAKE_UNITY_BUILD, which ./dev enables unless UNITY=OFF, several files
# of one target form one unit: few enough to keep every processor busy.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 18)

# The fastest linker available. GCC supports mold since 12.1.
include(CheckLinkerFlag)
foreach(linker mold lld)
  check_linker_flag(CXX -fuse-ld=${linker} MEMREEL_HAS_${linker})
  if(MEMREEL_HAS_${linker})
    add_link_options(-fuse-ld=${linker})
    break()
  endif()
endforeach()

if(MEMREEL_CUDA)
  find_package(CUDAToolkit QUIET)
endif()
if(MEMREEL_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "MEMREEL_FUZZ needs libFuzzer, which only Clang has: configure with -D CMAKE_CXX_COMPILER=clang++")
endif()

configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${PROJECT_BINARY_DIR}/generated/memreel/version.h @ONLY)

add_library(memreel_options INTERFACE)
target_include_directories(memreel_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_compile_options(memreel_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align -Woverloaded-virtual
  -Wconversion -Wsign-conversion -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  # False positives in std::string's operator+ (GCC bug 105651).
  target_compile_options(memreel_options INTERFACE -Wno-restrict)
endif()
if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
  # As on x86-64: bytes and sums are the same on both, and so are plans and predictions.
  target_compile_options(memreel_options INTERFACE -fsigned-char -ffp-contract=off)
endif()
if(CMAKE_UNITY_BUILD)
  # In a unity build GCC takes each file for a header, where an unnamed namespace would be a mistake, and a local name
  # may match another file's constant. File-by-file builds keep both warnings, where they are meaningful.
  target_compile_options(memreel_options INTERFACE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  # GCC inlines less in a unit of more than 10,000 instructions, which joined files soon are: replays were 10 % slower, and
  # imports 7 %. Elsewhere the compile time, a tenth, is not worth it.
  set(hot $<STREQUAL:$<TARGET_PROPERTY:MEMREEL_OPTIMIZATION>,-O3>)
  target_compile_options(memreel_options INTERFACE
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>,${hot}>:--param=large-unit-insns=100000>)
endif()
# Two thirds of a build are optimization. So each library has what it needs:
# - -O3: the collector, replays, and the reading of snapshots.
# - -O2: what reads every event of a trace: the model, the reader.
# - by default, what gives reports and the viewer their speed, inlining, and nothing else beyond -O1: compiles a quarter
#   faster than -O2.
# - -Og: what only assembles, compares and prints what others computed: compiles a third faster than -O2.
define_property(TARGET PROPERTY MEMREEL_OPTIMIZATION INHERITED BRIEF_DOCS "Optimization of releases"
  FULL_DOCS "A compiler's option; if not set, -O1 and inlining with GCC, else -O2")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(usual_optimization "-O1;-finline-small-functions;-findirect-inlining;-fpartial-inlining;-fstrict-aliasing")
else()
  set(usual_optimization -O2)
endif()
set(optimization $<TARGET_PROPERTY:MEMREEL_OPTIMIZATION>)
if(EMSCRIPTEN)
  set(optimization $<IF:$<STREQUAL:${optimization},-Og>,-Os,${optimization}>)  # which has no -Og; a page should be small
endif()
target_compile_options(memreel_options INTERFACE
  "$<$<CONFIG:Release>:$<IF:$<BOOL:$<TARGET_PROPERTY:MEMREEL_OPTIMIZATION>>,${optimization},${usual_optimization}>>")
# False positives in std::optional (GCC bug 80635); builds with other options keep the warning.
target_compile_options(memreel_options INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>,$<STREQUAL:$<TARGET_PROPERTY:MEMREEL_OPTIMIZATION>,-Og>>:-Wno-maybe-uninitialized>)
# Half of what the wheel's small programs would contain is unused parts of the archives. In every release build, so that
# ccache has the wheel's objects.
target_compile_options(memreel_options INTERFACE $<$<CONFIG:Release>:-ffunction-sections$<SEMICOLON>-fdata-sections>)
target_link_options(memreel_options INTERFACE $<$<CONFIG:Release>:LINKER:--gc-sections>)
# The hot loops (pickle opcodes, event kinds) are switches whose outcomes repeat in patterns. Branch predictors handle
# comparisons well there but not jump tables, least of all on virtual machines: those cost a fifth of an import.
target_compile_options(memreel_options INTERFACE -fno-jump-tables)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # By default GCC collects its garbage from 128 MiB on, which takes a tenth of the compile time. A unit needs up to
  # 1.3 GiB without.
  target_compile_options(memreel_options INTERFACE --param=ggc-min-heapsize=1000000)
endif()
if(MEMREEL_WARNINGS_AS_ERRORS)
  target_compile_options(memreel_options INTERFACE -Werror)
endif()
define_property(TARGET PROPERTY MEMREEL_NO_SANITIZE INHERITED BRIEF_DOCS "UndefinedBehaviorSanitizer's checks to leave out"
  FULL_DOCS "A list separated by commas, such as null,alignment")
if(MEMREEL_SANITIZE)
  # Not UBSan in the tests' own code (property MEMREEL_TEST): its checks are a third of their compile time.
  string(REPLACE ",undefined" "" sanitize_tests "${MEMREEL_SANITIZE}")
  string(REPLACE "," "$<COMMA>" sanitize_all "${MEMREEL_SANITIZE}")
  target_compile_options(memreel_options INTERFACE
    -fsanitize=$<IF:$<BOOL:$<TARGET_PROPERTY:MEMREEL_TEST>>,${sanitize_tests},${sanitize_all}>
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_definitions(memreel_options INTERFACE MEMREEL_SANITIZED)  # compilers have no macro in common
  target_link_options(memreel_options INTERFACE -fsanitize=${MEMREEL_SANITIZE})
  if(MEMREEL_SANITIZE MATCHES undefined)
    target_compile_options(memreel_options INTERFACE
      $<$<BOOL:$<TARGET_PROPERTY:MEMREEL_NO_SANITIZE>>:-fno-sanitize=$<TARGET_PROPERTY:MEMREEL_NO_SANITIZE>>)
    # UBSan describes every check by addresses: 1.9 million of them in memreel, which a program that is loaded at a random
    # address adjusts whenever it starts.
    target_link_options(memreel_options INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  endif()
endif()
if(MEMREEL_FUZZ)
  # Without the tracing of comparisons, which guesses constants: the corpora have those of the formats.
  target_compile_options(memreel_options INTERFACE -fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp)
endif()
