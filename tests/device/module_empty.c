/* A library that is no driver. */
int module_empty(void);
int module_empty(void) {
  return 0;
}
