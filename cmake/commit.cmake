# Writes SACCADE_COMMIT to OUTPUT, where it has changed: the commit of SOURCE, "+" behind it where files differ from it,
# "" outside of git (a source archive).
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
else()
  execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes)
    string(APPEND commit "+")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define SACCADE_COMMIT \"${commit}\"\n")
