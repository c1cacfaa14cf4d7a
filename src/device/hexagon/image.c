/* The DSP's program (see image.h). build.cmake says where its file is. */
#include "device/hexagon/image.h"

#include <stdint.h>

#ifdef TN_HEXAGON_IMAGE
__asm__(
    "  .section .rodata\n"
    "  .balign 16\n"
    "tn_hexagon_image_begin:\n"
    "  .incbin \"" TN_HEXAGON_IMAGE
    "\"\n"
    "tn_hexagon_image_end:\n"
    "  .byte 0\n"
    "  .text\n");
extern const uint8_t image_begin[] __asm__("tn_hexagon_image_begin");
extern const uint8_t image_end[] __asm__("tn_hexagon_image_end");

const void *tn_hexagon_image(size_t *bytes) {
  *bytes = (size_t)(image_end - image_begin);
  return image_begin;
}
#else
const void *tn_hexagon_image(size_t *bytes) {
  *bytes = 0;
  return NULL;
}
#endif
