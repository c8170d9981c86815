# `cmake --install` and, from the same, the Debian package (cpack -G DEB).
include(GNUInstallDirs)
set(SACCADE_MAINTAINER "The Saccade authors <saccade@example.org>" CACHE STRING "who makes the package, with an address")
set(doc_dir ${CMAKE_INSTALL_DATADIR}/doc/saccade)
install(TARGETS saccade RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES packaging/saccade.service DESTINATION lib/systemd/system)
install(FILES packaging/saccade.default DESTINATION ${CMAKE_INSTALL_DATADIR}/saccade RENAME serve.toml)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/saccade)
include(cmake/bundle.cmake)
# FFmpeg links some 130 libraries: a package that brings its own libraries has no decoder.
if(TARGET saccade-video-decoder AND NOT SACCADE_BUNDLE_LIBRARIES)
  install(TARGETS saccade-video-decoder RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/saccade)
endif()
install(FILES README.md SECURITY.md DESTINATION ${doc_dir})
install(DIRECTORY docs/ DESTINATION ${doc_dir}/docs FILES_MATCHING PATTERN "*.md")
if(SACCADE_INSTALL_DEMO)
  install(DIRECTORY models/glimpse DESTINATION ${CMAKE_INSTALL_DATADIR}/saccade/models)
endif()

# What the program says of itself is written when it is installed: pages and completions cannot be older than it.
install(CODE "
  set(made \"${PROJECT_BINARY_DIR}/install\")
  file(REMOVE_RECURSE \"\${made}\")
  file(MAKE_DIRECTORY \"\${made}/completion\")
  execute_process(COMMAND \"$<TARGET_FILE:saccade>\" man \"\${made}/man\" COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB pages \"\${made}/man/*.1\")
  execute_process(COMMAND gzip -9n \${pages} COMMAND_ERROR_IS_FATAL ANY)
  foreach(shell bash zsh fish)
    execute_process(COMMAND \"$<TARGET_FILE:saccade>\" completion \${shell}
      OUTPUT_FILE \"\${made}/completion/\${shell}\" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  set(SACCADE_MAINTAINER \"${SACCADE_MAINTAINER}\")
  configure_file(\"${PROJECT_SOURCE_DIR}/packaging/changelog\" \"\${made}/changelog\" @ONLY)
  execute_process(COMMAND gzip -9n \"\${made}/changelog\" COMMAND_ERROR_IS_FATAL ANY)
")
install(DIRECTORY ${PROJECT_BINARY_DIR}/install/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_BINARY_DIR}/install/completion/bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME saccade)
install(FILES ${PROJECT_BINARY_DIR}/install/completion/zsh
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _saccade)
install(FILES ${PROJECT_BINARY_DIR}/install/completion/fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME saccade.fish)
install(FILES ${PROJECT_BINARY_DIR}/install/changelog.gz DESTINATION ${doc_dir})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME saccade)
set(CPACK_PACKAGE_VENDOR "The Saccade authors")
set(CPACK_PACKAGE_CONTACT "${SACCADE_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "server for vision-language models over the OpenAI API")
set(CPACK_PACKAGE_DESCRIPTION
    "Serves vision-language models over the OpenAI API from one program without\nPython: it loads Hugging Face checkpoints as published, batches requests\ncontinuously, and answers the same whatever else runs beside.\n\nIt also benchmarks any server that speaks that API (saccade bench), and\nis a proxy for several servers (saccade proxy).")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates")
include(CPack)
