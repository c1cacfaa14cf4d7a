# In an emulator, so the whole kit takes minutes; what is quick of it is a test of its own.
tenon_device(hexagon DEVICE hexagon TOKENS 5 ACTIVATIONS auto TIMEOUT_MS 120000 OPTIONAL SLOW)
# Layers on two sessions, the rest on the processor.
tenon_device(hexagon-mixed PLACE "layer 0=hexagon:0,threads=1,1=hexagon:1,threads=1,rest=cpu" NEEDS hexagon ROWS 34 EQUAL llama
             MODELS llama gemma4 qwen35 qwen3moe TOKENS 5 ACTIVATIONS auto OPTIONAL)

set(QUICK_OPS)
foreach(OP seam embed norm add activation quantise rope moe_route head_linear short_conv)
  list(APPEND QUICK_OPS -- ${CMAKE_BINARY_DIR}/tenon test-device hexagon --op ${OP})
endforeach()
add_test(NAME device.hexagon.quick COMMAND python3 ${DEVICE_TESTS}/support/with-device.py ${CMAKE_BINARY_DIR}/tenon --optional
                                           hexagon ${QUICK_OPS})
set_tests_properties(device.hexagon.quick PROPERTIES LABELS device SKIP_RETURN_CODE 77)

# Tests of this device's own, tests/device/hexagon/test_NAME.c: device.hexagon.NAME.
file(GLOB HEXAGON_TESTS CONFIGURE_DEPENDS ${DEVICE_TESTS}/device/hexagon/test_*.c)
foreach(SOURCE ${HEXAGON_TESTS})
  tenon_test_name(${SOURCE})
  set(TARGET test-device-hexagon-${NAME})
  add_executable(${TARGET} ${SOURCE})
  target_link_libraries(${TARGET} PRIVATE tenon-kit tenon PkgConfig::CMOCKA m)
  target_include_directories(${TARGET} PRIVATE ${DEVICE_TESTS})
  target_compile_definitions(${TARGET} PRIVATE TEST_DATA="${DATA}")
  add_test(NAME device.hexagon.${NAME} COMMAND ${TARGET})
  set_tests_properties(device.hexagon.${NAME} PROPERTIES LABELS device SKIP_RETURN_CODE 77)
endforeach()
