# What holds on every device. Each line makes three tests of a device or a placement:
#   device.NAME.kit      the conformance kit passes (tenon test-device)
#   device.NAME.goldens  reference models give the logits recorded of another implementation (golden/device_logits.c)
#   device.NAME.smollm2  the default model gives its recorded continuation (model/device_continuation.py)
#
# tenon_device(NAME DEVICE SPEC | PLACE PLACEMENT [KIT SPEC...] [MODELS WORD...] [TOKENS N] [ACTIVATIONS auto|float]
#              [TIMEOUT_MS N] [OPTIONAL] [SLOW])
#   SPEC         as --device takes it; PLACEMENT: as --place does
#   KIT          what the kit runs on: SPEC; needed with PLACE, whose devices they are
#   MODELS       as golden/device_logits.c takes them: one of each kind of architecture
#   TOKENS       of the continuation: 16
#   ACTIVATIONS  of the continuation: float; with auto (8-bit) only clear choices are compared
#   TIMEOUT_MS   of one step of the kit
#   OPTIONAL     where the driver sees no such device the tests are skipped, unless TENON_DEVICES_REQUIRED is set
#   SLOW         the tests take more than a few seconds: label slow
#
# A device whose driver is not part of every build says its line in a file of its own, device/NAME/device.cmake.
set(DEVICE_TESTS ${CMAKE_CURRENT_SOURCE_DIR})
set(TOY ${CMAKE_CURRENT_BINARY_DIR}/module-device-toy.so)
add_executable(device-logits golden/device_logits.c)
target_link_libraries(device-logits PRIVATE tenon PkgConfig::CMOCKA m)
target_include_directories(device-logits PRIVATE ${DEVICE_TESTS})
target_compile_definitions(device-logits PRIVATE TEST_DATA="${DATA}" TEST_SHAPES="${SHAPE_FOLDER}")
add_dependencies(device-logits test-shapes)

function(tenon_device NAME)
  cmake_parse_arguments(D "OPTIONAL;SLOW" "DEVICE;PLACE;TOKENS;ACTIVATIONS;TIMEOUT_MS" "KIT;MODELS" ${ARGN})
  if(D_UNPARSED_ARGUMENTS OR NOT (D_DEVICE OR (D_PLACE AND D_KIT)))
    message(FATAL_ERROR "tenon_device(${NAME}): needs DEVICE, or PLACE and KIT; knows nothing of ${D_UNPARSED_ARGUMENTS}")
  endif()
  foreach(DEFAULT "TOKENS 16" "ACTIVATIONS float" "TIMEOUT_MS 10000" "KIT ${D_DEVICE}")
    string(REGEX MATCH "^([A-Z_]+) (.*)$" DEFAULT ${DEFAULT})
    if(NOT D_${CMAKE_MATCH_1})
      set(D_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
    endif()
  endforeach()
  set(CHOICE --device ${D_DEVICE})
  if(D_PLACE)
    set(CHOICE --place ${D_PLACE})
  endif()
  set(TENON ${COMMAND_FOR_SCRIPTS})
  set(RUN python3 ${DEVICE_TESTS}/support/with-device.py ${TENON})
  if(D_OPTIONAL)
    set(RUN ${RUN} --optional ${D_KIT})
  endif()
  set(KITS)
  foreach(SPEC ${D_KIT})
    list(APPEND KITS -- ${TENON} test-device ${SPEC} --timeout-ms ${D_TIMEOUT_MS})
  endforeach()
  add_test(NAME device.${NAME}.kit COMMAND ${RUN} ${KITS})
  add_test(NAME device.${NAME}.goldens COMMAND ${RUN} -- ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:device-logits>
                                               ${CHOICE} ${D_MODELS})
  add_test(NAME device.${NAME}.smollm2
           COMMAND sh ${DEVICE_TESTS}/support/with-model.sh ${RUN} -- python3
                   ${DEVICE_TESTS}/model/device_continuation.py ${TENON} ${DATA} ${D_TOKENS} ${D_ACTIVATIONS}
                   ${CHOICE})
  set(LABELS device)
  if(D_SLOW)
    list(APPEND LABELS slow)
    set_tests_properties(device.${NAME}.kit PROPERTIES COST 300) # begun first, so that nobody waits for it in the end
  endif()
  set_tests_properties(
    device.${NAME}.kit device.${NAME}.goldens device.${NAME}.smollm2
    PROPERTIES LABELS "${LABELS}" SKIP_RETURN_CODE 77 ENVIRONMENT XDG_CACHE_HOME=${CMAKE_CURRENT_BINARY_DIR}/cache)
  set_property(TEST device.${NAME}.smollm2 APPEND PROPERTY LABELS model)
endfunction()

tenon_device(reference DEVICE reference MODELS all TOKENS 8)
tenon_device(cpu DEVICE cpu MODELS all)
tenon_device(toy DEVICE ${TOY} MODELS all -qwen35 -qwen3next TOKENS 6) # no recurrent states
tenon_device(mixed PLACE "layer 0=reference,private-memory=1,1=cpu,threads=1,rest=cpu"
             KIT reference,private-memory=1 cpu,threads=1 MODELS all)

file(GLOB DEVICES CONFIGURE_DEPENDS device/*/device.cmake)
foreach(DEVICE ${DEVICES})
  include(${DEVICE})
endforeach()
