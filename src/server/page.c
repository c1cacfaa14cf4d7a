/* GET /: the chat page, page.html compiled in. */
#include "server/internal.h"

static const unsigned char page[] = {
#include <page.inc>
};

/* Nothing from outside, no inline handlers: the one script and the one style sheet by their hashes (a test holds that
 * they are the page's). */
static const char policy[] =
    "default-src 'none'; connect-src 'self'; script-src 'sha256-5jubtXGCTuK1koI2Y+ynRXCht50JqQbAb09H8orXTg0='; "
    "style-src 'sha256-n9WbstI/n4e7JEljfilJvGGDA+3oVz3lXY9F+K+m4Uw='; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

enum MHD_Result tn_endpoint_page(tn_exchange *exchange, const json_t *body) {
  (void)body;
  struct MHD_Response *response = MHD_create_response_from_buffer(sizeof page, (void *)page, MHD_RESPMEM_PERSISTENT);
  if (!response) return MHD_NO;
  MHD_add_response_header(response, "Content-Security-Policy", policy);
  MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
  return tn_http_queue(exchange, 200, response, "text/html; charset=utf-8");
}
