# The kernels as bytes of C: device/opencl/kernels.inc. They stand on the project's own short floats and elementary functions,
# whose #include lines an OpenCL compiler can't follow.
set(OPENCL_FOLDER ${CMAKE_SOURCE_DIR}/src/device/opencl/kernels)
set(OPENCL_FILES
    ${OPENCL_FOLDER}/base.cl
    ${CMAKE_SOURCE_DIR}/src/tensor/half.h
    ${CMAKE_SOURCE_DIR}/src/kernels/math.h
    ${OPENCL_FOLDER}/arguments.h
    ${OPENCL_FOLDER}/common.cl
    ${OPENCL_FOLDER}/formats.cl
    ${OPENCL_FOLDER}/linear.cl
    ${OPENCL_FOLDER}/rows.cl
    ${OPENCL_FOLDER}/norm.cl
    ${OPENCL_FOLDER}/rope.cl
    ${OPENCL_FOLDER}/attention.cl
    ${OPENCL_FOLDER}/experts.cl
    ${OPENCL_FOLDER}/recurrent.cl)
set(OPENCL_TEXT "")
foreach(FILE ${OPENCL_FILES})
  if(FILE MATCHES "rows.cl$") # the files behind linear.cl are left out of programs made for a format of weights
    string(HEX "#ifndef WEIGHTS\n" GUARD)
    string(REGEX REPLACE "(..)" "\\1 " GUARD "${GUARD}")
    string(APPEND OPENCL_TEXT "${GUARD}")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${FILE})
  file(READ ${FILE} TEXT HEX)
  # a line "#include ...": 23 69 6e 63 6c 75 64 65 .. 0a
  string(REGEX REPLACE "(..)" "\\1 " TEXT "${TEXT}")
  string(REGEX REPLACE "23 69 6e 63 6c 75 64 65 ([1-9a-f]. |0[^a] )*0a " "0a " TEXT "${TEXT}")
  string(APPEND OPENCL_TEXT "${TEXT}")
endforeach()
string(HEX "#endif\n" GUARD)
string(REGEX REPLACE "(..)" "\\1 " GUARD "${GUARD}")
string(APPEND OPENCL_TEXT "${GUARD}")
string(REGEX REPLACE "(..) " "0x\\1," OPENCL_TEXT "${OPENCL_TEXT}")
file(CONFIGURE OUTPUT generated/device/opencl/kernels.inc CONTENT "${OPENCL_TEXT}\n")
target_include_directories(tenon-objects PRIVATE ${CMAKE_BINARY_DIR}/generated)
