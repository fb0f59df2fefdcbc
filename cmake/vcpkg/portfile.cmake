# SPDX-License-Identifier: Apache-2.0
# memreel.h and memreel/policy.h, from the source tree of this port: vcpkg install memreel --overlay-ports=cmake/vcpkg
set(VCPKG_BUILD_TYPE release)  # headers are the same for debug
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS -DMEMREEL_HEADERS_ONLY=ON)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/memreel)
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
