# What holds on every device. Each line makes three tests of a device or a placement:
#   device.NAME.kit      the conformance kit passes (tenon test-device); of a placement, whose devices pass it each for
#                        itself, what shows only where they meet (engine/device_equalities.c)
#   device.NAME.goldens  reference models give the logits recorded of another implementation (golden/device_logits.c)
#   device.NAME.smollm2  the default model gives its recorded continuation (model/device_continuation.py)
#
# tenon_device(NAME DEVICE SPEC | PLACE PLACEMENT [NEEDS DRIVER...] [ROWS N] [EQUAL MODEL...] [MODELS WORD...] [TOKENS N]
#              [ACTIVATIONS auto|float] [TIMEOUT_MS N] [OPTIONAL] [SLOW])
#   SPEC         as --device takes it; PLACEMENT: as --place does
#   NEEDS        what OPTIONAL asks for: SPEC; of a placement to be named
#   ROWS, EQUAL  of a placement, as engine/device_equalities.c takes them: so many tokens, 75, of these models: its own
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
add_executable(device-equalities engine/device_equalities.c)
foreach(PROGRAM device-logits device-equalities)
  target_link_libraries(${PROGRAM} PRIVATE tenon PkgConfig::CMOCKA m)
  target_include_directories(${PROGRAM} PRIVATE ${DEVICE_TESTS})
  target_compile_definitions(${PROGRAM} PRIVATE TEST_DATA="${DATA}" TEST_SHAPES="${SHAPE_FOLDER}")
endforeach()
add_dependencies(device-logits test-shapes)

function(tenon_device NAME)
  cmake_parse_arguments(D "OPTIONAL;SLOW" "DEVICE;PLACE;ROWS;TOKENS;ACTIVATIONS;TIMEOUT_MS" "NEEDS;EQUAL;MODELS" ${ARGN})
  if(D_UNPARSED_ARGUMENTS OR NOT (D_DEVICE OR D_PLACE))
    message(FATAL_ERROR "tenon_device(${NAME}): needs DEVICE or PLACE; knows nothing of ${D_UNPARSED_ARGUMENTS}")
  endif()
  foreach(DEFAULT "TOKENS 16" "ACTIVATIONS float" "TIMEOUT_MS 10000" "ROWS 75" "NEEDS ${D_DEVICE}")
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
    set(RUN ${RUN} --optional ${D_NEEDS})
  endif()
  set(KIT ${TENON} test-device ${D_DEVICE} --timeout-ms ${D_TIMEOUT_MS})
  if(D_PLACE)
    set(KIT ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:device-equalities> ${CHOICE} --tokens ${D_ROWS} ${D_EQUAL})
  endif()
  add_test(NAME device.${NAME}.kit COMMAND ${RUN} -- ${KIT})
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
tenon_device(toy DEVICE ${TOY} MODELS all TOKENS 6)
tenon_device(mixed PLACE "layer 0=reference,private-memory=1,1=cpu,threads=1,rest=cpu" MODELS all)
# The kit of a placement finds a fault on one side of the border.
add_test(NAME device.mixed.fault COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:device-equalities> --place
                                         "0=faulty:cpu,fault=batch-dependent,rest=reference" --tokens 40 llama)
set_tests_properties(device.mixed.fault PROPERTIES LABELS device WILL_FAIL TRUE)

file(GLOB DEVICES CONFIGURE_DEPENDS device/*/device.cmake)
foreach(DEVICE ${DEVICES})
  include(${DEVICE})
endforeach()
