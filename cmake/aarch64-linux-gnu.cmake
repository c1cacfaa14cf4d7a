# Cross compiling for Linux on 64-bit Arm with Debian's compiler, and running what comes out under qemu.
# TENON_SYSROOT, of the cache or the environment: a folder with the Arm versions of the libraries, as cmake/sysroot.sh
# fills it; `./dev arm` does all of it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
if(NOT TENON_SYSROOT)
  set(TENON_SYSROOT "$ENV{TENON_SYSROOT}" CACHE PATH "the Arm libraries")
endif()
if(NOT IS_DIRECTORY "${TENON_SYSROOT}/usr")
  message(FATAL_ERROR "TENON_SYSROOT names no folder with Arm libraries (`./dev arm` makes one)")
endif()
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TENON_SYSROOT)
set(CMAKE_SYSROOT "${TENON_SYSROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${TENON_SYSROOT}")
set(ENV{PKG_CONFIG_LIBDIR} "${TENON_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${TENON_SYSROOT}/usr/share/pkgconfig")
# QEMU_CPU chooses the processor: max has all instruction sets, neoverse-n1 no i8mm, cortex-a72 neither that nor dotprod.
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;${TENON_SYSROOT}")
