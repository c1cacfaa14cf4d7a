/* What host and DSP say to each other (docs/hexagon.md tells the whole).
 *
 * Both map one window of memory. It begins with the control block; everything behind TN_HEXAGON_HEAP is the host's to
 * give out: buffers, weights, KV, programs, messages. An address in the window is an offset from its begin, 32 bits
 * wide; 0 stands for nothing. All fields have fixed widths and natural alignment, little endian, so the structs are the
 * same bytes for a host of 64 bits and a DSP of 32. */
#ifndef TENON_DEVICE_HEXAGON_PROTOCOL_H
#define TENON_DEVICE_HEXAGON_PROTOCOL_H

#include <stdint.h>

#define TN_HEXAGON_MAGIC 0x58484e54u /* "TNHX" */
#define TN_HEXAGON_PROTOCOL 1u       /* goes up with every change of this file */

#define TN_HEXAGON_WINDOW_BYTES (UINT64_C(2) << 30) /* what a session may have: the limit of real parts */
#define TN_HEXAGON_SESSIONS 4u
#define TN_HEXAGON_HEAP 16384u
#define TN_HEXAGON_MAX_THREADS 8u
#define TN_HEXAGON_RING 16u    /* commands that may be under way; a power of two */
#define TN_HEXAGON_VECTOR 128u /* bytes of a vector register: what addresses are aligned to */

/* How the DSP's threads find the window: the file descriptor that they inherit. */
#define TN_HEXAGON_WINDOW_DESCRIPTOR 3

typedef enum tn_hexagon_state {
  TN_HEXAGON_STARTING = 0, /* the DSP has not looked at the control block yet */
  TN_HEXAGON_READY = 1,
  TN_HEXAGON_REFUSED = 2, /* another protocol: `dsp_protocol` says which it speaks */
  TN_HEXAGON_NO_THREADS = 3
} tn_hexagon_state;

typedef enum tn_hexagon_kind {
  TN_HEXAGON_QUIT = 0,
  TN_HEXAGON_PREPARE = 1, /* message: tn_hexagon_program */
  TN_HEXAGON_EXECUTE = 2  /* message: tn_hexagon_execution */
} tn_hexagon_kind;

typedef struct tn_hexagon_command {
  uint32_t kind;
  uint32_t message;   /* offset */
  int32_t status;     /* the answer: a tn_status */
  uint32_t failed_op; /* the answer where an op failed, else TN_NO_VALUE */
} tn_hexagon_command;

/* A word that one side writes often, alone in its cache line. */
typedef struct tn_hexagon_word {
  uint32_t value;
  uint32_t padding[15];
} tn_hexagon_word;

/* At the begin of the window. Command number n (counted from 0, going round after 2^32) stands in slot n % RING. */
typedef struct tn_hexagon_control {
  /* the host's, before the DSP starts */
  uint32_t magic, protocol;
  uint32_t window_bytes, threads;
  /* the DSP's, before it says READY */
  uint32_t dsp_protocol;
  uint32_t state; /* tn_hexagon_state; doorbell: the DSP rings */
  uint64_t ops;   /* bit n: there is a kernel for opcode n */
  char kernels[32];
  /* doorbells */
  tn_hexagon_word submitted; /* commands written by the host, which rings */
  tn_hexagon_word completed; /* commands answered by the DSP, which rings */
  /* signs of life */
  tn_hexagon_word heartbeat;                        /* goes up every TN_HEXAGON_BEAT_NS while the DSP runs at all */
  tn_hexagon_word progress[TN_HEXAGON_MAX_THREADS]; /* goes up with each piece of work that the thread ends */
  tn_hexagon_command ring[TN_HEXAGON_RING];
} tn_hexagon_control;

#define TN_HEXAGON_BEAT_NS 50000000u

/* A weight as it is bound. */
typedef struct tn_hexagon_weight {
  uint32_t data; /* offset */
  uint32_t layout;
  uint64_t row_bytes;
} tn_hexagon_weight;

/* A program in the window, for as long as the executable lives. The host fills it, PREPARE completes it. */
typedef struct tn_hexagon_program {
  uint32_t program;         /* offset of the tn_program */
  uint32_t weights;         /* offset of tn_hexagon_weight[weight_count] */
  uint32_t page_bytes;      /* offset of uint64_t[state_count] */
  uint32_t tables;          /* offset of room for the DSP's own tables, aligned to 8 */
  uint32_t tables_bytes;    /* TN_HEXAGON_TABLE_BYTES of its bindings */
  uint32_t workspace;       /* offset; the host's, when it knows how large */
  uint64_t workspace_bytes; /* PREPARE's answer: for each thread, a multiple of TN_HEXAGON_VECTOR */
} tn_hexagon_program;

/* Room enough for the tables of a program of so many weights and other bindings. */
#define TN_HEXAGON_TABLE_BYTES(weights, others) ((uint64_t)(weights)*64 + (uint64_t)(others)*8)

/* One op of an execution that is measured. */
typedef struct tn_hexagon_counter {
  uint32_t op, reserved;
  uint64_t start_ns, end_ns; /* on the clock of the host */
  uint64_t bytes;            /* of its operands */
  uint64_t instructions;     /* of all threads */
  uint64_t packets;          /* ... and the packets they were issued in */
} tn_hexagon_counter;

typedef struct tn_hexagon_execution {
  uint32_t program;                             /* offset of the tn_hexagon_program */
  uint32_t inputs, outputs, states;             /* offsets of uint32_t[]: offsets by binding number */
  uint32_t scratch;                             /* offset */
  uint32_t rows, sequences, pages, logits_rows; /* offsets of the batch's arrays (tenon/device.h) */
  uint32_t row_count, sequence_count, page_count, logits_count, context;
  uint32_t counters; /* offset of tn_hexagon_counter[counter_capacity]; 0: nothing is measured */
  uint32_t counter_capacity;
  uint32_t counter_count; /* the answer */
  uint32_t reserved;
} tn_hexagon_execution;

#endif
