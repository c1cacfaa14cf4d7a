# Without a sanitizer's search for leaks: the compilers behind OpenCL have their own.
tenon_device(opencl DEVICE opencl MODELS all TIMEOUT_MS 60000 OPTIONAL)
add_test(NAME device.opencl.driver
         COMMAND python3 ${DEVICE_TESTS}/support/with-device.py ${CMAKE_BINARY_DIR}/tenon --optional opencl -- python3
                 ${DEVICE_TESTS}/device/opencl/driver.py ${CMAKE_BINARY_DIR}/tenon ${DATA})
set_tests_properties(device.opencl.driver PROPERTIES LABELS device SKIP_RETURN_CODE 77 ENVIRONMENT
                                                     XDG_CACHE_HOME=${CMAKE_CURRENT_BINARY_DIR}/cache)
set_property(TEST device.opencl.kit device.opencl.goldens device.opencl.smollm2 device.opencl.driver
             APPEND PROPERTY ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
