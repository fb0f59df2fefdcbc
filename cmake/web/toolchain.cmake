# SPDX-License-Identifier: Apache-2.0
# WebAssembly, by Debian's emscripten (`./dev web`). Debian 12 has release 3.1.6, whose C++ library is LLVM 13's,
# without range algorithms, std::jthread and std::stop_token. So emscripten provides the C library, the runtime for
# pages and the linking; the compiler is Clang 19, and the C++ library is LLVM 19's, built from Debian's sources
# (libcxx.cmake).
set(config ${CMAKE_CURRENT_LIST_DIR}/emscripten.py)
set(EMSCRIPTEN_ROOT_PATH /usr/share/emscripten)
set(CMAKE_C_COMPILER /usr/bin/emcc)
set(CMAKE_CXX_COMPILER /usr/bin/em++)
set(CMAKE_AR /usr/bin/llvm-ar-19 CACHE FILEPATH "")
set(CMAKE_RANLIB /usr/bin/llvm-ranlib-19 CACHE FILEPATH "")
include(${EMSCRIPTEN_ROOT_PATH}/cmake/Modules/Platform/Emscripten.cmake)

# Of the instructions that Clang 19 uses by default, only those that emscripten's own libraries and binaryen support.
# Exceptions are the JavaScript engine's: they cost nothing unless thrown.
set(features -mcpu=mvp -mbulk-memory -msign-ext -mnontrapping-fptoint -fwasm-exceptions
  -Xclang -target-feature -Xclang -multivalue -Xclang -target-feature -Xclang -reference-types)
list(JOIN features " " features)
# `compiler` runs Clang so that its output depends on nothing but the sources.
set(memory ${CMAKE_CURRENT_LIST_DIR}/../../build/web/fixed_addresses.so)
if(${CMAKE_CURRENT_LIST_DIR}/fixed_addresses.c IS_NEWER_THAN ${memory})
  get_filename_component(folder ${memory} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  execute_process(COMMAND /usr/lib/llvm-19/bin/clang -O2 -fPIC -ffreestanding -shared -nostdlib -fuse-ld=lld -o ${memory}
    ${CMAKE_CURRENT_LIST_DIR}/fixed_addresses.c COMMAND_ERROR_IS_FATAL ANY)
endif()
set(CMAKE_C_FLAGS_INIT "--em-config ${config} --compiler-wrapper=${CMAKE_CURRENT_LIST_DIR}/compiler ${features} -Wno-version-check")
set(CMAKE_CXX_FLAGS_INIT "${CMAKE_C_FLAGS_INIT}")
# Linked as a C program: a C++ program would get emscripten's own C++ library.
set(CMAKE_CXX_LINK_EXECUTABLE
  "<CMAKE_C_COMPILER> <FLAGS> <CMAKE_CXX_LINK_FLAGS> <LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES>")
set(CMAKE_HAVE_LIBC_PTHREAD TRUE)  # its functions are in the C library; they start no threads
