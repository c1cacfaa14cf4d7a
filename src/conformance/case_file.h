/* Cases in files: an op with everything it worked on, to be run again alone.
 *
 *   char magic[8] "TNCASE1\n"
 *   u32 opcode, rows, sequences, dtype; f64 tolerance; char name[96]
 *   u32 first, count of each sequence
 *   tn_row of each row
 *   u64 bytes of the program, the program
 *   for each input: u64 bytes, its rows; for each weight: u32 uses, u32 dtype as stored, u64 bytes, its rows in order
 *
 * Everything is little endian and begins at a multiple of 8. */
#ifndef TENON_CONFORMANCE_CASE_FILE_H
#define TENON_CONFORMANCE_CASE_FILE_H

#include "conformance/case.h"

tn_status tn_case_write(const tn_case *c, const char *path, tn_error *error);
/* The case, to be destroyed. TN_E_FORMAT names the file and what is wrong with it. */
tn_status tn_case_read(const char *path, tn_case **c, tn_error *error);

#endif
