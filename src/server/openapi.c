/* What is generated from the table of fields and the routes: /openapi.json, and the tables of docs/server.md. */
#include <stdio.h>
#include <string.h>
#include "server/internal.h"

static const char *const treatments[] = {
    [TN_NEEDED] = "needed", [TN_HONOURED] = "honoured", [TN_ACCEPTED] = "accepted", [TN_REFUSED] = "refused"};

static bool has_range(const tn_field_row *row) {
  return row->minimum != 0 || row->maximum != 0;
}

/* ---- docs/server.md ---- */

void tn_server_print_fields(FILE *out) {
  size_t routes, rows;
  const tn_route *route = tn_routes(&routes);
  const tn_field_row *row = tn_fields(&rows);
  for (size_t r = 0; r < routes; r++) {
    if (!route[r].fields) continue;
    fprintf(out, "%s### %s\n\n| field | type | range | | |\n|---|---|---|---|---|\n", r ? "\n" : "", route[r].path);
    for (size_t i = 0; i < rows; i++) {
      char range[64] = "";
      if (!(row[i].endpoints & route[r].fields)) continue;
      if (has_range(row + i)) snprintf(range, sizeof range, "%.10g to %.10g", row[i].minimum, row[i].maximum);
      fprintf(out, "| `%s` | %s | %s | %s | %s |\n", row[i].name, tn_field_type_name(row[i].type), range,
              treatments[row[i].treatment], row[i].meaning);
    }
  }
}

/* ---- /openapi.json ---- */

/* A bound as an integer where it is one that every reader of JSON gets right; NULL where it isn't. */
static json_t *bound(double value, bool is_integer) {
  bool is_exact = value >= -9007199254740991.0 && value <= 9007199254740991.0;
  if (!is_integer) return json_real(value);
  return is_exact ? json_integer((json_int_t)value) : NULL;
}

static void add_range(json_t *schema, const tn_field_row *row) {
  static const struct {
    const char *least, *most;
  } names[] = {[TN_FIELD_INTEGER] = {"minimum", "maximum"},
               [TN_FIELD_NUMBER] = {"minimum", "maximum"},
               [TN_FIELD_TEXT] = {"minLength", "maxLength"},
               [TN_FIELD_ARRAY] = {"minItems", "maxItems"},
               [TN_FIELD_ANY] = {NULL, NULL}};
  if (!has_range(row) || !names[row->type].least) return;
  bool is_integer = row->type != TN_FIELD_NUMBER;
  json_object_set_new(schema, names[row->type].least, bound(row->minimum, is_integer));
  json_object_set_new(schema, names[row->type].most, bound(row->maximum, is_integer));
}

/* Every field may be null, which is the same as leaving it out; a refused one may be nothing else. */
static json_t *field_schema(const tn_field_row *row) {
  static const char *const types[] = {[TN_FIELD_BOOLEAN] = "boolean",      [TN_FIELD_INTEGER] = "integer",
                                      [TN_FIELD_NUMBER] = "number",        [TN_FIELD_TEXT] = "string",
                                      [TN_FIELD_OBJECT] = "object",        [TN_FIELD_ARRAY] = "array",
                                      [TN_FIELD_TEXT_OR_ARRAY] = "string", [TN_FIELD_ANY] = ""};
  json_t *schema = json_object(), *type = json_array();
  if (row->treatment != TN_REFUSED) {
    json_array_append_new(type, json_string(types[row->type]));
    if (row->type == TN_FIELD_TEXT_OR_ARRAY) json_array_append_new(type, json_string("array"));
    add_range(schema, row);
  }
  if (row->treatment != TN_NEEDED) json_array_append_new(type, json_string("null"));
  if (row->type != TN_FIELD_ANY || row->treatment == TN_REFUSED) json_object_set(schema, "type", type);
  json_decref(type);
  json_object_set_new(schema, "description",
                      json_sprintf("%s%s%s", treatments[row->treatment], *row->meaning ? ": " : "", row->meaning));
  return schema;
}

static json_t *body_schema(unsigned endpoint) {
  size_t rows;
  const tn_field_row *row = tn_fields(&rows);
  json_t *properties = json_object(), *required = json_array();
  for (size_t i = 0; i < rows; i++) {
    if (!(row[i].endpoints & endpoint)) continue;
    json_object_set_new(properties, row[i].name, field_schema(row + i));
    if (row[i].treatment == TN_NEEDED) json_array_append_new(required, json_string(row[i].name));
  }
  return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties, "required", required,
                   "additionalProperties", 0);
}

static json_t *error_response(const char *meaning) {
  return json_pack("{s:s, s:{s:{s:{s:s}}}}", "description", meaning, "content", "application/json", "schema", "$ref",
                   "#/components/schemas/Error");
}

static json_t *good_response(const tn_route *route) {
  json_t *content = json_object();
  bool is_page = !strcmp(route->path, "/"), is_text = !strcmp(route->path, "/metrics");
  const char *type = is_page ? "text/html" : is_text ? "text/plain" : "application/json";
  json_object_set_new(content, type,
                      json_pack("{s:{s:s}}", "schema", "type", is_page || is_text ? "string" : "object"));
  if (route->streams)
    json_object_set_new(content, "text/event-stream",
                        json_pack("{s:{s:s}}", "schema", "description", "server-sent events"));
  return json_pack("{s:s, s:o}", "description", route->meaning, "content", content);
}

static json_t *operation(const tn_route *route) {
  json_t *responses = json_object();
  json_t *json = json_pack("{s:s, s:O}", "summary", route->meaning, "responses", responses);
  json_object_set_new(responses, "200", good_response(route));
  if (route->is_open)
    json_object_set_new(json, "security", json_array());
  else
    json_object_set_new(responses, "401", error_response("no known API key was given"));
  if (route->fields) {
    json_object_set_new(json, "requestBody",
                        json_pack("{s:b, s:{s:{s:o}}}", "required", 1, "content", "application/json", "schema",
                                  body_schema(route->fields)));
    json_object_set_new(responses, "400", error_response("a fault of the request"));
    json_object_set_new(responses, "413", error_response("the body is too large"));
    json_object_set_new(responses, "503", error_response("memory is out, or the server stops"));
  }
  if (route->streams) {
    json_object_set_new(responses, "429", error_response("the queue is full"));
    json_object_set_new(responses, "504", error_response("the answer took too long"));
  }
  if (strchr(route->path, '{')) {
    json_object_set_new(json, "parameters",
                        json_pack("[{s:s, s:s, s:b, s:{s:s}}]", "name", "name", "in", "path", "required", 1, "schema",
                                  "type", "string"));
    json_object_set_new(responses, "404", error_response("there is no such model"));
  }
  if (!strcmp(route->path, "/health")) json_object_set_new(responses, "503", good_response(route));
  json_decref(responses);
  return json;
}

static json_t *paths(void) {
  size_t routes;
  const tn_route *route = tn_routes(&routes);
  json_t *json = json_object();
  for (size_t i = 0; i < routes; i++)
    json_object_set_new(json, route[i].path,
                        json_pack("{s:o}", strcmp(route[i].method, "GET") ? "post" : "get", operation(route + i)));
  return json;
}

enum MHD_Result tn_endpoint_openapi(tn_exchange *exchange, const json_t *body) {
  (void)body;
  json_t *error = json_pack("{s:s, s:{s:{s:s, s:{s:{s:s}, s:{s:s}}, s:[s, s]}}, s:[s]}", "type", "object", "properties",
                            "error", "type", "object", "properties", "message", "type", "string", "type", "type",
                            "string", "required", "message", "type", "required", "error");
  json_t *schemes = json_pack("{s:{s:s, s:s}, s:{s:s, s:s, s:s}}", "bearer", "type", "http", "scheme", "bearer", "key",
                              "type", "apiKey", "in", "header", "name", "X-Api-Key");
  return tn_http_reply(
      exchange, 200,
      json_pack("{s:s, s:{s:s, s:s}, s:o, s:{s:{s:o}, s:o}, s:[{}, {s:[]}, {s:[]}]}", "openapi", "3.1.0", "info",
                "title", "tenon", "version", tn_version(), "paths", paths(), "components", "schemas", "Error", error,
                "securitySchemes", schemes, "security", "bearer", "key"));
}
