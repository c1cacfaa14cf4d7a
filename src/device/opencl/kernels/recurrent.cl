/* short_conv and delta_rule: ops with a memory of their own for each sequence. A work-item walks its sequence's rows in
 * order, reading slot state_read and leaving what comes out in slot state_write, which may be the same. */

/* The input `back` rows before row `row` of the sequence's step: of this step, remembered, or zero. */
static float input_before(const conv_arguments *a, __global const float *x, const sequence *s,
                          __global const float *remembered, uint row, uint back, uint c) {
  if (back <= row) return x[(ulong)(s->first_row + row - back) * a->channels + c];
  if (!s->kv_length) return 0.0f;
  return remembered[(a->taps - 1 + row - back) * a->channels + c];
}

/* Dimensions: channels, sequences. */
__kernel void short_conv(constant_memory x, constant_memory w, constant_memory batch, memory state, memory y,
                         conv_arguments a) {
  uint c = get_global_id(0), history = a.taps - 1;
  if (c >= a.channels) return;
  sequence s = sequence_at(batch, &a.batch, get_global_id(1), 0);
  __global const float *from = (__global const float *)(x + a.x);
  __global const float *weights = (__global const float *)(w + a.w) + c * a.taps;
  __global const float *old = (__global const float *)(state + a.state + s.state_read * a.slot_bytes);
  __global float *new = (__global float *)(state + a.state + s.state_write * a.slot_bytes);
  for (uint row = 0; row < s.row_count; row++) {
    float sum = 0.0f;
    for (uint j = 0; j < a.taps; j++) sum += weights[j] * input_before(&a, from, &s, old, row, history - j, c);
    ((__global float *)(y + a.y))[(ulong)(s.first_row + row) * a.channels + c] = activate(a.activation, sum);
  }
  /* from the oldest on: what is written lies before all that is still to be read, even in the same slot */
  for (uint i = 0; i < history; i++)
    new[i * a.channels + c] = input_before(&a, from, &s, old, s.row_count - 1, history - 1 - i, c);
}

static float inverse_length(__global const float *x, uint count, float epsilon) {
  float sum = 0.0f;
  for (uint i = 0; i < count; i++) sum += x[i] * x[i];
  return tn_rsqrt(sum + epsilon);
}

static float softplus(float x) {
  return x > 20.0f ? x : tn_log(1.0f + tn_exp(x));
}

/* One column of one head's memory, [value_heads][value_dim][key_dim], for each work-item. Dimensions: value_dim, heads,
 * sequences. */
__kernel void delta_rule(constant_memory qkv, constant_memory alpha, constant_memory beta, constant_memory decays,
                         constant_memory dts, constant_memory batch, memory state, memory y, delta_arguments a) {
  uint d = get_global_id(0), head = get_global_id(1), key_width = a.key_heads * a.key_dim;
  if (d >= a.value_dim) return;
  sequence sequence_here = sequence_at(batch, &a.batch, get_global_id(2), 0);
  uint key_head = a.tiled ? head % a.key_heads : head / (a.value_heads / a.key_heads);
  uint width = 2 * key_width + a.value_heads * a.value_dim;
  ulong at = ((ulong)head * a.value_dim + d) * a.key_dim;
  __global const float *old = (__global const float *)(state + a.state + sequence_here.state_read * a.slot_bytes) + at;
  __global float *s = (__global float *)(state + a.state + sequence_here.state_write * a.slot_bytes) + at;
  for (uint i = 0; i < a.key_dim; i++) s[i] = sequence_here.kv_length ? old[i] : 0.0f;
  for (uint r = 0; r < sequence_here.row_count; r++) {
    ulong t = sequence_here.first_row + r;
    __global const float *x = (__global const float *)(qkv + a.qkv) + t * width;
    __global const float *q = x + key_head * a.key_dim, *k = q + key_width;
    float v = x[2 * key_width + head * a.value_dim + d];
    float step = ((__global const float *)(alpha + a.a))[t * a.value_heads + head] +
                 ((__global const float *)(dts + a.dt))[head];
    float decay = tn_exp(((__global const float *)(decays + a.decay))[head] * softplus(step));
    float rate = 1.0f / (1.0f + tn_exp(-((__global const float *)(beta + a.b))[t * a.value_heads + head]));
    float q_scale = inverse_length(q, a.key_dim, a.epsilon) * tn_rsqrt((float)a.key_dim);
    float k_scale = inverse_length(k, a.key_dim, a.epsilon), remembered = 0.0f, result = 0.0f;
    for (uint i = 0; i < a.key_dim; i++) {
      s[i] *= decay;
      remembered += s[i] * (k[i] * k_scale);
    }
    float change = rate * (v - remembered);
    for (uint i = 0; i < a.key_dim; i++) {
      s[i] += k[i] * k_scale * change;
      result += s[i] * (q[i] * q_scale);
    }
    ((__global float *)(y + a.y))[(t * a.value_heads + head) * a.value_dim + d] = result;
  }
}
