# cmake --install: the command, the headers, both libraries, the driver archive, pkg-config files.
install(DIRECTORY include/tenon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(TARGETS tenon tenon-shared)
if(TARGET tenon-command)
  install(TARGETS tenon-command)
endif()

# The pkg-config files find their prefix from their own place, so an installed tree may be moved.
file(RELATIVE_PATH PREFIX_FROM_PKGCONFIG /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
function(tenon_pkgconfig NAME)
  configure_file(cmake/${NAME}.pc.in ${NAME}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${NAME}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
tenon_pkgconfig(tenon)
if(TARGET tenon-driver)
  install(TARGETS tenon-driver)
  tenon_pkgconfig(tenon-driver)
endif()
