# Read by cpack when the files of a package with libraries of its own are in place: what it depends on is what these
# and the program need of the C and C++ libraries, by dpkg-shlibdeps. It names the packages of all others too.
set(scratch "${CPACK_TEMPORARY_DIRECTORY}.depends")
file(WRITE "${scratch}/debian/control" "Source: saccade\n\nPackage: saccade\nArchitecture: any\n")
file(GLOB libraries "${CPACK_TEMPORARY_DIRECTORY}/usr/lib/saccade/*.so*")
execute_process(COMMAND dpkg-shlibdeps -O --warnings=0 "${CPACK_TEMPORARY_DIRECTORY}/usr/bin/saccade" ${libraries}
  WORKING_DIRECTORY "${scratch}" OUTPUT_VARIABLE all COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(libc6|libgcc-s1|libstdc\\+\\+6) \\([^)]*\\)" system "${all}")
list(JOIN system ", " CPACK_DEBIAN_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS OFF)
