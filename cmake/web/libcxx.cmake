# SPDX-License-Identifier: Apache-2.0
# LLVM's C++ library, from the sources of Debian's package llvm-toolchain-19 in MEMREEL_WEB_SOURCES. All C++ code here
# links `web_libcxx`; the parts of libc++abi that it needs are emscripten's.
set(libcxx ${MEMREEL_WEB_SOURCES}/llvm/libcxx)
set(libcxx_headers ${PROJECT_BINARY_DIR}/libcxx)
if(NOT EXISTS ${libcxx_headers}/__config_site)
  file(COPY ${libcxx}/include/ DESTINATION ${libcxx_headers})
  configure_file(${libcxx}/vendor/llvm/default_assertion_handler.in ${libcxx_headers}/__assertion_handler COPYONLY)
  file(WRITE ${libcxx_headers}/__config_site "#pragma once\n\
#undef _LIBCPP_ABI_VERSION  // emscripten's, whose iterators of arrays are no pointers\n\
#define _LIBCPP_ABI_VERSION 1\n#define _LIBCPP_ABI_NAMESPACE __1\n#define _LIBCPP_HAS_MUSL_LIBC\n\
#define _LIBCPP_HAS_THREAD_API_PTHREAD\n#define _LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS\n\
#define _LIBCPP_HAS_NO_TIME_ZONE_DATABASE\n#define _LIBCPP_HAS_NO_VENDOR_AVAILABILITY_ANNOTATIONS\n\
#define _LIBCPP_PSTL_BACKEND_SERIAL\n#define _LIBCPP_HARDENING_MODE_DEFAULT 2\n\
#define _LIBCPP_ENABLE_EXPERIMENTAL  // std::jthread\n")
endif()

file(GLOB sources ${libcxx}/src/*.cpp ${libcxx}/src/ryu/*.cpp ${libcxx}/src/filesystem/*.cpp)
list(FILTER sources EXCLUDE REGEX "/(strstream|legacy_pointer_safety|int128_builtins|debug|tz[a-z_]*|time_zone)\\.cpp$")
add_library(web_libcxx STATIC ${sources})
set_target_properties(web_libcxx PROPERTIES CXX_STANDARD 23 UNITY_BUILD OFF)
target_compile_definitions(web_libcxx PRIVATE LIBCXX_BUILDING_LIBCXXABI=1 _LIBCPP_BUILDING_LIBRARY NDEBUG)
target_include_directories(web_libcxx PRIVATE ${libcxx}/src ${MEMREEL_WEB_SOURCES}/llvm/libcxxabi/include)
target_compile_options(web_libcxx PRIVATE -Oz -w
  PUBLIC $<$<COMPILE_LANGUAGE:CXX>:-nostdinc++> "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-isystem ${libcxx_headers}>")
target_link_libraries(web_libcxx PUBLIC -lc++abi-except -lunwind-except)
