# The headers that nearly every file reads, parsed once: saccade_precompiled for libraries and programs, with GoogleTest's for
# tests (cmake/tests.cmake). A target reuses one of them, so that a preset has three and not a hundred.
# Files of other compiler flags (instruction sets, kernels on the emulator) have SKIP_PRECOMPILE_HEADERS.
option(SACCADE_PRECOMPILED "precompiled headers" ON)
set(saccade_common_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map> <memory>
  <mutex> <optional> <span> <string> <string_view> <thread> <unordered_map> <utility> <vector> <fmt/format.h> <tl/expected.hpp>
  <boost/json/array.hpp> <boost/json/object.hpp> <boost/json/value.hpp>)
# A reused header is valid for the flags that it was made with: programs are compiled as libraries are.
if(SACCADE_PRECOMPILED)
  set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})
endif()

# The bytes of a precompiled header name the folder that it was made in, so by them ccache would serve no other clone: it
# goes by the sum beside them, of what they are made of (CCACHE_PCH_EXTSUM in library.cmake).
function(saccade_precompiled_carrier name)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc CONTENT "")
  string(SHA256 sum "${saccade_common_headers} ${ARGN} ${CMAKE_CXX_COMPILER_VERSION} ${fmt_VERSION} ${Boost_VERSION} ${tl-expected_VERSION} ${GTest_VERSION}")
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${name}.dir/cmake_pch.hxx.gch.sum CONTENT "${sum}\n")
  add_library(${name} STATIC ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE Threads::Threads fmt::fmt tl::expected Boost::json OpenSSL::Crypto ${ARGN})
endfunction()

if(SACCADE_PRECOMPILED)
  # What ccache wants to see.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess> "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
  saccade_precompiled_carrier(saccade_precompiled)
  target_precompile_headers(saccade_precompiled PRIVATE ${saccade_common_headers})
endif()

# Reuses the headers of `carrier` in a target that has sources.
function(saccade_precompile target carrier)
  if(SACCADE_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM ${carrier})
  endif()
endfunction()
