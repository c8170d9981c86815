# Compiler settings for every target, and saccade_library(): one folder is one library.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# g++ takes half as long for -Og as for -O1 where there are sanitizers; clang takes it for -O1.
set(CMAKE_CXX_FLAGS_DEBUG "-Og -g1")
# -O3 is for the kernels and what else goes over many numbers (saccade_optimise below).
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(SACCADE_CCACHE ccache)
if(SACCADE_CCACHE)
  # Paths below the clone are hashed relative to it, so that one clone's objects serve the others'.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1 ${SACCADE_CCACHE})
endif()

# Links in a second what the system's linker takes ten for.
find_program(SACCADE_MOLD mold)
if(SACCADE_MOLD AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_definitions(SACCADE_VERSION="${PROJECT_VERSION}")
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -fno-omit-frame-pointer
                    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Werror>)
# Fatal by the compiler that CI has. A newer one knows more to warn of, clang (the fuzzers) other things: they are read, and no
# newcomer's first build ends by them.
# Boost 1.81 headers trip these on g++ 12 (-O3) and clang 19; our code is checked by the other compiler.
add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
                    $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
# g++ 12, optimising, sees overlapping copies in "literal" + std::string, and, where the string's header comes precompiled,
# copies longer than memory.
add_compile_options("$<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds>")
# What x86-64 does by itself: a * b + c is rounded twice, so that results that are defined to the bit are the same on every
# processor, and plain char has a sign.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options(-ffp-contract=off -fsigned-char)
endif()
if(SACCADE_SANITIZE)
  add_compile_options(-fsanitize=${SACCADE_SANITIZE})
  add_link_options(-fsanitize=${SACCADE_SANITIZE})
  if(SACCADE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
    if(SACCADE_SANITIZE_WITHOUT)
      add_compile_options(-fno-sanitize=${SACCADE_SANITIZE_WITHOUT})
    endif()
  endif()
  # A hundred test programs of 250 MB fill a small disk: of that, a quarter is relocations, and debug information packs well.
  if(SACCADE_MOLD AND NOT CMAKE_CROSSCOMPILING AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_link_options(-no-pie LINKER:--compress-debug-sections=zstd)
  endif()
endif()
if(SACCADE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# A folder's include path leads to that folder alone, so that a header of a library that is not linked does not compile:
# build/PRESET/include/FOLDER has one link, FOLDER, to src/FOLDER.
function(saccade_include_path name scope directory)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/src ${directory})
  string(REGEX REPLACE "/.*" "" folder "${folder}")
  set(root ${PROJECT_BINARY_DIR}/include/${folder})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${folder} ${root}/${folder} SYMBOLIC)
  target_include_directories(${name} ${scope} ${root})
endfunction()

# For libraries whose loops are the program's time, or the tests'. (-Og puts no call in line.)
function(saccade_optimise name)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O3> $<$<CONFIG:Debug>:-O1>)
endfunction()

# What no test runs, as benchmarks and the soak: built by name, or all of it as untested_programs.
add_custom_target(untested_programs)
function(saccade_untested name)
  set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  add_dependencies(untested_programs ${name})
endfunction()

# saccade_batch(NAME [TIMES n]): eight files of a library or the program are compiled as one, sixteen of tests (TIMES 2), whose
# files are lighter, and with sanitizers, where nobody waits for one of them, eight times as many: what takes the time is headers
# and templates, once a unit. So what is file-local has a name of its own there (tests/tidy). Left out are kernels, and what is
# being worked on, so that a change compiles in a second or two:
#   cmake --preset release -DSACCADE_SEPARATE="src/engine/local_engine.cc;src/serve"
set(SACCADE_BATCH 8 CACHE STRING "how many files of a library are compiled at once; 1: each alone")
set(SACCADE_SEPARATE "" CACHE STRING "files and folders that are no part of batches")
function(saccade_batch name)
  cmake_parse_arguments(ARG "" "TIMES" "" ${ARGN})
  if(SACCADE_BATCH LESS 2)
    return()
  endif()
  if(NOT ARG_TIMES)
    set(ARG_TIMES 1)
  endif()
  math(EXPR size "${SACCADE_BATCH} * ${ARG_TIMES}")
  set_target_properties(${name} PROPERTIES SACCADE_BATCH ${size})
  # In a batch every file is an included one.
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  if(SACCADE_SANITIZE)
    # Nor is a local name a shadow of what another file has: release looks, in small batches.
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-shadow> $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>)
  endif()
  # At the end of its folder: then it is known which files have flags of their own.
  cmake_language(EVAL CODE "cmake_language(DEFER CALL saccade_write_batches ${name})")
endfunction()

# CMake's own (UNITY_BUILD) name the clone in their text, so that no clone's cache would serve another's.
function(saccade_write_batches name)
  get_target_property(sources ${name} SOURCES)
  get_target_property(size ${name} SACCADE_BATCH)
  set(batched "")
  set(compiled "")
  foreach(source ${sources})
    get_filename_component(file ${source} ABSOLUTE)
    set(alone OFF)
    if(NOT source MATCHES "^[^$<]*\\.cc$")
      set(alone ON)
    endif()
    foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS INCLUDE_DIRECTORIES GENERATED OBJECT_DEPENDS SKIP_PRECOMPILE_HEADERS)
      get_source_file_property(own ${source} ${property})
      if(own)
        set(alone ON)
      endif()
    endforeach()
    foreach(place ${SACCADE_SEPARATE})
      string(FIND ${file} ${PROJECT_SOURCE_DIR}/${place} at)
      if(at EQUAL 0)
        set(alone ON)
      endif()
    endforeach()
    if(alone)
      list(APPEND compiled ${source})
    else()
      list(APPEND batched ${file})
    endif()
  endforeach()

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/batches)
  set(number 0)
  while(batched)
    list(SUBLIST batched 0 ${size} some)
    list(REMOVE_ITEM batched ${some})
    set(includes "")
    foreach(file ${some})
      file(RELATIVE_PATH path ${folder} ${file})
      string(APPEND includes "#include \"${path}\"\n")
    endforeach()
    set(batch ${folder}/${name}_${number}.cc)
    file(CONFIGURE OUTPUT ${batch} CONTENT "${includes}" @ONLY)
    list(APPEND compiled ${batch})
    math(EXPR number "${number} + 1")
  endwhile()
  set_target_properties(${name} PROPERTIES SOURCES "${compiled}")
endfunction()

# saccade_library(NAME [KERNELS] [FOLDERS f ...] LIBS a b ...)   sources: every *.cc here, and in FOLDERS, but *_test.cc and *_bench.cc
# The libraries named after LIBS are the include rule: nothing else can be included.
function(saccade_library name)
  cmake_parse_arguments(ARG "KERNELS" "" "FOLDERS;LIBS" ${ARGN})
  set(globs ${ARG_FOLDERS})
  list(TRANSFORM globs APPEND "/*.cc")
  file(GLOB sources CONFIGURE_DEPENDS *.cc ${globs})
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")
  if(sources)
    add_library(${name} STATIC ${sources})
    saccade_precompile(${name} saccade_precompiled)
    if(NOT ARG_KERNELS)
      saccade_batch(${name})
    endif()
    set(scope PUBLIC)
  else()
    add_library(${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  saccade_include_path(${name} ${scope} ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${name} ${scope} ${ARG_LIBS})
  set_target_properties(${name} PROPERTIES SACCADE_FOLDERS "${ARG_FOLDERS}")
endfunction()
