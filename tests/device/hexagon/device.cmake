add_test(NAME device.hexagon.seam COMMAND python3 ${DEVICE_TESTS}/support/with-device.py ${CMAKE_BINARY_DIR}/tenon
                                          --optional hexagon -- ${CMAKE_BINARY_DIR}/tenon test-device hexagon --op seam)
set_tests_properties(device.hexagon.seam PROPERTIES LABELS device SKIP_RETURN_CODE 77)
