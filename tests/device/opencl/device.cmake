# Without a sanitizer's search for leaks: the compilers behind OpenCL have their own.
tenon_device(opencl DEVICE opencl MODELS all TIMEOUT_MS 60000 OPTIONAL)
tenon_device(opencl-mixed PLACE "layer 0=opencl,rest=cpu" NEEDS opencl EQUAL llama gemma4-ple qwen35 TOKENS 8 OPTIONAL)
add_test(NAME device.opencl.driver
         COMMAND python3 ${DEVICE_TESTS}/support/with-device.py ${CMAKE_BINARY_DIR}/tenon --optional opencl -- python3
                 ${DEVICE_TESTS}/device/opencl/driver.py ${CMAKE_BINARY_DIR}/tenon ${DATA})
set_tests_properties(device.opencl.driver PROPERTIES LABELS device SKIP_RETURN_CODE 77 ENVIRONMENT
                                                     XDG_CACHE_HOME=${CMAKE_CURRENT_BINARY_DIR}/cache)
set_property(TEST device.opencl.kit device.opencl.goldens device.opencl.smollm2 device.opencl.driver
                  device.opencl-mixed.kit device.opencl-mixed.goldens device.opencl-mixed.smollm2
             APPEND PROPERTY ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)

# Tests of this device's own, tests/device/opencl/test_NAME.c: device.opencl.NAME.
file(GLOB OPENCL_TESTS CONFIGURE_DEPENDS ${DEVICE_TESTS}/device/opencl/test_*.c)
foreach(SOURCE ${OPENCL_TESTS})
  tenon_test_name(${SOURCE})
  set(TARGET test-device-opencl-${NAME})
  add_executable(${TARGET} ${SOURCE})
  target_link_libraries(${TARGET} PRIVATE tenon PkgConfig::CMOCKA m)
  target_include_directories(${TARGET} PRIVATE ${DEVICE_TESTS})
  target_compile_definitions(${TARGET} PRIVATE TEST_DATA="${DATA}")
  add_test(NAME device.opencl.${NAME} COMMAND ${TARGET})
  set_tests_properties(device.opencl.${NAME} PROPERTIES LABELS device SKIP_RETURN_CODE 77
                       ENVIRONMENT "XDG_CACHE_HOME=${CMAKE_CURRENT_BINARY_DIR}/cache;ASAN_OPTIONS=detect_leaks=0")
endforeach()
