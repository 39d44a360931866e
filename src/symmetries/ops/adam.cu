// Adam for all tensors of a group, with the clipping of their gradients: two kernels.
//
// (A third rounds all weights to bfloat16, as products want them.)
//
// The first adds up the squares of the gradients, a sum for each block; the second adds up these
// sums and moves the weights, with the gradients scaled on the way.
//
// Set by the compiler: TENSORS (places in the table), CLIP, DECOUPLED (weight decay apart from the
// gradient).

constexpr int THREADS = 256, EACH = 8, PIECE = THREADS * EACH;  // numbers of a block

struct Table {
  float* weight[TENSORS];
  const float* grad[TENSORS];
  float* mean[TENSORS];
  float* square[TENSORS];
  const float* steps[TENSORS];
  int size[TENSORS];
  int first[TENSORS + 1];  // blocks before those of each tensor
};

struct Constants {
  double log1, log2;  // of the shares that the averages keep
  float largest, decay, epsilon, rest1, beta2, rest2;  // rest: 1 - beta
};

// The tensor of this block, by bisection.
__device__ __forceinline__ int tensor_of(const Table& table, int count) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (table.first[middle] <= (int)blockIdx.x) low = middle;
    else high = middle;
  }
  return low;
}

__device__ __forceinline__ float block_sum(float value) {
  __shared__ float parts[THREADS / 32];
  __shared__ float total;
#pragma unroll
  for (int width = 16; width > 0; width >>= 1) value += __shfl_xor_sync(0xffffffffu, value, width);
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < THREADS / 32; ++i) sum += parts[i];
    total = sum;
  }
  __syncthreads();
  return total;
}

extern "C" __global__ void __launch_bounds__(THREADS)
adam_squares(const __grid_constant__ Table table, float* __restrict__ sums, int count) {
  const int which = tensor_of(table, count);
  const int begin = (blockIdx.x - table.first[which]) * PIECE + threadIdx.x;
  const float* grad = table.grad[which];
  const int size = table.size[which];
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < EACH; ++j) {
    const int i = begin + j * THREADS;
    const float value = i < size ? grad[i] : 0.0f;
    sum += value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
adam_move(const __grid_constant__ Table table, const float* __restrict__ sums,
          const float* __restrict__ lr, int count, int pieces, Constants c) {
  const int which = tensor_of(table, count);
  const int begin = (blockIdx.x - table.first[which]) * PIECE + threadIdx.x;
  const int size = table.size[which];
  float* weight = table.weight[which];
  float* mean = table.mean[which];
  float* square = table.square[which];
  const float* grad = table.grad[which];
  float w[EACH], g[EACH], m[EACH], v[EACH];
#pragma unroll
  for (int j = 0; j < EACH; ++j) {
    const int i = begin + j * THREADS;
    const bool inside = i < size;
    w[j] = inside ? weight[i] : 0.0f;
    g[j] = inside ? grad[i] : 0.0f;
    m[j] = inside ? mean[i] : 0.0f;
    v[j] = inside ? square[i] : 0.0f;
  }
  float scale = 1.0f;
  if (CLIP) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < pieces; i += THREADS) sum += sums[i];
    scale = fminf(c.largest / (sqrtf(block_sum(sum)) + 1e-6f), 1.0f);
  }
  const double done = *table.steps[which];
  const float rate = *lr;
  const float step = rate / (float)(1.0 - exp(done * c.log1));
  const float root = sqrtf((float)(1.0 - exp(done * c.log2)));
#pragma unroll
  for (int j = 0; j < EACH; ++j) {
    const int i = begin + j * THREADS;
    if (i >= size) break;
    float gradient = g[j] * scale;
    if (DECOUPLED) w[j] -= rate * c.decay * w[j];
    else gradient += c.decay * w[j];
    m[j] += c.rest1 * (gradient - m[j]);
    v[j] = c.beta2 * v[j] + c.rest2 * gradient * gradient;
    mean[i] = m[j];
    square[i] = v[j];
    weight[i] = w[j] - step * m[j] / (sqrtf(v[j]) / root + c.epsilon);
  }
}
