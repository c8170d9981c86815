# With SACCADE_CUDA: finds nvcc and the static runtime, in the system's toolkit or in what `scripts/bootstrap --cuda`
# fetches, and compiles .cu files. Custom commands rather than CMake's CUDA language, whose compiler test wants a whole
# toolkit: the wheels have the parts that are needed and no more.
set(SACCADE_CUDA_TOOLKIT "" CACHE PATH "folder with bin/nvcc; empty: .cache/cuda, then the system's")
set(SACCADE_CUDA_LEAST 13.0)
set(cuda_places ${SACCADE_CUDA_TOOLKIT} ${PROJECT_SOURCE_DIR}/.cache/cuda/nvidia/cu13 $ENV{CUDA_HOME} /usr/local/cuda)
find_program(SACCADE_NVCC nvcc PATHS ${cuda_places} PATH_SUFFIXES bin NO_DEFAULT_PATH)
find_program(SACCADE_NVCC nvcc)
if(NOT SACCADE_NVCC)
  message(FATAL_ERROR "SACCADE_CUDA: no nvcc. `scripts/bootstrap --cuda` fetches one (about 105 MB), or give "
                      "-DSACCADE_CUDA_TOOLKIT=FOLDER")
endif()
execute_process(COMMAND ${SACCADE_NVCC} --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" ignored "${version}")
set(SACCADE_NVCC_VERSION ${CMAKE_MATCH_1})
if(SACCADE_NVCC_VERSION VERSION_LESS SACCADE_CUDA_LEAST)
  message(FATAL_ERROR "SACCADE_CUDA: ${SACCADE_NVCC} is ${SACCADE_NVCC_VERSION}, and ${SACCADE_CUDA_LEAST} is the least")
endif()
get_filename_component(cuda_root ${SACCADE_NVCC} REALPATH)
get_filename_component(cuda_root ${cuda_root} DIRECTORY)
get_filename_component(cuda_root ${cuda_root} DIRECTORY)
find_path(SACCADE_CUDA_INCLUDE cuda_runtime_api.h PATHS ${cuda_root}/include ${cuda_root}/targets/x86_64-linux/include
          NO_DEFAULT_PATH REQUIRED)
find_library(SACCADE_CUDART libcudart_static.a PATHS ${cuda_root}/lib ${cuda_root}/lib64
             ${cuda_root}/targets/x86_64-linux/lib NO_DEFAULT_PATH REQUIRED)
message(STATUS "CUDA ${SACCADE_NVCC_VERSION}: ${SACCADE_NVCC}")

# Each of `sources` by nvcc, for Ampere and Hopper and, for what comes after, as PTX: OBJECTS gets the object files. What
# ptxas says of registers and memory is written beside each, and a kernel that spills fails the build unless
# src/ops/cuda/stack_allowed.txt has it.
function(saccade_cuda_objects objects)
  set(result "")
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
    get_source_file_property(options ${source} SACCADE_NVCC_OPTIONS)
    if(NOT options)
      set(options "")
    endif()
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -DNVCC=${SACCADE_NVCC} -DSOURCE=${source} -DOBJECT=${object}
              -DHOST_COMPILER=${CMAKE_CXX_COMPILER} "-DOPTIONS=${options}"
              "-DINCLUDE=${PROJECT_BINARY_DIR}/include/ops,${PROJECT_BINARY_DIR}/include/tensor"
              -DALLOWED=${PROJECT_SOURCE_DIR}/src/ops/cuda/stack_allowed.txt -P ${PROJECT_SOURCE_DIR}/cmake/nvcc.cmake
      DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/nvcc.cmake ${PROJECT_SOURCE_DIR}/src/ops/cuda/stack_allowed.txt
      DEPFILE ${object}.d
      COMMENT "nvcc ${name}" VERBATIM)
    list(APPEND result ${object})
  endforeach()
  set_source_files_properties(${result} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  set(${objects} ${result} PARENT_SCOPE)
endfunction()
