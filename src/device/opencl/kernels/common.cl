/* Reaching operands, the batch, and what several kernels do with values. */

typedef __global uchar *memory;
typedef __global const uchar *constant_memory;

/* ---- the batch: rows of 7 words, sequences of 14, page tables, rows that want logits (device.h) ---- */

#define ROW_WORDS 7
#define SEQUENCE_WORDS 14

typedef struct sequence {
  uint first_row, row_count, kv_length, state_read, state_write, pages; /* pages: of the group asked for */
} sequence;

static __global const uint *batch_words(constant_memory batch, const batch_arguments *a) {
  return (__global const uint *)(batch + a->at);
}

static int row_token(constant_memory batch, const batch_arguments *a, uint row) {
  return (int)batch_words(batch, a)[row * ROW_WORDS];
}
static int row_position(constant_memory batch, const batch_arguments *a, uint row) {
  return (int)batch_words(batch, a)[row * ROW_WORDS + 1];
}

static sequence sequence_at(constant_memory batch, const batch_arguments *a, uint number, uint group) {
  __global const uint *w = batch_words(batch, a) + a->sequences + number * SEQUENCE_WORDS;
  sequence s;
  s.first_row = w[0];
  s.row_count = w[1];
  s.kv_length = w[2];
  s.state_read = w[3];
  s.state_write = w[4];
  s.pages = w[6 + group];
  return s;
}
static sequence sequence_of_row(constant_memory batch, const batch_arguments *a, uint row, uint group) {
  return sequence_at(batch, a, batch_words(batch, a)[row * ROW_WORDS + 5], group);
}

/* The page that holds slot `slot` of a sequence. */
static uint page_of(constant_memory batch, const batch_arguments *a, const sequence *s, uint slot) {
  return batch_words(batch, a)[a->pages + s->pages + slot / PAGE_SLOTS];
}

/* ---- values ---- */

static float sum16(float16 v) {
  float8 a = v.lo + v.hi;
  float4 b = a.lo + a.hi;
  float2 c = b.lo + b.hi;
  return c.x + c.y;
}
static int sum16_int(int16 v) {
  int8 a = v.lo + v.hi;
  int4 b = a.lo + a.hi;
  int2 c = b.lo + b.hi;
  return c.x + c.y;
}

static float activate(uint activation, float x) {
  switch (activation) {
    case ACTIVATION_SILU: return x / (1.0f + tn_exp(-x));
    case ACTIVATION_GELU_TANH: return 0.5f * x * (1.0f + tn_tanh(0.797884561f * (x + 0.044715f * (x * x * x))));
    case ACTIVATION_GELU: return 0.5f * x * (1.0f + tn_erf(x * 0.707106781f));
    case ACTIVATION_RELU: return x > 0.0f || x != x ? x : 0.0f;
    case ACTIVATION_SIGMOID: return 1.0f / (1.0f + tn_exp(-x));
    case ACTIVATION_TANH: return tn_tanh(x);
    default: return x;
  }
}

/* One value of a plain type. */
static float load_value(uint dtype, constant_memory base, ulong index) {
  switch (dtype) {
    case DTYPE_F16: return tn_f16_to_f32(((__global const ushort *)base)[index]);
    case DTYPE_BF16: return tn_bf16_to_f32(((__global const ushort *)base)[index]);
    case DTYPE_I8: return (float)((__global const char *)base)[index];
    case DTYPE_F8_E4M3: return tn_e4m3_to_f32(base[index]);
    case DTYPE_F8_E5M2: return tn_e5m2_to_f32(base[index]);
    default: return ((__global const float *)base)[index];
  }
}

static float16 e4m3_16(uchar16 bytes) {
  uint16 u = convert_uint16(bytes), magnitude = u & 0x7f;
  float16 normal = as_float16((magnitude << 20) + ((127u - 7u) << 23));
  float16 tiny = convert_float16(magnitude) * 0x1p-9f;
  float16 value = select(tiny, normal, magnitude >= 8);
  value = select(value, (float16)(NAN), magnitude == 0x7f);
  return as_float16(as_uint16(value) | (u & 0x80) << 24);
}

static float16 f16_16(ushort16 halves) {
  uint16 u = convert_uint16(halves), magnitude = u & 0x7fff;
  float16 normal = as_float16((magnitude << 13) + ((127u - 15u) << 23));
  float16 tiny = convert_float16(magnitude) * 0x1p-24f;
  float16 value = select(tiny, normal, magnitude >= 0x400);
  value = select(value, as_float16(0x7f800000u | (magnitude & 0x3ff) << 13), magnitude >= 0x7c00);
  return as_float16(as_uint16(value) | (u & 0x8000) << 16);
}

/* Sixteen values of a plain type, from value `index` on. */
static float16 load16(uint dtype, constant_memory base, ulong index) {
  switch (dtype) {
    case DTYPE_F16: return f16_16(vload16(0, (__global const ushort *)base + index));
    case DTYPE_BF16: return as_float16(convert_uint16(vload16(0, (__global const ushort *)base + index)) << 16);
    case DTYPE_I8: return convert_float16(vload16(0, (__global const char *)base + index));
    case DTYPE_F8_E4M3: return e4m3_16(vload16(0, base + index));
    case DTYPE_F8_E5M2: return f16_16(convert_ushort16(vload16(0, base + index)) << (ushort16)(8));
    default: return vload16(0, (__global const float *)base + index);
  }
}

/* Four values of KV memory. */
static float4 load4(uint dtype, constant_memory base, ulong index) {
  switch (dtype) {
    case DTYPE_F16: {
      ushort4 h = vload4(0, (__global const ushort *)base + index);
      return (float4)(tn_f16_to_f32(h.x), tn_f16_to_f32(h.y), tn_f16_to_f32(h.z), tn_f16_to_f32(h.w));
    }
    case DTYPE_BF16: return as_float4(convert_uint4(vload4(0, (__global const ushort *)base + index)) << 16);
    case DTYPE_I8: return convert_float4(vload4(0, (__global const char *)base + index));
    default: return vload4(0, (__global const float *)base + index);
  }
}

/* Values index .. index + 31, zeros from `count` on. */
static void load32(uint dtype, constant_memory base, ulong index, uint count, float16 *low, float16 *high) {
  if (count >= 32) {
    *low = load16(dtype, base, index);
    *high = load16(dtype, base, index + 16);
    return;
  }
  float values[32];
  for (uint i = 0; i < 32; i++) values[i] = 0.0f;
  for (uint i = 0; i < count; i++) values[i] = load_value(dtype, base, index + i);
  *low = vload16(0, values);
  *high = vload16(1, values);
}

/* Rounds a value to a plain type; to int8 the value is between -127 and 127. */
static void store_value(uint dtype, memory base, ulong index, float value) {
  switch (dtype) {
    case DTYPE_F16: ((__global ushort *)base)[index] = tn_f32_to_f16(value); break;
    case DTYPE_BF16: ((__global ushort *)base)[index] = tn_f32_to_bf16(value); break;
    case DTYPE_I8: ((__global char *)base)[index] = convert_char_sat_rte(value); break;
    default: ((__global float *)base)[index] = value; break;
  }
}
