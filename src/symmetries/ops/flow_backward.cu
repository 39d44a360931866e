// Gradients of 16 points; those to weights are sums over them. Goes after flow.cu.

struct __align__(16) Backward {
  Vectors vectors[2];
  float u[2][DIM][ROWS], to_u[DIM][ROWS];
  float parameters[2][ROWS][PITCH];
  float along[2][WARPS][ROWS];
  float read[MOST][WARPS][ROWS];
};

// Coordinates and parameters of a layer, on their way to shared memory.
struct Coming {
  static constexpr int MANY = (ROW + BESIDE - 1) / BESIDE;
  static constexpr int FEW_MORE = (DIM * ROWS + THREADS - 1) / THREADS;
  float parameters[MANY], u[FEW_MORE];
};

__device__ __forceinline__ void ask(Coming& in, const Place& at, int layer, const float* us,
                                    const float* parameters, int n) {
  const int mine = at.first + threadIdx.x / BESIDE;
  const float* from = parameters + ((long long)layer * n + mine) * ROW;
#pragma unroll
  for (int j = 0; j < Coming::MANY; ++j) {
    const int column = threadIdx.x % BESIDE + j * BESIDE;
    in.parameters[j] = column < ROW && within(mine, n) ? from[column] : 0.0f;
  }
#pragma unroll
  for (int j = 0; j < Coming::FEW_MORE; ++j) {
    const int i = threadIdx.x + j * THREADS, point = at.first + i % ROWS;
    in.u[j] = i < DIM * ROWS && within(point, n) ? us[(long long)(layer * DIM + i / ROWS) * n + point]
                                          : 0.0f;
  }
}
__device__ __forceinline__ void receive(Backward& s, int into, const Coming& in) {
#pragma unroll
  for (int j = 0; j < Coming::MANY; ++j) {
    const int column = threadIdx.x % BESIDE + j * BESIDE;
    if (column < ROW) s.parameters[into][threadIdx.x / BESIDE][column] = in.parameters[j];
  }
#pragma unroll
  for (int j = 0; j < Coming::FEW_MORE; ++j) {
    const int i = threadIdx.x + j * THREADS;
    if (i < DIM * ROWS) s.u[into][i / ROWS][i % ROWS] = in.u[j];
  }
}

// The gradient of one spline: to its number, and to its parameters in their place.
template <int STEP>
__device__ __forceinline__ float spline_gradient(float* p, float given, float to_y, float to_log,
                                                 const Constants& c, int lane) {
  float share[BINS];
  const Bin b = find_bin<STEP>(p, given, c, lane, share);
  const int role = lane & 3;
  const float per_w = inverse(b.w), s = b.h * per_w, bend = b.d0 + b.d1 - 2.0f * s;
  const float t = fminf(fmaxf((b.x - b.x0) * per_w, 0.0f), 1.0f), mixed = t * (1.0f - t);
  const float per_under = inverse(s + bend * mixed), over = s * t * t + b.d0 * mixed;
  const float rise = b.d1 * t * t + 2.0f * s * mixed + b.d0 * (1.0f - t) * (1.0f - t);
  const float per_rise = inverse(rise);
  float bending = (2.0f * b.d1 * t - 2.0f * b.d0 * (1.0f - t) + 2.0f * s * (1.0f - 2.0f * t)) * per_rise;
  bending = (bending - 2.0f * bend * (1.0f - 2.0f * t) * per_under) * per_w;
  const bool within = given >= -c.half && given <= c.half;
  const float to_x =
      within ? to_y * s * s * rise * per_under * per_under + to_log * bending : to_y;
  if (!within) to_y = to_log = 0.0f;
  const float g_over = to_y * b.h * per_under;
  const float g_under = -(g_over * over + 2.0f * to_log) * per_under;
  const float g_rise = to_log * per_rise;
  const float g_s = 2.0f * to_log * inverse(s) + g_over * t * t + 2.0f * g_rise * mixed +
                    g_under * (1.0f - 2.0f * mixed);
  const float g_d0 = (g_over + g_under) * mixed + g_rise * (1.0f - t) * (1.0f - t);
  const float g_d1 = g_under * mixed + g_rise * t * t;
  const float g_mixed = g_over * b.d0 + g_under * bend + 2.0f * g_rise * s;
  const float g_t = 2.0f * g_over * s * t + 2.0f * g_rise * (b.d1 * t - b.d0 * (1.0f - t)) +
                    g_mixed * (1.0f - 2.0f * t);
  // To bins before this one, and to this one.
  const float before = role == 0 ? -g_t * per_w : to_y;
  const float here = role == 0 ? -(g_t * t + g_s * s) * per_w : to_y * over * per_under + g_s * per_w;
  float mean = 0.0f;
#pragma unroll
  for (int i = 0; i < BINS; ++i) mean += share[i] * (i < b.k ? before : i == b.k ? here : 0.0f);
  const float rest = 2.0f * c.half * (1.0f - c.share * BINS);
  __syncwarp();  // all four have read
  if (role < 3) {
    p += role * (BINS * STEP);
#pragma unroll
    for (int i = 0; i < BINS; ++i) {
      if (role < 2)
        p[i * STEP] = rest * share[i] * ((i < b.k ? before : i == b.k ? here : 0.0f) - mean);
      else if (i < BINS - 1)
        p[i * STEP] = (i == b.k - 1 ? g_d0 : i == b.k ? g_d1 : 0.0f) * share[i];
    }
  }
  return to_x;
}

template <int PARITY>
__device__ __forceinline__ void backward_layer(
    Backward& s, const Place& at, int layer, const Unit* projected, const float* bias,
    const float* packed, const unsigned char* mask, const float* us, const float* statistics,
    const float* parameters, const float* grad, Unit* to_projected, Unit* to_parameters,
    float* partial, int n, const Constants& c, bool last) {
  typedef Layer<PARITY> L;
  const int now = layer & 1, lane = at.lane;
  const float* own = L::weights(packed, layer);
  const float* matrix = own + HIDDEN * (L::KEPT + 2) + 32 * at.warp + 4 * at.g;
  Eight fetched[2];
  int2 kept[2];
  float mean[2], scale[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int point = at.first + at.g + 8 * r, known = within(point, n) ? point : 0;
    fetched[r] = fetch(projected + (long long)context_of(known, c) * ACROSS + layer * HIDDEN + at.column);
    if (DROP) kept[r] = *(const int2*)(mask + (long long)known * ACROSS + layer * HIDDEN + at.column);
    mean[r] = statistics[(long long)2 * layer * n + known];
    scale[r] = within(point, n) ? statistics[(long long)(2 * layer + 1) * n + known] : 0.0f;
  }
  Incoming vectors;
  Coming coming;
  if (layer > 0) {
    ask<1 - PARITY>(vectors, bias, packed, layer - 1);
    ask(coming, at, layer - 1, us, parameters, n);
  }
  for (int i = threadIdx.x; i < 4 * ROWS * L::BENT; i += THREADS) {
    const int axis = i / (4 * ROWS), row = i / 4 % ROWS, j = PARITY + 2 * axis;
    float to_y = s.to_u[j][row];
    if (!last) {  // what the layer after this one read
      float sum = 0.0f;
#pragma unroll
      for (int k = 0; k < (WARPS + 3) / 4; ++k)
        if (4 * k + at.q < WARPS) sum += s.read[axis][4 * k + at.q][row];
      to_y += quad_sum(sum);
    }
    const int point = at.first + row;
    const float to_log = within(point, n) ? grad[point] : 0.0f;
    const float to_x = spline_gradient<L::BENT>(&s.parameters[now][row][axis], s.u[now][j][row],
                                                to_y, to_log, c, at.lane);
    __syncwarp();
    if (at.q == 0) s.to_u[j][row] = to_x;
  }
  for (int i = threadIdx.x; i < ROWS * (8 * L::COUNT - L::USED); i += THREADS)
    s.parameters[now][i % ROWS][L::USED + i / ROWS] = 0.0f;
  if (layer > 0) {
    receive<1 - PARITY>(s.vectors[1 - now], vectors);
    receive(s, 1 - now, coming);
  }
  __syncthreads();
  float* to = partial + ((long long)blockIdx.x * LAYERS + layer) * PARTS;
  if (threadIdx.x < L::USED) {
    float sum = 0.0f;
#pragma unroll
    for (int row = 0; row < ROWS; ++row) sum += s.parameters[now][row][threadIdx.x];
    to[(MOST + 3) * HIDDEN + threadIdx.x] = sum;
  }
  const int own_row = threadIdx.x / BESIDE;
  Unit* to_own = to_parameters + ((long long)layer * n + at.first + own_row) * ROW;
#pragma unroll 4
  for (int column = threadIdx.x % BESIDE; column < 8 * L::COUNT; column += BESIDE)
    if (within(at.first + own_row, n)) to_own[column] = single(s.parameters[now][own_row][column]);
  float w[L::COUNT][2][4];
#pragma unroll
  for (int k = 0; k < L::COUNT; ++k) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int row = 8 * k + 4 * e + at.q;
      load4(matrix + (row < L::USED ? row : 0) * HIDDEN, w[k][e]);
    }
  }
  float h[2][8], gamma[8], sums[8], other[8];
  hidden_units<PARITY>(fetched, s.vectors[now], s.u[now], at, h);
  float unit[2][8], d[2][8], rise[2][8];
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      unit[r][i] = (gelu(h[r][i], rise[r][i]) - mean[r]) * scale[r];
  float found[4][4] = {};
#pragma unroll
  for (int k = 0; k < L::COUNT; ++k) {
    const float* from = &s.parameters[now][at.g][8 * k + at.q];
    const unsigned a[4] = {to_tf32(from[0]), to_tf32(from[8 * PITCH]), to_tf32(from[4]),
                           to_tf32(from[8 * PITCH + 4])};
#pragma unroll
    for (int j = 0; j < 4; ++j) multiply(found[j], a, to_tf32(w[k][0][j]), to_tf32(w[k][1][j]));
  }
  load8(s.vectors[now].own + HIDDEN * L::KEPT + at.column, gamma);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = 0.0f, along = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float dy = found[i & 3][2 * r + (i >> 2)];
      if (DROP) dy = stays(kept[r], i) ? dy * c.keep : 0.0f;
      sums[i] = r ? sums[i] + dy * unit[r][i] : dy * unit[r][i];
      other[i] = r ? other[i] + dy : dy;
      d[r][i] = dy * gamma[i];
      sum += d[r][i];
      along += d[r][i] * unit[r][i];
    }
    sum = quad_sum(sum), along = quad_sum(along);
    if (at.q == 0) s.along[0][at.warp][at.g + 8 * r] = sum, s.along[1][at.warp][at.g + 8 * r] = along;
  }
  const int mine = 32 * at.warp + own_column(lane);
  to[mine] = column_sum(sums, lane);
  to[HIDDEN + mine] = column_sum(other, lane);
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = at.g + 8 * r, point = at.first + row;
    float sum = 0.0f, along = 0.0f;
#pragma unroll
    for (int i = 0; i < WARPS; ++i) sum += s.along[0][i][row], along += s.along[1][i][row];
    sum *= 1.0f / HIDDEN, along *= 1.0f / HIDDEN;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      d[r][i] = scale[r] * (d[r][i] - sum - unit[r][i] * along) * rise[r][i];
      sums[i] = r ? sums[i] + d[r][i] : d[r][i];
    }
    if (within(point, n)) put(to_projected + (long long)point * ACROSS + layer * HIDDEN + at.column, d[r]);
  }
  to[2 * HIDDEN + mine] = column_sum(sums, lane);
  float read[8 * L::KEPT];
#pragma unroll
  for (int j = 0; j < L::KEPT; ++j)
    load8(s.vectors[now].own + at.column * L::KEPT + 8 * j, read + 8 * j);
#pragma unroll
  for (int j = 0; j < L::KEPT; ++j) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float value = s.u[now][1 - PARITY + 2 * j][at.g + 8 * r];
      float along = 0.0f;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        sums[i] = r ? sums[i] + d[r][i] * value : d[r][i] * value;
        along += d[r][i] * read[i * L::KEPT + j];
      }
      along = quad_sum(along);
      if (at.q == 0) s.read[j][at.warp][at.g + 8 * r] = along;
    }
    to[3 * HIDDEN + mine * L::KEPT + j] = column_sum(sums, lane);
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
flow_backward(const Unit* __restrict__ projected, const float* __restrict__ bias,
              const float* __restrict__ packed, const unsigned char* __restrict__ mask,
              const float* __restrict__ base, const float* __restrict__ us,
              const float* __restrict__ statistics, const float* __restrict__ parameters,
              const float* __restrict__ grad, Unit* __restrict__ to_projected,
              float* __restrict__ to_base, float* __restrict__ to_u,
              Unit* __restrict__ to_parameters, float* __restrict__ partial, int n, Constants c) {
  __shared__ Backward s;
  const Place at;
  for (int i = threadIdx.x; i < DIM * ROWS; i += THREADS) {
    const int row = i % ROWS, j = i / ROWS, point = at.first + row;
    float to_z = 0.0f;
    if (within(point, n)) {
      const float* law = base + (long long)context_of(point, c) * (2 * DIM);
      float rate;
      const float scale = base_scale(law[DIM + j], c, rate), g = grad[point];
      const float z = (us[(long long)(LAYERS * DIM + j) * n + point] - law[j]) / scale;
      to_z = -g * z / scale;
      to_base[(long long)point * (2 * DIM) + j] = -to_z;
      to_base[(long long)point * (2 * DIM) + DIM + j] = g * (z * z - 1.0f) / scale * rate;
    }
    s.to_u[j][row] = to_z;
  }
  Incoming vectors;
  Coming coming;
  ask<(LAYERS - 1) % 2>(vectors, bias, packed, LAYERS - 1);
  ask(coming, at, LAYERS - 1, us, parameters, n);
  receive<(LAYERS - 1) % 2>(s.vectors[(LAYERS - 1) % 2], vectors);
  receive(s, (LAYERS - 1) % 2, coming);
  __syncthreads();
  if (LAYERS % 2)
    backward_layer<0>(s, at, LAYERS - 1, projected, bias, packed, mask, us, statistics, parameters,
                      grad, to_projected, to_parameters, partial, n, c, true);
#pragma unroll 1
  for (int layer = LAYERS - 1 - LAYERS % 2; layer > 0; layer -= 2) {
    backward_layer<1>(s, at, layer, projected, bias, packed, mask, us, statistics, parameters, grad,
                      to_projected, to_parameters, partial, n, c, layer == LAYERS - 1);
    backward_layer<0>(s, at, layer - 1, projected, bias, packed, mask, us, statistics, parameters,
                      grad, to_projected, to_parameters, partial, n, c, false);
  }
  for (int i = threadIdx.x; i < DIM * ROWS; i += THREADS) {
    const int row = i % ROWS, j = i / ROWS, point = at.first + row;
    float sum = s.to_u[j][row];
    if (j % 2 == 1) {  // kept by the first layer
#pragma unroll
      for (int k = 0; k < WARPS; ++k) sum += s.read[j / 2][k][row];
    }
    if (within(point, n)) to_u[(long long)j * n + point] = sum;
  }
}
