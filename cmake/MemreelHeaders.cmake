# SPDX-License-Identifier: Apache-2.0
# memreel::headers: memreel.h and policy.h, for programs that annotate their own pools and for allocators to replay.
# Header-only. Available through find_package(memreel CONFIG), pkg-config, FetchContent, vcpkg and Conan.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

add_library(memreel_headers INTERFACE)
add_library(memreel::headers ALIAS memreel_headers)
set_target_properties(memreel_headers PROPERTIES EXPORT_NAME headers)
target_include_directories(memreel_headers INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/collector/include>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/analyzer/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# The same files serve every architecture, so they are installed in share.
set(package ${CMAKE_INSTALL_DATADIR}/cmake/memreel)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/memreelConfigVersion.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
configure_file(cmake/memreel.pc.in memreel.pc @ONLY)
install(TARGETS memreel_headers EXPORT memreel)
install(DIRECTORY analyzer/include/memreel collector/include/memreel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT headers)
install(EXPORT memreel FILE memreelConfig.cmake NAMESPACE memreel:: DESTINATION ${package} COMPONENT headers)
install(FILES ${PROJECT_BINARY_DIR}/memreelConfigVersion.cmake DESTINATION ${package} COMPONENT headers)
install(FILES ${PROJECT_BINARY_DIR}/memreel.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig COMPONENT headers)
