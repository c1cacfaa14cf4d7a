# The DSP's program: compiled by a clang that knows Hexagon, embedded in the library (image.c). Without such a clang and
# ld.lld tenon is built all the same; opening the device then says what was missing.
set(HEXAGON ${CMAKE_SOURCE_DIR}/src/device/hexagon)
foreach(VERSION -19 -20 -21 -22 -18 -17 "") # 19 is the one this is tested with
  list(APPEND HEXAGON_CLANGS clang${VERSION})
  list(APPEND HEXAGON_LINKERS ld.lld${VERSION})
endforeach()
set(HEXAGON_FLAGS --target=hexagon-unknown-linux-musl -mv67 -mhvx -O3 -ffreestanding -fno-pic -fno-stack-protector
                  -ffp-contract=off -fno-math-errno -G0 -ffunction-sections -fdata-sections)

# A compiler is one that really makes code for the processor: many are built without it.
foreach(NAME ${HEXAGON_CLANGS})
  find_program(HEXAGON_TRY_${NAME} ${NAME})
  mark_as_advanced(HEXAGON_TRY_${NAME})
  if(HEXAGON_TRY_${NAME} AND NOT HEXAGON_CLANG)
    execute_process(COMMAND ${HEXAGON_TRY_${NAME}} ${HEXAGON_FLAGS} -c -x c /dev/null -o /dev/null
                    RESULT_VARIABLE FAILED OUTPUT_QUIET ERROR_QUIET)
    if(NOT FAILED)
      set(HEXAGON_CLANG ${HEXAGON_TRY_${NAME}} CACHE FILEPATH "a clang for Hexagon")
    endif()
  endif()
endforeach()
find_program(HEXAGON_LINKER NAMES ${HEXAGON_LINKERS} DOC "an ld.lld for Hexagon")

if(HEXAGON_CLANG AND HEXAGON_LINKER)
  file(GLOB HEXAGON_SOURCES CONFIGURE_DEPENDS ${HEXAGON}/dsp/*.S ${HEXAGON}/dsp/*.c
       ${CMAKE_SOURCE_DIR}/src/kernels/*.c ${CMAKE_SOURCE_DIR}/src/kernels/reference/*.c)
  list(APPEND HEXAGON_SOURCES ${CMAKE_SOURCE_DIR}/src/program/interpret.c ${CMAKE_SOURCE_DIR}/src/program/count.c
       ${CMAKE_SOURCE_DIR}/src/program/op_info.c ${CMAKE_SOURCE_DIR}/src/program/shape.c
       ${CMAKE_SOURCE_DIR}/src/program/check.c ${CMAKE_SOURCE_DIR}/src/tensor/decode.c
       ${CMAKE_SOURCE_DIR}/src/tensor/dtype.c)
  set(HEXAGON_IMAGE ${CMAKE_BINARY_DIR}/hexagon/tenon-dsp)
  set(HEXAGON_OBJECTS "")
  foreach(SOURCE ${HEXAGON_SOURCES})
    file(RELATIVE_PATH NAME ${CMAKE_SOURCE_DIR}/src ${SOURCE})
    set(OBJECT ${CMAKE_BINARY_DIR}/hexagon/${NAME}.o)
    get_filename_component(FOLDER ${OBJECT} DIRECTORY)
    file(MAKE_DIRECTORY ${FOLDER})
    set(OPTIONS -std=gnu11 -Wall -Wextra -Wshadow $<$<BOOL:${TENON_WERROR}>:-Werror>)
    if(NAME MATCHES "^kernels/[^/]*$")
      list(APPEND OPTIONS -DTN_ISA=hvx -DTN_ISA_hvx=1)
    elseif(NAME MATCHES "dsp/(runtime|floats)\\.c$")
      list(APPEND OPTIONS -fno-builtin)
    elseif(NAME MATCHES "\\.S$")
      set(OPTIONS "")
    endif()
    add_custom_command(OUTPUT ${OBJECT}
                       COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${HEXAGON_CLANG} ${HEXAGON_FLAGS} ${OPTIONS}
                               -I${CMAKE_SOURCE_DIR}/include -I${CMAKE_SOURCE_DIR}/src -MD -MF ${OBJECT}.d -c ${SOURCE}
                               -o ${OBJECT}
                       DEPENDS ${SOURCE} DEPFILE ${OBJECT}.d COMMENT "Hexagon: ${NAME}" VERBATIM COMMAND_EXPAND_LISTS)
    list(APPEND HEXAGON_OBJECTS ${OBJECT})
  endforeach()
  add_custom_command(OUTPUT ${HEXAGON_IMAGE}
                     COMMAND ${HEXAGON_LINKER} -static --gc-sections --strip-debug -z max-page-size=65536
                             -o ${HEXAGON_IMAGE} ${HEXAGON_OBJECTS}
                     DEPENDS ${HEXAGON_OBJECTS} COMMENT "Hexagon: linking the DSP's program" VERBATIM)
  set_source_files_properties(${HEXAGON}/image.c PROPERTIES OBJECT_DEPENDS ${HEXAGON_IMAGE}
                              COMPILE_DEFINITIONS TN_HEXAGON_IMAGE="${HEXAGON_IMAGE}")
else()
  message(STATUS "device hexagon: no clang and ld.lld for Hexagon (Debian: clang-19 lld-19); built without it")
endif()
