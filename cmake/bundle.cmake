# One Debian package for more than one Debian: what the program links, but for the C and C++ libraries, goes to lib/saccade
# beside it. A package of libraries differs in name and version from one Debian to the next; libc6 and libstdc++6 are
# there in each, and a newer one serves what was linked with an older.
option(SACCADE_BUNDLE_LIBRARIES "install the shared libraries that the program links, too" OFF)
if(NOT SACCADE_BUNDLE_LIBRARIES)
  install(FILES packaging/copyright DESTINATION ${doc_dir})
  return()
endif()
# An RPATH rather than a RUNPATH: it holds for libraries that libraries link, which have none of their own.
set_target_properties(saccade PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/saccade")
target_link_options(saccade PRIVATE -Wl,--disable-new-dtags)

install(FILES packaging/bundled.lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME saccade)
install(CODE "
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES \"$<TARGET_FILE:saccade>\" RESOLVED_DEPENDENCIES_VAR libraries
    PRE_EXCLUDE_REGEXES \"^ld-linux\" \"^lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\\\\+\\\\+)\\\\.so\")
  set(made \"${PROJECT_BINARY_DIR}/bundle\")
  file(REMOVE_RECURSE \"\${made}\")
  file(MAKE_DIRECTORY \"\${made}\")
  set(packages)
  foreach(library \${libraries})
    get_filename_component(name \"\${library}\" NAME)
    file(REAL_PATH \"\${library}\" file)
    file(INSTALL \"\${file}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/saccade\" RENAME \"\${name}\"
      PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    # Debian's database knows a file by the path before or after /usr was merged.
    string(REGEX REPLACE \"^/usr\" \"\" short \"\${file}\")
    execute_process(COMMAND dpkg-query -S \"\${file}\" \"\${short}\" OUTPUT_VARIABLE owner ERROR_QUIET)
    if(NOT owner MATCHES \"^([^:\\n]+)\")
      message(FATAL_ERROR \"no Debian package has \${file}: its licence is not known\")
    endif()
    list(APPEND packages \"\${CMAKE_MATCH_1}\")
  endforeach()
  list(REMOVE_DUPLICATES packages)
  list(SORT packages)
  execute_process(COMMAND \"${PROJECT_SOURCE_DIR}/packaging/bundled_copyright\" \"${PROJECT_SOURCE_DIR}/packaging/copyright\"
    \${packages} OUTPUT_FILE \"\${made}/copyright\" COMMAND_ERROR_IS_FATAL ANY)
  file(INSTALL \"\${made}/copyright\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${doc_dir}\")
")
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/bundle_depends.cmake")
