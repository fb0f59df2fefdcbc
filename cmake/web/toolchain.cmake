# WebAssembly, by Debian's emscripten (`./dev web`). Of Debian 12 that is release 3.1.6, whose C++ library is that of LLVM 13:
# without algorithms on ranges, std::jthread and std::stop_token. So emscripten brings the C library, what makes programs
# run in a page, and the linking; the compiler is Clang 19, and the C++ library LLVM 19's, built from Debian's sources
# (libcxx.cmake).
set(config ${CMAKE_CURRENT_LIST_DIR}/emscripten.py)
set(EMSCRIPTEN_ROOT_PATH /usr/share/emscripten)
set(CMAKE_C_COMPILER /usr/bin/emcc)
set(CMAKE_CXX_COMPILER /usr/bin/em++)
set(CMAKE_AR /usr/bin/llvm-ar-19 CACHE FILEPATH "")
set(CMAKE_RANLIB /usr/bin/llvm-ranlib-19 CACHE FILEPATH "")
include(${EMSCRIPTEN_ROOT_PATH}/cmake/Modules/Platform/Emscripten.cmake)

# Of the instructions that Clang 19 would use by itself, only what emscripten's own libraries and binaryen know. Exceptions
# are the engine's own: they cost nothing where none is thrown.
set(features -mcpu=mvp -mbulk-memory -msign-ext -mnontrapping-fptoint -fwasm-exceptions
  -Xclang -target-feature -Xclang -multivalue -Xclang -target-feature -Xclang -reference-types)
list(JOIN features " " features)
set(CMAKE_C_FLAGS_INIT "--em-config ${config} ${features} -Wno-version-check")
set(CMAKE_CXX_FLAGS_INIT "${CMAKE_C_FLAGS_INIT}")
# As a C program: its own C++ library would be linked to a C++ program.
set(CMAKE_CXX_LINK_EXECUTABLE
  "<CMAKE_C_COMPILER> <FLAGS> <CMAKE_CXX_LINK_FLAGS> <LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES>")
set(CMAKE_HAVE_LIBC_PTHREAD TRUE)  # its functions are in the C library; they start no threads
