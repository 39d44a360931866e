// LN(gelu(z + b)) of rows in bfloat16, and its gradient. A thread has eight neighbouring columns, a
// row SPAN warps; a block takes GROUPS rows at a time and asks for the next ones before it computes.
//
// Goes after units.cu. Set by the compiler: WIDTH (256, 512, 1024 or 2048), BIAS (whether there is
// one), DROP (whether units are dropped).

constexpr int THREADS = 256, WARPS = THREADS / 32, SPAN = WIDTH / 256, GROUPS = WARPS / SPAN;

struct Place {
  int lane, warp, group, column;
  __device__ Place() {
    lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    group = warp / SPAN;
    column = 8 * (32 * (warp % SPAN) + lane);
  }
};

// What a thread reads of a row.
struct Given {
  int4 z, grad;
  int2 kept;
  float mean, scale;
};

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int by = 16; by > 0; by >>= 1) value += __shfl_xor_sync(0xffffffffu, value, by);
  return value;
}

__device__ __forceinline__ int4 rounded(const float* v) {
  return int4{narrow(v[0], v[1]), narrow(v[2], v[3]), narrow(v[4], v[5]), narrow(v[6], v[7])};
}

__device__ __forceinline__ void ask(Given& in, const Place& at, int row, int rows,
                                    const unsigned short* z, const unsigned char* mask) {
  const long long from = (long long)(row < rows ? row : rows - 1) * WIDTH + at.column;
  in.z = *(const int4*)(z + from);
  if (DROP) in.kept = *(const int2*)(mask + from);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
norm_forward(const unsigned short* __restrict__ z, const float* __restrict__ bias,
             const float* __restrict__ gamma, const float* __restrict__ beta,
             const unsigned char* __restrict__ mask, unsigned short* __restrict__ out,
             float* __restrict__ means, float* __restrict__ scales, int rows, float epsilon,
             float keep) {
  __shared__ float parts[2][2][WARPS];
  const Place at;
  float b[8], weight[8], shift[8];
  if (BIAS) load8(bias + at.column, b);
  load8(gamma + at.column, weight);
  load8(beta + at.column, shift);
  Given in;
  ask(in, at, blockIdx.x * GROUPS + at.group, rows, z, mask);
  int turn = 0;
#pragma unroll 1
  for (int first = blockIdx.x * GROUPS; first < rows; first += gridDim.x * GROUPS) {
    const int row = first + at.group;
    const Given now = in;
    ask(in, at, row + gridDim.x * GROUPS, rows, z, mask);
    float y[8], sum = 0.0f, square = 0.0f, slope;
    widen(now.z, y);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += y[i] = gelu(BIAS ? y[i] + b[i] : y[i], slope);
    float mean = warp_sum(sum) * (1.0f / 256);
#pragma unroll
    for (int i = 0; i < 8; ++i) square += (y[i] - mean) * (y[i] - mean);
    square = warp_sum(square);
    if (SPAN > 1) {
      if (at.lane == 0) parts[turn][0][at.warp] = mean, parts[turn][1][at.warp] = square;
      __syncthreads();
      const float* means_of = &parts[turn][0][at.group * SPAN];
      mean = square = 0.0f;
#pragma unroll
      for (int i = 0; i < SPAN; ++i) mean += means_of[i] * (1.0f / SPAN);
#pragma unroll
      for (int i = 0; i < SPAN; ++i) {
        const float off = means_of[i] - mean;
        square += means_of[WARPS + i] + 256.0f * off * off;
      }
      turn = 1 - turn;
    }
    const float scale = inverse_root(square * (1.0f / WIDTH) + epsilon);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      y[i] = (y[i] - mean) * (scale * weight[i]) + shift[i];
      if (DROP) y[i] = stays(now.kept, i) ? y[i] * keep : 0.0f;
    }
    if (row < rows) {
      *(int4*)(out + (long long)row * WIDTH + at.column) = rounded(y);
      if (at.column == 0) means[row] = mean, scales[row] = scale;
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
norm_backward(const unsigned short* __restrict__ z, const float* __restrict__ bias,
              const float* __restrict__ gamma, const unsigned char* __restrict__ mask,
              const unsigned short* __restrict__ grad, const float* __restrict__ means,
              const float* __restrict__ scales, unsigned short* __restrict__ to_z,
              float* __restrict__ partial, int rows, float keep) {
  __shared__ float parts[2][2][WARPS];
  __shared__ float sums[GROUPS][3][WIDTH];
  const Place at;
  float b[8], weight[8], to_gamma[8] = {}, to_beta[8] = {}, to_bias[8] = {};
  if (BIAS) load8(bias + at.column, b);
  load8(gamma + at.column, weight);
  Given in;
  const auto ask_all = [&](int row) {
    const int known = row < rows ? row : rows - 1;
    ask(in, at, row, rows, z, mask);
    in.grad = *(const int4*)(grad + (long long)known * WIDTH + at.column);
    in.mean = means[known], in.scale = row < rows ? scales[known] : 0.0f;
  };
  ask_all(blockIdx.x * GROUPS + at.group);
  int turn = 0;
#pragma unroll 1
  for (int first = blockIdx.x * GROUPS; first < rows; first += gridDim.x * GROUPS) {
    const int row = first + at.group;
    const Given now = in;
    ask_all(row + gridDim.x * GROUPS);
    float unit[8], rise[8], d[8], sum = 0.0f, along = 0.0f;
    widen(now.z, unit);
    widen(now.grad, d);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      unit[i] = (gelu(BIAS ? unit[i] + b[i] : unit[i], rise[i]) - now.mean) * now.scale;
      if (DROP) d[i] = stays(now.kept, i) ? d[i] * keep : 0.0f;
      if (row >= rows) d[i] = 0.0f;
      to_gamma[i] += d[i] * unit[i];
      to_beta[i] += d[i];
      d[i] *= weight[i];
      sum += d[i];
      along += d[i] * unit[i];
    }
    sum = warp_sum(sum), along = warp_sum(along);
    if (SPAN > 1) {
      if (at.lane == 0) parts[turn][0][at.warp] = sum, parts[turn][1][at.warp] = along;
      __syncthreads();
      const float* sums_of = &parts[turn][0][at.group * SPAN];
      sum = along = 0.0f;
#pragma unroll
      for (int i = 0; i < SPAN; ++i) sum += sums_of[i], along += sums_of[WARPS + i];
      turn = 1 - turn;
    }
    sum *= 1.0f / WIDTH, along *= 1.0f / WIDTH;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      d[i] = now.scale * (d[i] - sum - unit[i] * along) * rise[i];
      to_bias[i] += d[i];
    }
    if (row < rows) *(int4*)(to_z + (long long)row * WIDTH + at.column) = rounded(d);
  }
  store8(&sums[at.group][0][at.column], to_gamma);
  store8(&sums[at.group][1][at.column], to_beta);
  store8(&sums[at.group][2][at.column], to_bias);
  __syncthreads();
  for (int i = threadIdx.x; i < 3 * WIDTH; i += THREADS) {
    float sum = 0.0f;
#pragma unroll
    for (int group = 0; group < GROUPS; ++group) sum += (&sums[group][0][0])[i];
    partial[(long long)blockIdx.x * (3 * WIDTH) + i] = sum;
  }
}
