# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` installs where, and in which component (--component). The wheel has runtime, viewer, headers
# (MemreelHeaders.cmake) and schema.
set(data ${CMAKE_INSTALL_DATADIR}/memreel)
install(TARGETS memreel memreel-attach memreel-record memreel-top RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
# No program links it: memreel-record finds it relative to itself, in ../lib/memreel.
install(TARGETS memreel-agent LIBRARY DESTINATION lib/memreel COMPONENT runtime)
# For `memreel demo` and the viewer's tour, which look in ../share/memreel/samples.
install(FILES samples/traces/gpt_default.reel DESTINATION ${data}/samples COMPONENT runtime)
# For `memreel view --serve` and `memreel report --interactive`, which look in ../share/memreel. `./dev web` builds it,
# before or after this is configured; its licenses are only those of what it contains.
set(page ${PROJECT_SOURCE_DIR}/build/web/memreel-view.html)
install(FILES ${page} DESTINATION ${data} COMPONENT runtime OPTIONAL)
install(CODE "if(EXISTS \"${page}\")
  set(licenses \${CMAKE_INSTALL_PREFIX}/${data}/licenses)
  file(INSTALL ${PROJECT_SOURCE_DIR}/build/web/sources/llvm/libcxx/LICENSE.TXT DESTINATION \${licenses} RENAME libcxx OPTIONAL)
  file(INSTALL /usr/share/doc/emscripten/copyright DESTINATION \${licenses} RENAME emscripten OPTIONAL)
endif()" COMPONENT runtime)
install(FILES samples/unit-costs-h200.json DESTINATION ${data} COMPONENT runtime)
install(FILES analyzer/cli/completions/memreel.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME memreel COMPONENT runtime)
install(FILES analyzer/cli/completions/memreel.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
  COMPONENT runtime)
install(FILES analyzer/cli/completions/_memreel DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT runtime)
if(TARGET memreel-fleet-mpi)
  install(TARGETS memreel-fleet-mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT mpi)
endif()
if(MEMREEL_VIEWER)
  install(TARGETS memreel-view RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT viewer)
  install(FILES viewer/desktop/memreel-view.desktop DESTINATION ${CMAKE_INSTALL_DATADIR}/applications COMPONENT viewer)
  install(FILES viewer/desktop/memreel-view.svg DESTINATION ${CMAKE_INSTALL_DATADIR}/icons/hicolor/scalable/apps
    COMPONENT viewer)
  install(FILES viewer/desktop/memreel.xml DESTINATION ${CMAKE_INSTALL_DATADIR}/mime/packages COMPONENT viewer)
  if(MEMREEL_GLFW)
    install(FILES ${MEMREEL_GLFW} DESTINATION lib/memreel RENAME libglfw.so.3 COMPONENT viewer)
  endif()
endif()
if(MEMREEL_OLD_GLIBC)
  # Statically linked libraries, and those the viewer would find on a system with these packages.
  foreach(package libdw-dev liblzma-dev libzstd-dev zlib1g-dev libsqlite3-dev libbz2-dev libimgui-dev libstb-dev libfreetype-dev libpng-dev
      libbrotli-dev libncurses-dev libre2-dev libprotozero-dev libcli11-dev nlohmann-json3-dev libstdc++6 fonts-roboto-unhinted fonts-dejavu-core)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION ${data}/licenses RENAME ${package} COMPONENT runtime)
  endforeach()
  install(FILES /usr/share/fonts/truetype/roboto/unhinted/RobotoTTF/Roboto-Regular.ttf
    /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf DESTINATION ${data}/fonts COMPONENT viewer)
endif()
install(DIRECTORY formats/proto/memreel DESTINATION ${data}/proto COMPONENT schema FILES_MATCHING PATTERN "*.proto")
install(DIRECTORY docs/schema/ DESTINATION ${data}/schema COMPONENT schema FILES_MATCHING PATTERN "*.json")
# The Python package, for systems that do not install it with pip.
install(DIRECTORY collector/python_module/memreel DESTINATION ${data}/python COMPONENT python
  FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN __pycache__ EXCLUDE)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT docs)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT docs PATTERN "*.md" EXCLUDE PATTERN "*.py" EXCLUDE
  PATTERN "docs/site" EXCLUDE)
install(CODE "set(source ${PROJECT_SOURCE_DIR})
  set(staging ${PROJECT_BINARY_DIR}/documents)
  set(destination ${CMAKE_INSTALL_DOCDIR})" COMPONENT docs)
install(SCRIPT cmake/install_documents.cmake COMPONENT docs)
