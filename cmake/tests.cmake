# saccade_unit_tests(LIB [LIBS ...]): every *_test.cc beside the sources of LIB becomes one program LIB_test.
# saccade_test(NAME SOURCES ... LIBS ... [SHARDS n] [SANITIZED | SANITIZED_FILTER f]): a program of its own (tests/).
#
# All tests run in a release build (scripts/test). What reads outside bytes, counts memory or has threads runs under
# AddressSanitizer and UBSan as well (scripts/test --all): tests that are SANITIZED, or those of them that a filter of
# GoogleTest's names, where a part reaches the same code. In a build with sanitizers these have the label "sanitized", and
# the target sanitized_tests builds them.
include(GoogleTest)

# What of -O tests are compiled with in release. A library's own tests compute little: without any they compile in half the time.
# Where tests are models, the slow twins of kernels or thousands of random runs, the folder sets 1.
set(SACCADE_TEST_LEVEL 0)
if(SACCADE_PRECOMPILED)
  foreach(level 0 1)
    set(carrier saccade_precompiled_tests_O${level})
    saccade_precompiled_carrier(${carrier} GTest::gmock GTest::gtest)
    target_precompile_headers(${carrier} PRIVATE ${saccade_common_headers} <gmock/gmock.h> <gtest/gtest.h>)
    target_compile_options(${carrier} PRIVATE $<$<CONFIG:Release>:-O${level}>)  # as those that read it
  endforeach()
endif()

add_custom_target(sanitized_tests)

# Tests whose timers and sockets want a core to themselves. They mostly wait, so they begin first, one beside what computes: at
# the end there would be nothing beside them.
function(saccade_undisturbed)
  set_tests_properties(${ARGN} PROPERTIES PROCESSORS 2 COST 3600)
endfunction()

# How tests and what they share are compiled. They run in the source folder; its path is not compiled in, so that ccache serves
# every clone: a second argument is for tests that need it whole.
function(saccade_test_options name)
  set(source_dir ".")
  if(ARGC GREATER 1)
    set(source_dir ${ARGV1})
  endif()
  # Other builds have one level for all, and one header.
  set(level 1)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    set(level ${SACCADE_TEST_LEVEL})
  endif()
  saccade_precompile(${name} saccade_precompiled_tests_O${level})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE SACCADE_SOURCE_DIR="${source_dir}")
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O${level}>)
  saccade_batch(${name} TIMES 2)
  target_compile_options(${name} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-shadow;-Wshadow=local>")  # a test's constants are named as another file's are
endfunction()

# saccade_test_program(NAME SOURCES ... LIBS ... [SOURCE_DIR d]): what runs them.
function(saccade_test_program name)
  cmake_parse_arguments(ARG "" "SOURCE_DIR" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  add_dependencies(${name} unpacked_goldens)
  saccade_test_options(${name} ${ARG_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gmock GTest::gtest)
endfunction()

# saccade_tests_of(PROGRAM NAME [FILES f ...] [TIMEOUT s] [SHARDS n] [SANITIZED | SANITIZED_FILTER f] [ENVIRONMENT e ...]
# LABELS ...): all tests of a program, or those of some of its files (tests/support/tests_of_files.cc), as one of ctest's or n.
function(saccade_tests_of program name)
  cmake_parse_arguments(ARG "SANITIZED" "TIMEOUT;SHARDS;SANITIZED_FILTER" "FILES;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  if(ARG_SANITIZED)
    list(APPEND ARG_LABELS sanitized)
  endif()
  if(ARG_SANITIZED OR ARG_SANITIZED_FILTER)
    add_dependencies(sanitized_tests ${program})
  endif()
  # What may take longest begins first. Sanitizers make everything several times slower.
  set(timeout ${ARG_TIMEOUT})
  if(SACCADE_SANITIZE)
    math(EXPR timeout "3 * ${ARG_TIMEOUT}")
  endif()
  set(properties TIMEOUT ${timeout} COST ${ARG_TIMEOUT})
  if(ARG_SANITIZED_FILTER AND SACCADE_SANITIZE)
    add_test(NAME ${name}_sanitized COMMAND ${program} ${ARG_FILES} --gtest_filter=${ARG_SANITIZED_FILTER} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name}_sanitized PROPERTIES ${properties} LABELS "${ARG_LABELS};sanitized" ENVIRONMENT "${ARG_ENVIRONMENT}")
  endif()
  if(NOT ARG_SHARDS)
    add_test(NAME ${name} COMMAND ${program} ${ARG_FILES} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES ${properties} LABELS "${ARG_LABELS}" ENVIRONMENT "${ARG_ENVIRONMENT}")
    return()
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${name}.${shard} COMMAND ${program} ${ARG_FILES} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name}.${shard} PROPERTIES ${properties} LABELS "${ARG_LABELS}"
                         ENVIRONMENT "${ARG_ENVIRONMENT};GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

function(saccade_test name)
  cmake_parse_arguments(ARG "SANITIZED" "TIMEOUT;SOURCE_DIR;SHARDS;SANITIZED_FILTER" "SOURCES;LIBS;LABELS" ${ARGN})
  saccade_test_program(${name} SOURCES ${ARG_SOURCES} LIBS ${ARG_LIBS} GTest::gtest_main SOURCE_DIR ${ARG_SOURCE_DIR})
  set(options LABELS ${ARG_LABELS})
  foreach(option TIMEOUT SHARDS SANITIZED_FILTER)
    if(ARG_${option})
      list(APPEND options ${option} ${ARG_${option}})
    endif()
  endforeach()
  if(ARG_SANITIZED)
    list(APPEND options SANITIZED)
  endif()
  saccade_tests_of(${name} ${name} ${options})
endfunction()

function(saccade_unit_tests lib folder)
  cmake_parse_arguments(ARG "" "TIMEOUT;SHARDS;SANITIZED_FILTER" "LIBS" ${ARGN})
  get_target_property(folders ${lib} SACCADE_FOLDERS)
  set(globs *_test.cc)
  if(folders)
    list(TRANSFORM folders APPEND "/*_test.cc")
    list(APPEND globs ${folders})
  endif()
  list(TRANSFORM globs PREPEND "${PROJECT_SOURCE_DIR}/src/${folder}/")
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  if(sources)
    set(sanitized SANITIZED)
    if(ARG_SANITIZED_FILTER)
      set(sanitized SANITIZED_FILTER ${ARG_SANITIZED_FILTER})
    endif()
    saccade_test(${lib}_test SOURCES ${sources} LIBS ${lib} ${ARG_LIBS} TIMEOUT ${ARG_TIMEOUT} SHARDS ${ARG_SHARDS} ${sanitized} LABELS unit)
  endif()
endfunction()
