#include "tensor/fit.h"

enum { MAX_GROUP = 32 };

/* The power of two at or below the largest |x|; 0 when it is 0 or so small that its inverse overflows. Dividing by it
 * is exact and keeps the sums of squares below from overflowing. */
static float unit_of(const float *x, int count) {
  float largest = 0;
  for (int i = 0; i < count; i++) largest = tn_magnitude(x[i]) > largest ? tn_magnitude(x[i]) : largest;
  float unit = tn_float_of_bits(tn_float_bits(largest) & 0x7f800000u);
  return unit < 0x1p-126f ? 0 : unit;
}

void tn_fit_weights(const float *x, int count, float *w) {
  float unit = unit_of(x, count), inverse = tn_inverse(unit), mean = 0;
  for (int i = 0; i < count; i++) {
    w[i] = tn_magnitude(x[i]) * inverse;
    mean += w[i] / (float)count;
  }
  for (int i = 0; i < count; i++) w[i] += mean;
}

float tn_fit_scale(const float *x, const float *w, int count, int low, int high) {
  float unit = unit_of(x, count), scaled[MAX_GROUP], extreme = 0;
  if (unit == 0) return 0;
  for (int i = 0; i < count; i++) {
    scaled[i] = x[i] / unit;
    if (tn_magnitude(scaled[i]) > tn_magnitude(extreme)) extreme = scaled[i];
  }
  float best_gain = 0, best = 0;
  for (int end = 0; end < 2; end++) /* the extreme value goes to the lowest, or to the highest integer */
    for (int step = -9; step <= 9; step++) {
      float inverse = ((float)(end ? high : low) + 0.1f * (float)step) / extreme, xq = 0, qq = 0;
      for (int i = 0; i < count; i++) {
        float q = (float)tn_quantise(scaled[i] * inverse, low, high);
        xq += w[i] * scaled[i] * q;
        qq += w[i] * q * q;
      }
      /* With d = xq / qq the error is sum w x^2 - xq^2 / qq. */
      if (qq > 0 && xq * xq > best_gain * qq) {
        best_gain = xq * xq / qq;
        best = xq / qq;
      }
    }
  return best * unit;
}

/* One candidate of tn_fit_affine: the integers for x ~ (q / inverse) + low, then the best d and m for them. */
static float fit_candidate(const float *x, const float *w, int count, int high, bool below_zero, float inverse,
                           float low, float *d, float *m) {
  float q[MAX_GROUP], sw = 0, sx = 0, sq = 0, sqq = 0, sqx = 0;
  for (int i = 0; i < count; i++) {
    q[i] = (float)tn_quantise((x[i] - low) * inverse, 0, high);
    sw += w[i];
    sx += w[i] * x[i];
    sq += w[i] * q[i];
    sqq += w[i] * q[i] * q[i];
    sqx += w[i] * q[i] * x[i];
  }
  float determinant = sw * sqq - sq * sq;
  *d = 1 / inverse;
  *m = low;
  if (determinant > 0) {
    *d = (sw * sqx - sx * sq) / determinant;
    *m = (sqq * sx - sq * sqx) / determinant;
  }
  if (below_zero && *m > 0) {
    *m = 0;
    *d = sqq > 0 ? sqx / sqq : 0;
  }
  float error = 0;
  for (int i = 0; i < count; i++) {
    float difference = *d * q[i] + *m - x[i];
    error += w[i] * difference * difference;
  }
  return error;
}

void tn_fit_affine(const float *x, const float *w, int count, int high, bool below_zero, float *d, float *m) {
  float unit = unit_of(x, count), scaled[MAX_GROUP];
  *d = *m = 0;
  if (unit == 0) return;
  for (int i = 0; i < count; i++) scaled[i] = x[i] / unit;
  float low = scaled[0], top = scaled[0];
  for (int i = 1; i < count; i++) {
    low = scaled[i] < low ? scaled[i] : low;
    top = scaled[i] > top ? scaled[i] : top;
  }
  if (below_zero && low > 0) low = 0;
  *m = low * unit;
  if (top <= low) return; /* all equal */
  float best_error = 0;
  for (int step = -10; step <= 10; step++) {
    float candidate_d, candidate_m, inverse = ((float)high + 0.1f * (float)step) / (top - low);
    float error = fit_candidate(scaled, w, count, high, below_zero, inverse, low, &candidate_d, &candidate_m);
    if (candidate_d > 0 && (step == -10 || error < best_error)) {
      best_error = error;
      *d = candidate_d * unit;
      *m = candidate_m * unit;
    }
  }
}

float tn_fit_error(const float *x, const float *w, int count, int low, int high, float d, float m) {
  float inverse = tn_inverse(d), error = 0;
  for (int i = 0; i < count; i++) {
    float difference = d * (float)tn_quantise((x[i] - m) * inverse, low, high) + m - x[i];
    error += w[i] * difference * difference;
  }
  return error;
}
