# Apache Arrow C++ for Parquet: the system's, else the headers and libraries that scripts/fetch-arrow takes out of a
# pinned pyarrow wheel. Without either, no_arrow/ is linked and says so when a Parquet file is asked for.
set(SACCADE_ARROW_ROOT "${PROJECT_SOURCE_DIR}/.cache/arrow" CACHE PATH "include/ and lib*.so of Arrow C++")
find_package(Arrow CONFIG QUIET)
find_package(Parquet CONFIG QUIET)
file(GLOB arrow_library "${SACCADE_ARROW_ROOT}/libarrow.so.*")
file(GLOB parquet_library "${SACCADE_ARROW_ROOT}/libparquet.so.*")
# A package that brings its own libraries has none (cmake/bundle.cmake): it is larger than all others together. Its headers stay in
# the path, so that what the compiler's cache has serves both builds.
if(SACCADE_BUNDLE_LIBRARIES)
  target_sources(saccade_bench PRIVATE ${CMAKE_CURRENT_LIST_DIR}/datasets/no_arrow/parquet_file.cc)
  target_include_directories(saccade_bench SYSTEM PRIVATE ${SACCADE_ARROW_ROOT}/include)
elseif(TARGET Arrow::arrow_shared AND TARGET Parquet::parquet_shared)
  target_sources(saccade_bench PRIVATE ${CMAKE_CURRENT_LIST_DIR}/datasets/with_arrow/parquet_file.cc)
  target_link_libraries(saccade_bench PRIVATE Parquet::parquet_shared Arrow::arrow_shared)
elseif(arrow_library AND parquet_library)
  target_sources(saccade_bench PRIVATE ${CMAKE_CURRENT_LIST_DIR}/datasets/with_arrow/parquet_file.cc)
  target_include_directories(saccade_bench SYSTEM PRIVATE ${SACCADE_ARROW_ROOT}/include)
  target_link_libraries(saccade_bench PRIVATE ${parquet_library} ${arrow_library})
else()
  message(STATUS "Arrow C++ not found: Parquet datasets are left out (scripts/bootstrap --full gets it)")
  target_sources(saccade_bench PRIVATE ${CMAKE_CURRENT_LIST_DIR}/datasets/no_arrow/parquet_file.cc)
endif()
