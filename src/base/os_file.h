/* Inside base: what an interrupt does to a file being written. */
#ifndef TENON_BASE_OS_FILE_H
#define TENON_BASE_OS_FILE_H

/* Removes the temporary file of a tn_file_write under way, if there is one. Async-signal-safe. */
void tn_file_abandon(void);

#endif
