/* From a model file to text in a few lines: minimal MODEL.gguf PROMPT
 * cc main.c $(pkg-config --cflags --libs tenon) */
#include <stdio.h>
#include <tenon/tenon.h>

int main(int count, char **arguments) {
  if (count != 3) return fprintf(stderr, "usage: %s MODEL.gguf PROMPT\n", arguments[0]), 2;
  tn_error error = {0};
  tn_model *model = NULL;
  tn_engine *engine = NULL;
  tn_request *request = NULL;
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.prompt = arguments[2];
  options.max_tokens = 32;
  if (tn_model_open(arguments[1], &model, &error) == TN_OK && tn_engine_create(model, NULL, &engine, &error) == TN_OK &&
      tn_engine_submit(engine, &options, &request, &error) == TN_OK) {
    tn_output output = TN_OUTPUT;
    while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT)
      fwrite(output.text, 1, output.text_bytes, stdout);
    if (output.kind == TN_OUTPUT_ERROR) error = output.error;
    putchar('\n');
  }
  if (error.status != TN_OK) fprintf(stderr, "%s\n", error.message);
  tn_request_destroy(request);
  tn_engine_destroy(engine);
  tn_model_close(model);
  return error.status != TN_OK;
}
