# SPDX-License-Identifier: Apache-2.0
# Manual pages, generated from the programs' --help. Skipped where the programs can't run or run slowly.
find_package(Python3 QUIET COMPONENTS Interpreter)
set(can_run ON)
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  set(can_run OFF)
endif()
if(Python3_Interpreter_FOUND AND can_run AND NOT MEMREEL_SANITIZE)
  set(man ${PROJECT_BINARY_DIR}/man)
  add_custom_command(OUTPUT ${man}/memreel.1.gz
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/man_pages.py $<TARGET_FILE_DIR:memreel> ${man} ${PROJECT_VERSION}
      ${CMAKE_CROSSCOMPILING_EMULATOR}
    DEPENDS ${PROJECT_SOURCE_DIR}/cmake/man_pages.py memreel memreel-attach memreel-record memreel-top $<$<BOOL:${MEMREEL_VIEWER}>:memreel-view>
      $<$<TARGET_EXISTS:memreel-fleet-mpi>:memreel-fleet-mpi>)
  add_custom_target(memreel_man ALL DEPENDS ${man}/memreel.1.gz)
  install(DIRECTORY ${man}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime OPTIONAL FILES_MATCHING
    PATTERN "*.1.gz" PATTERN memreel-view.1.gz EXCLUDE PATTERN memreel-fleet-mpi.1.gz EXCLUDE)
  install(FILES ${man}/memreel-view.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT viewer OPTIONAL)
  if(TARGET memreel-fleet-mpi)
    install(FILES ${man}/memreel-fleet-mpi.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT mpi OPTIONAL)
  endif()
endif()
