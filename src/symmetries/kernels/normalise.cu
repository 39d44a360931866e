// Layer norm of a gelu, with the bias before it, forward and backward.
//
// A thread holds eight neighbouring columns of a row, read and written 16 bytes at a time; a row is
// one or several whole warps. Backward, blocks walk over rows with the next one already on its way,
// and each adds up the gradients of the three vectors over its own rows.
//
// Set by the compiler: WIDTH (a multiple of 256), ROUNDED (bfloat16 instead of float32), HAS_BIAS.

constexpr int EACH = 8, ACROSS = WIDTH / EACH;  // threads of a row
constexpr int ROWS = ACROSS < 128 ? 128 / ACROSS : 1;  // of a block at a time
constexpr int THREADS = ROWS * ACROSS, WARPS = ACROSS / 32;  // warps of a row

struct Eight {
  float at[EACH];
};

__device__ __forceinline__ Eight load(const void* memory, long long first) {
  Eight value;
  if (ROUNDED) {
    const uint4 bits = __ldg((const uint4*)memory + first / 8);
    const unsigned pairs[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      value.at[2 * j] = __uint_as_float(pairs[j] << 16);
      value.at[2 * j + 1] = __uint_as_float(pairs[j] & 0xffff0000u);
    }
  } else {
    const float4 low = __ldg((const float4*)memory + first / 4);
    const float4 high = __ldg((const float4*)memory + first / 4 + 1);
    const float all[EACH] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int j = 0; j < EACH; ++j) value.at[j] = all[j];
  }
  return value;
}

// A pair of floats as bfloat16, rounded to nearest, ties to even.
__device__ __forceinline__ unsigned rounded(float low, float high) {
  unsigned pair[2] = {__float_as_uint(low), __float_as_uint(high)};
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const bool number = (pair[j] & 0x7fffffffu) <= 0x7f800000u;
    pair[j] = number ? pair[j] + 0x7fffu + ((pair[j] >> 16) & 1u) : 0x7fffffffu;
  }
  return (pair[0] >> 16) | (pair[1] & 0xffff0000u);
}

__device__ __forceinline__ void store(void* memory, long long first, const Eight& value) {
  const float* v = value.at;
  if (ROUNDED) {
    uint4 bits;
    bits.x = rounded(v[0], v[1]);
    bits.y = rounded(v[2], v[3]);
    bits.z = rounded(v[4], v[5]);
    bits.w = rounded(v[6], v[7]);
    ((uint4*)memory)[first / 8] = bits;
  } else {
#pragma unroll
    for (int j = 0; j < EACH; ++j) ((float*)memory)[first + j] = v[j];
  }
}

// gelu(h) and its slope, of one exponential: Abramowitz and Stegun 7.1.26, off by 8e-8 at most.
__device__ __forceinline__ float gelu(float h, float& slope) {
  const float density = __expf(-0.5f * h * h);
  const float t = __fdividef(1.0f, 1.0f + 0.2316418882f * fabsf(h));
  float tail = t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f));
  tail = 0.5f * density * t * (0.254829592f + t * (-0.284496736f + tail));
  const float share = h < 0.0f ? tail : 1.0f - tail;
  slope = share + h * 0.3989422804014327f * density;
  return h * share;
}

// Sums of two numbers over the threads of a row; `turn` alternates, so that one barrier suffices.
__device__ __forceinline__ void row_sums(float& a, float& b, int turn) {
#pragma unroll
  for (int width = 16; width > 0; width >>= 1) {
    a += __shfl_xor_sync(0xffffffffu, a, width);
    b += __shfl_xor_sync(0xffffffffu, b, width);
  }
  if (WARPS > 1) {
    __shared__ float parts[2][2][THREADS / 32];
    const int warp = threadIdx.x >> 5, first = warp / WARPS * WARPS;
    if ((threadIdx.x & 31) == 0) {
      parts[turn][0][warp] = a;
      parts[turn][1][warp] = b;
    }
    __syncthreads();
    a = b = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      a += parts[turn][0][first + w];
      b += parts[turn][1][first + w];
    }
  }
}

__device__ __forceinline__ Eight vector(const float* __restrict__ memory, int column) {
  Eight value;
#pragma unroll
  for (int j = 0; j < EACH; ++j) value.at[j] = __ldg(memory + column + j);
  return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
norm_forward(const void* __restrict__ z, const float* __restrict__ bias,
             const float* __restrict__ gamma, const float* __restrict__ beta,
             void* __restrict__ out, float* __restrict__ mean, float* __restrict__ scale, int rows,
             float epsilon) {
  const int group = threadIdx.x / ACROSS, column = (threadIdx.x % ACROSS) * EACH;
  const long long row = (long long)blockIdx.x * ROWS + group;
  const bool there = row < rows;
  const long long first = (there ? row : 0) * WIDTH + column;
  Eight h = load(z, first), g;
  const Eight weight = vector(gamma, column), shift = vector(beta, column);
  if (HAS_BIAS) {
    const Eight b = vector(bias, column);
#pragma unroll
    for (int j = 0; j < EACH; ++j) h.at[j] += b.at[j];
  }
  float sum = 0.0f, unused = 0.0f, slope;
#pragma unroll
  for (int j = 0; j < EACH; ++j) sum += g.at[j] = gelu(h.at[j], slope);
  row_sums(sum, unused, 0);
  const float m = sum * (1.0f / WIDTH);
  float square = 0.0f;
#pragma unroll
  for (int j = 0; j < EACH; ++j) square += (g.at[j] - m) * (g.at[j] - m);
  row_sums(square, unused, 1);
  const float s = 1.0f / sqrtf(square * (1.0f / WIDTH) + epsilon);
  if (!there) return;
#pragma unroll
  for (int j = 0; j < EACH; ++j) g.at[j] = (g.at[j] - m) * s * weight.at[j] + shift.at[j];
  store(out, first, g);
  if (column == 0) {
    mean[row] = m;
    scale[row] = s;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
norm_backward(const void* __restrict__ z, const float* __restrict__ bias,
              const float* __restrict__ gamma, const void* __restrict__ grad,
              const float* __restrict__ mean, const float* __restrict__ scale,
              void* __restrict__ grad_z, float* __restrict__ partial, int rows) {
  const int group = threadIdx.x / ACROSS, column = (threadIdx.x % ACROSS) * EACH;
  const Eight weight = vector(gamma, column);
  Eight add, to_gamma, to_beta, to_bias;
  if (HAS_BIAS) add = vector(bias, column);
#pragma unroll
  for (int j = 0; j < EACH; ++j) {
    to_gamma.at[j] = to_beta.at[j] = to_bias.at[j] = 0.0f;
    if (!HAS_BIAS) add.at[j] = 0.0f;
  }
  const int steps = (rows + gridDim.x * ROWS - 1) / (gridDim.x * ROWS);
  int row = blockIdx.x * ROWS + group;
  long long first = (long long)(row < rows ? row : 0) * WIDTH + column;
  Eight h = load(z, first), dy = load(grad, first);
  for (int k = 0; k < steps; ++k) {
    const bool there = row < rows;
    const int next = row + gridDim.x * ROWS;
    const long long ahead = (long long)(next < rows ? next : 0) * WIDTH + column;
    const float m = mean[there ? row : 0], s = scale[there ? row : 0];
    const Eight next_h = load(z, ahead), next_dy = load(grad, ahead);
    Eight d, slope, unit;
    float sum = 0.0f, along = 0.0f;
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
      unit.at[j] = (gelu(h.at[j] + add.at[j], slope.at[j]) - m) * s;
      const float y = there ? dy.at[j] : 0.0f;
      to_gamma.at[j] += y * unit.at[j];
      to_beta.at[j] += y;
      d.at[j] = y * weight.at[j];
      sum += d.at[j];
      along += d.at[j] * unit.at[j];
    }
    row_sums(sum, along, k & 1);
    sum *= 1.0f / WIDTH;
    along *= 1.0f / WIDTH;
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
      d.at[j] = s * (d.at[j] - sum - unit.at[j] * along) * slope.at[j];
      if (there) to_bias.at[j] += d.at[j];
    }
    if (there) store(grad_z, first, d);
    row = next;
    first = ahead;
    h = next_h;
    dy = next_dy;
  }
  float* target = partial + ((long long)blockIdx.x * ROWS + group) * 3 * WIDTH + column;
#pragma unroll
  for (int j = 0; j < EACH; ++j) {
    target[j] = to_gamma.at[j];
    target[WIDTH + j] = to_beta.at[j];
    target[2 * WIDTH + j] = to_bias.at[j];
  }
}
