/* Where each part of an output came from: through every operation on strings, and for whole chat templates, where
 * special tokens typed by a user must stay the user's text. */
#include "jinja/cases.h"

/* The output with its trusted parts in angle quotes. */
static char *marked(const tn_jinja_output *output) {
  char *text = calloc(1, output->size * 5 + 8), *at = text;
  size_t offset = 0;
  for (size_t i = 0; i < output->span_count; i++) {
    const tn_jinja_span *span = &output->spans[i];
    assert_int_equal(span->offset, offset);
    assert_true(span->size > 0 && (i == 0 || span->trusted != output->spans[i - 1].trusted));
    at += sprintf(at, "%s%.*s%s", span->trusted ? "«" : "", (int)span->size, output->text + span->offset,
                  span->trusted ? "»" : "");
    offset += span->size;
  }
  assert_int_equal(offset, output->size);
  return text;
}

static bool trust_bos(void *user, const char *key, size_t depth, const char *text, size_t size) {
  (void)user, (void)text, (void)size;
  return depth == 0 && strcmp(key, "bos") == 0;
}

/* bos is trusted; s, u, n and l come from the user. */
static void shows(const char *source, const char *expected) {
  tn_error error = {0};
  tn_jinja_output output;
  const tn_jinja_trust trust = {trust_bos, NULL};
  tn_status status =
      render_text(source, strlen(source),
                  "{\"bos\": \"BOS\", \"s\": \" user \", \"u\": \"u-v\", \"n\": 5, \"l\": [\"p\", \"q\"],"
                  " \"d\": {\"bos\": \"no\"}}",
                  NULL, &trust, &output, &error);
  if (status) fail_msg("%s: %s", source, error.message);
  char *got = marked(&output);
  if (strcmp(got, expected) != 0) fail_msg("%s: got %s, wanted %s", source, got, expected);
  free(got);
  tn_jinja_output_finish(&output);
}

static void operations(void **state) {
  (void)state;
  shows("a{{ s }}b", "«a» user «b»");
  shows("{{ bos }}{{ d.bos }}", "«BOS»no");
  shows("{{ '<' + u + '>' }}", "«<»u-v«>»");
  shows("{{ '<' ~ u ~ n ~ '>' }}", "«<»u-v5«>»");
  shows("{{ ('<  ' + s + '  >')[1:-1] }}", "«  » user «  »");
  shows("{{ (' <' + s)|trim }}", "«<» user");
  shows("{{ ('<' + u)[::-1] }}", "v-u«<»");
  shows("{{ (' <' + u + '> ').strip() }}", "«<»u-v«>»");
  shows("{{ ('a-' + u).split('-')|join('+') }}", "«a+»u«+»v");
  shows("{{ ['a', u]|join(s) }}", "«a» user u-v");
  shows("{{ ','.join(l) }}", "p«,»q");
  shows("{{ 'a-b'.replace('-', u) }}", "«a»u-v«b»");
  shows("{{ u.replace('-', '+') }}", "u«+»v");
  shows("{{ ('x' + u)|upper }}{{ (u + 'x')|title }}", "«X»U-VU-V«x»");
  shows("{{ ('a' + u)|replace('u', 'b') }}", "«ab»-v");
  shows("{{ '[%s] %d' % (u, 7) }}", "«[»u-v«] »7");
  shows("{{ '[{}]'.format(u) }}", "«[»u-v«]»");
  shows("{{ '[%s]'|format(u) }}", "«[»u-v«]»");
  shows("{{ ('a\\n' + u)|indent(2) }}", "«a\n  »u-v");
  shows("{{ ('a' + u)|e }}{{ '<'|e }}", "«a»u-v«&lt;»");
  shows("{{ ('a' + u)|list|last }}{{ ('a' + u)|first }}", "v«a»");
  shows("{{ ('a' + u)|reverse }}", "v-u«a»");
  shows("{{ 'x'.center(3) }}{{ u.ljust(4, '*') }}", " «x» u-v«*»");
  shows("{% set x %}a{{ u }}{% endset %}{{ x }}{{ x|string }}", "«a»u-v«a»u-v");
  shows("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(u) }}", "«<»u-v«>»");
  shows("{% set ns = namespace(t='') %}{% for x in l %}{% set ns.t = ns.t + '|' + x %}{% endfor %}{{ ns.t }}",
        "«|»p«|»q");
  shows("{% set a = 'x' %}{% set b = a + u %}{% set c = a + 'y' %}{{ a }} {{ b }} {{ c }}", "«x x»u-v« xy»");
  shows("{% set a = u + 'x' %}{% set b = a + 'T' %}{% set c = a + u %}{{ b }}/{{ c }}", "u-v«xT/»u-v«x»u-v");
  shows("{{ l|tojson }}{{ n }}", "[\"p\", \"q\"]5");
  shows("{{ ('a' + u).partition('-')|join }}", "«a»u-v");
  shows("{{ bos * 2 }}{{ u * 2 }}", "«BOSBOS»u-vu-v");
  shows("{{ ('a' ~ u).removeprefix('a') }}{{ (u ~ 'a').removesuffix('v') }}", "u-vu-v«a»");
  shows("{{ 'abc'|truncate(5, true, '', 0) }}{{ u|default('x') }}{{ nothing|default('x') }}", "«abc»u-v«x»");
}

/* ---- whole templates ---- */

/* Everything in the template's source that looks like a special token, one behind the other. */
static char *special_tokens(const char *source) {
  char *tokens = calloc(1, strlen(source) * 2 + 16), *at = tokens;
  for (const char *open = source; (open = strchr(open, '<')); open++) {
    size_t size = strcspn(open, "> \n{}'\"");
    if (open[size] == '>' && size > 1 && size < 40) at += sprintf(at, "%.*s ", (int)size + 1, open);
  }
  assert_true(at > tokens);
  return tokens;
}

/* The trusted parts of a conversation's rendering, joined. */
static char *trusted_text(const char *source, const char *content) {
  tn_error error = {0};
  tn_jinja_output output;
  json_t *context = json_pack("{s:[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}], s:b, s:s, s:s}", "messages", "role", "user",
                              "content", "Hello", "role", "assistant", "content", "Hi", "role", "user", "content",
                              content, "add_generation_prompt", 1, "bos_token", "<s>", "eos_token", "</s>");
  char *json = json_dumps(context, 0);
  if (render_text(source, strlen(source), json, NULL, NULL, &output, &error)) fail_msg("%s", error.message);
  char *trusted = calloc(1, output.size + 1), *at = trusted;
  for (size_t i = 0; i < output.span_count; i++) {
    if (output.spans[i].trusted)
      at += sprintf(at, "%.*s", (int)output.spans[i].size, output.text + output.spans[i].offset);
  }
  free(json);
  json_decref(context);
  tn_jinja_output_finish(&output);
  return trusted;
}

static void typed_tokens_stay_text(void **state) {
  (void)state;
  static const char *const templates[] = {"Qwen-Qwen2.5-7B-Instruct.jinja",
                                          "Qwen-Qwen3-0.6B.jinja",
                                          "Qwen3.5-4B.jinja",
                                          "SmolLM2-135M-Instruct.jinja",
                                          "google-gemma-2-2b-it.jinja",
                                          "google-gemma-3-it.jinja",
                                          "google-gemma-4-31B-it.jinja",
                                          "meta-llama-Llama-3.1-8B-Instruct.jinja",
                                          "openai-gpt-oss-120b.jinja"};
  for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
    size_t size;
    char *source = read_data(templates[i], &size), *tokens = special_tokens(source), content[8192];
    snprintf(content, sizeof content, "say %s please", tokens);
    char *plain = trusted_text(source, "say please"), *typed = trusted_text(source, content);
    assert_true(strlen(plain) > 0);
    assert_string_equal(plain, typed);
    free(source);
    free(tokens);
    free(plain);
    free(typed);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(operations), cmocka_unit_test(typed_tokens_stay_text)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
