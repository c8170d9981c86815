# saccade_unit_tests(LIB [LIBS ...]): every *_test.cc beside the sources of LIB becomes one program LIB_test.
# saccade_test(NAME SOURCES ... LIBS ...): a program of its own (tests/).
find_package(GTest REQUIRED)
include(GoogleTest)

function(saccade_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;SOURCE_DIR" "SOURCES;LIBS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  # Tests run in the source folder. Its path is not compiled in, so that ccache serves every clone;
  # SOURCE_DIR is for tests that need it whole.
  if(NOT ARG_SOURCE_DIR)
    set(ARG_SOURCE_DIR ".")
  endif()
  target_compile_definitions(${name} PRIVATE SACCADE_SOURCE_DIR="${ARG_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

function(saccade_unit_tests lib folder)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*_test.cc)
  if(sources)
    saccade_test(${lib}_test SOURCES ${sources} LIBS ${lib} ${ARG_LIBS} TIMEOUT ${ARG_TIMEOUT} LABELS unit)
  endif()
endfunction()
