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

# What kernels are compiled for: machine code of Ampere and of Hopper and, for what comes after, PTX. One alone takes a third
# of the time.
set(SACCADE_CUDA_ARCHITECTURES "80,code=sm_80;80,code=compute_80;90a,code=sm_90a" CACHE STRING "nvcc's -gencode, each behind arch=compute_")

# FlashInfer's attention for Hopper (src/ops/cuda/flashinfer), where its headers are.
set(SACCADE_FLASHINFER "" CACHE STRING "folder that scripts/fetch-flashinfer makes; empty: .cache/flashinfer; none: without")
option(SACCADE_FLASHINFER_SAMPLE "compile one file of each kind, to see that they compile, and link none" OFF)
set(flashinfer_place ${PROJECT_SOURCE_DIR}/.cache/flashinfer)
if(SACCADE_FLASHINFER)
  set(flashinfer_place ${SACCADE_FLASHINFER})
endif()
set(SACCADE_FLASHINFER_FOLDER "")
if(EXISTS ${flashinfer_place}/include/flashinfer/attention/hopper/prefill_sm90.cuh)
  get_filename_component(SACCADE_FLASHINFER_FOLDER ${flashinfer_place} REALPATH)
  file(STRINGS ${SACCADE_FLASHINFER_FOLDER}/version SACCADE_FLASHINFER_VERSION)
  message(STATUS "FlashInfer ${SACCADE_FLASHINFER_VERSION}: ${SACCADE_FLASHINFER_FOLDER}")
elseif(SACCADE_FLASHINFER AND NOT SACCADE_FLASHINFER STREQUAL "none")
  message(FATAL_ERROR "SACCADE_FLASHINFER: ${SACCADE_FLASHINFER} has no include/flashinfer/attention/hopper")
else()
  message(STATUS "no FlashInfer: own attention only; `scripts/fetch-flashinfer` fetches it (about 62 MB)")
endif()
# Its files take 3.3 GB of memory each.
cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR at_once "${memory} / 6000")
if(at_once LESS 1)
  set(at_once 1)
endif()
set_property(GLOBAL APPEND PROPERTY JOB_POOLS flashinfer=${at_once})

# A cache serves nvcc's objects as it does the compiler's. By what headers say, and not by what the preprocessor makes of
# them: that differs from architecture to architecture. nvcc is known by its bytes, for it is unpacked anew for every clone.
set(nvcc_launcher "")
if(SACCADE_CCACHE)
  set(nvcc_launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
                   CCACHE_COMPILERCHECK=content ${SACCADE_CCACHE})
endif()

# Each of `sources` by nvcc, for Ampere and Hopper and, for what comes after, as PTX: OBJECTS gets the object files. What
# ptxas says of registers and memory is written beside each, and a kernel that spills fails the build unless
# src/ops/cuda/stack_allowed.txt has it. A source may have, as properties, SACCADE_NVCC_OPTIONS; SACCADE_NVCC_ARCHITECTURES in
# the place of those above; SACCADE_NVCC_INCLUDE, folders that come first, and SACCADE_NVCC_OTHERS, the one of them whose
# warnings are not ours; SACCADE_NVCC_POOL, of how many are compiled at a time.
function(saccade_cuda_objects objects)
  set(result "")
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
    foreach(property OPTIONS ARCHITECTURES INCLUDE OTHERS POOL)
      get_source_file_property(${property} ${source} SACCADE_NVCC_${property})
      if(NOT ${property})
        set(${property} "")
      endif()
    endforeach()
    if(NOT ARCHITECTURES)
      set(ARCHITECTURES ${SACCADE_CUDA_ARCHITECTURES})
    endif()
    list(APPEND INCLUDE ${PROJECT_BINARY_DIR}/include/ops ${PROJECT_BINARY_DIR}/include/tensor)
    list(JOIN INCLUDE "," include)
    list(JOIN ARCHITECTURES " " architectures)
    list(JOIN nvcc_launcher "," launcher)
    set(pool "")
    if(POOL)
      set(pool JOB_POOL ${POOL})
    endif()
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -DNVCC=${SACCADE_NVCC} -DSOURCE=${source} -DOBJECT=${object}
              -DHOST_COMPILER=${CMAKE_CXX_COMPILER} "-DOPTIONS=${OPTIONS}" "-DINCLUDE=${include}"
              "-DARCHITECTURES=${architectures}" "-DOTHERS=${OTHERS}" "-DLAUNCHER=${launcher}"
              -DALLOWED=${PROJECT_SOURCE_DIR}/src/ops/cuda/stack_allowed.txt -P ${PROJECT_SOURCE_DIR}/cmake/nvcc.cmake
      DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/nvcc.cmake ${PROJECT_SOURCE_DIR}/src/ops/cuda/stack_allowed.txt
      DEPFILE ${object}.d
      COMMENT "nvcc ${name}" ${pool} VERBATIM)
    list(APPEND result ${object})
  endforeach()
  set_source_files_properties(${result} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  set(${objects} ${result} PARENT_SCOPE)
endfunction()
