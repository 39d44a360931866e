// Log-density of 16 points, and what the backward pass needs; goes after flow.cu.

struct __align__(16) Forward {
  Vectors vectors;
  float u[DIM][ROWS];
  float mean[WARPS][ROWS], spread[WARPS][ROWS];
  float part[WARPS][ROWS][WIDE];
  float parameters[ROWS][PITCH];
  float totals[MOST][ROWS];
};

template <int PARITY>
__device__ __forceinline__ void forward_layer(
    Forward& s, const Place& at, int layer, const Unit* projected, const float* bias,
    const float* packed, const unsigned char* mask, float* us, Unit* units, float* statistics,
    float* parameters, int n, const Constants& c) {
  typedef Layer<PARITY> L;
  const float* own = L::weights(packed, layer);
  const float* matrix = own + HIDDEN * (L::KEPT + 2) + at.column;
  Eight fetched[2];
  int2 kept[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int point = at.first + at.g + 8 * r, known = within(point, n) ? point : 0;
    fetched[r] = fetch(projected + (long long)context_of(known, c) * ACROSS + layer * HIDDEN + at.column);
    if (DROP) kept[r] = *(const int2*)(mask + (long long)known * ACROSS + layer * HIDDEN + at.column);
  }
  __syncthreads();  // coordinates and vectors are there
  for (int i = threadIdx.x; i < DIM * ROWS; i += THREADS) {
    const int point = at.first + i % ROWS;
    if (within(point, n)) us[(long long)(layer * DIM + i / ROWS) * n + point] = s.u[i / ROWS][i % ROWS];
  }
  float y[2][8], slope;
  hidden_units<PARITY>(fetched, s.vectors, s.u, at, y);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = 0.0f, square = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += y[r][i] = gelu(y[r][i], slope);
    const float mean = quad_sum(sum) * (1.0f / 32);
#pragma unroll
    for (int i = 0; i < 8; ++i) square += (y[r][i] - mean) * (y[r][i] - mean);
    square = quad_sum(square);
    if (at.q == 0) s.mean[at.warp][at.g + 8 * r] = mean, s.spread[at.warp][at.g + 8 * r] = square;
  }
  float w[L::COUNT][8];
#pragma unroll
  for (int t = 0; t < L::COUNT; ++t) {
    const int row = 8 * t + at.g;
    load8(matrix + (row < L::USED ? row : 0) * HIDDEN, w[t]);
  }
  __syncthreads();
  float gamma[8], beta[8];
  load8(s.vectors.own + HIDDEN * L::KEPT + at.column, gamma);
  load8(s.vectors.own + HIDDEN * (L::KEPT + 1) + at.column, beta);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = at.g + 8 * r, point = at.first + row;
    float mean = 0.0f, square = 0.0f;
#pragma unroll
    for (int i = 0; i < WARPS; ++i) mean += s.mean[i][row];
    mean *= 1.0f / WARPS;
#pragma unroll
    for (int i = 0; i < WARPS; ++i) {
      const float off = s.mean[i][row] - mean;
      square += s.spread[i][row] + 32.0f * off * off;
    }
    const float scale = inverse_root(square * (1.0f / HIDDEN) + c.epsilon);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      y[r][i] = (y[r][i] - mean) * scale * gamma[i] + beta[i];
      if (DROP) y[r][i] = stays(kept[r], i) ? y[r][i] * c.keep : 0.0f;
    }
    if (within(point, n)) {
      put(units + ((long long)layer * n + point) * HIDDEN + at.column, y[r]);
      if (at.column == 0) {
        statistics[(long long)2 * layer * n + point] = mean;
        statistics[(long long)(2 * layer + 1) * n + point] = scale;
      }
    }
  }
  unsigned a[4][4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    a[k][0] = to_tf32(y[0][2 * k]), a[k][1] = to_tf32(y[1][2 * k]);
    a[k][2] = to_tf32(y[0][2 * k + 1]), a[k][3] = to_tf32(y[1][2 * k + 1]);
  }
#pragma unroll
  for (int t = 0; t < L::COUNT; ++t) {
    float found[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < 4; ++k)
      multiply(found, a[k], to_tf32(w[t][2 * k]), to_tf32(w[t][2 * k + 1]));
    float* to = &s.part[at.warp][at.g][8 * t + 2 * at.q];
    to[0] = found[0], to[1] = found[1];
    to += 8 * WIDE;
    to[0] = found[2], to[1] = found[3];
  }
  __syncthreads();
  Incoming in;
  if (layer + 1 < LAYERS) ask<1 - PARITY>(in, bias, packed, layer + 1);
  const int row = threadIdx.x / BESIDE;
  float* made = parameters + ((long long)layer * n + at.first + row) * ROW;
#pragma unroll 4
  for (int column = threadIdx.x % BESIDE; column < L::USED; column += BESIDE) {
    float sum = s.vectors.shift[column];
#pragma unroll
    for (int j = 0; j < WARPS; ++j) sum += s.part[j][row][column];
    s.parameters[row][column] = sum;
    if (within(at.first + row, n)) made[column] = sum;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 4 * ROWS * L::BENT; i += THREADS) {
    const int axis = i / (4 * ROWS), row = i / 4 % ROWS;
    float share[BINS];
    const float given = s.u[PARITY + 2 * axis][row];
    const Bin b = find_bin<L::BENT>(&s.parameters[row][axis], given, c, at.lane, share);
    const float per = inverse(b.w), steep = b.h * per, t = (b.x - b.x0) * per;
    const float mixed = t * (1.0f - t), under = steep + (b.d0 + b.d1 - 2.0f * steep) * mixed;
    const float rise = b.d1 * t * t + 2.0f * steep * mixed + b.d0 * (1.0f - t) * (1.0f - t);
    __syncwarp();  // all four have read
    if (at.q == 0 && given >= -c.half && given <= c.half) {
      const float part = steep * inverse(under);
      s.u[PARITY + 2 * axis][row] =
          b.y0 + b.h * (steep * t * t + b.d0 * mixed) * inverse(under);
      s.totals[axis][row] += fast_log(rise * part * part);
    }
  }
  if (layer + 1 < LAYERS) receive<1 - PARITY>(s.vectors, in);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
flow_forward(const float* __restrict__ eta, const float* __restrict__ bounds,
             const Unit* __restrict__ projected, const float* __restrict__ bias,
             const float* __restrict__ packed, const unsigned char* __restrict__ mask,
             const float* __restrict__ base, float* __restrict__ us, Unit* __restrict__ units,
             float* __restrict__ statistics, float* __restrict__ parameters,
             float* __restrict__ out, int n, Constants c) {
  __shared__ Forward s;
  const Place at;
  for (int i = threadIdx.x; i < DIM * ROWS; i += THREADS) {
    const int point = at.first + i / DIM, j = i % DIM;
    s.u[j][i / DIM] = within(point, n) ? eta[(long long)point * DIM + j] * (c.half / bounds[j]) : 0.0f;
  }
  for (int i = threadIdx.x; i < MOST * ROWS; i += THREADS) s.totals[i / ROWS][i % ROWS] = 0.0f;
  Incoming in;
  ask<0>(in, bias, packed, 0);
  receive<0>(s.vectors, in);
#pragma unroll 1
  for (int layer = 0; layer < LAYERS; layer += 2) {
    forward_layer<0>(s, at, layer, projected, bias, packed, mask, us, units, statistics,
                     parameters, n, c);
    if (layer + 1 < LAYERS)
      forward_layer<1>(s, at, layer + 1, projected, bias, packed, mask, us, units, statistics,
                       parameters, n, c);
  }
  __syncthreads();
  const int point = at.first + threadIdx.x;
  if (threadIdx.x < ROWS && within(point, n)) {
    float sum = 0.0f, rate;
#pragma unroll
    for (int axis = 0; axis < MOST; ++axis) sum += s.totals[axis][threadIdx.x];
    const float* law = base + (long long)context_of(point, c) * (2 * DIM);
#pragma unroll
    for (int j = 0; j < DIM; ++j) {
      const float value = s.u[j][threadIdx.x], scale = base_scale(law[DIM + j], c, rate);
      const float z = (value - law[j]) / scale;
      us[(long long)(LAYERS * DIM + j) * n + point] = value;
      sum += fast_log(c.half / bounds[j]) - 0.91893853320467274f - 0.5f * z * z - fast_log(scale);
    }
    out[point] = sum;
  }
}
