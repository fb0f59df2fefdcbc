# What `cmake --install` puts where: the programs, the schemas for readers in other languages, the documentation.
install(TARGETS memreel memreel-attach memreel-record RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET memreel-fleet-mpi)
  install(TARGETS memreel-fleet-mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT mpi)
endif()
# Nobody links it: memreel-record finds it beside itself, in ../lib/memreel.
install(TARGETS memreel-agent LIBRARY DESTINATION lib/memreel)
if(MEMREEL_VIEWER)
  install(TARGETS memreel-view RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT viewer)
  # The tour's; memreel-view finds it in ../share/memreel/samples.
  install(FILES samples/traces/gpt_default.reel DESTINATION share/memreel/samples COMPONENT viewer)
endif()
install(DIRECTORY formats/proto/memreel DESTINATION ${CMAKE_INSTALL_DATADIR}/memreel/proto FILES_MATCHING PATTERN "*.proto")
install(DIRECTORY docs/schema/ DESTINATION ${CMAKE_INSTALL_DATADIR}/memreel/schema COMPONENT schema
  FILES_MATCHING PATTERN "*.json")
install(DIRECTORY analyzer/include/memreel collector/include/memreel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Made to be installed with pip, into whichever Python the programs run.
install(DIRECTORY collector/python_module/ DESTINATION ${CMAKE_INSTALL_DATADIR}/memreel/python
  FILES_MATCHING PATTERN "*.py" PATTERN "pyproject.toml")
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(FILES analyzer/cli/completions/memreel.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME memreel)
install(FILES samples/unit-costs-h200.json DESTINATION ${CMAKE_INSTALL_DATADIR}/memreel)
