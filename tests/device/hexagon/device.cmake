add_test(NAME device.hexagon.seam COMMAND python3 ${DEVICE_TESTS}/support/with-device.py ${CMAKE_BINARY_DIR}/tenon
                                          --optional hexagon -- ${CMAKE_BINARY_DIR}/tenon test-device hexagon --op seam)
set_tests_properties(device.hexagon.seam PROPERTIES LABELS device SKIP_RETURN_CODE 77)

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
