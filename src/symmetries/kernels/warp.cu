// Image warps of one picture per block, from shared memory.
//
// A picture is copied once, with a border of zeros, so that no tap needs a test; lanes of a warp
// take a tile of 8 x 4 pixels, and rows lie a length apart for which near pixels of such a tile,
// turned by any angle, are hardly ever in one bank. Sampling points come from the 2 x 3 map in
// registers. The gradient to the images is gathered through the inverse of the map, in a window
// that is the same for all pixels, so results are the same in every run.
//
// Set by the compiler: H, W (of the result), MARGIN (around the source), C, MODE (0 bilinear, 1
// Keys, 2 cubic B-spline), PITCH and PITCH_OUT (lengths of rows in shared memory), WARPS, COLUMNS
// (tiles beside each other; WARPS is a multiple), VERSIONS (maps of each image), TO_MAP, TO_IMAGES,
// PER (pictures of a block, all copied before the first is warped; more than one only if C is one),
// FILTER (whether the source is made of images, H x W, by the prefilter of cubic B-splines).

constexpr int SH = H + 2 * MARGIN, SW = W + 2 * MARGIN;
constexpr int INSET = FILTER ? MARGIN : 0;  // of the images in the source
constexpr int IH = SH - 2 * INSET, IW = SW - 2 * INSET;  // of the images
constexpr int TAPS = MODE == 0 ? 2 : 4;
constexpr int BORDER = TAPS;  // of zeros
constexpr int LOW = MODE == 0 ? 0 : -1;  // the first tap
constexpr int TILE_ROWS = WARPS / COLUMNS;  // tiles below each other that a block does at once
constexpr int STEPS = (H + 4 * TILE_ROWS - 1) / (4 * TILE_ROWS);
constexpr bool EVEN = STEPS * 4 * TILE_ROWS == H;  // all rows of all tiles are pixels
constexpr int THREADS = 32 * WARPS;
constexpr int ROOM = (SH + 2 * BORDER) * PITCH;  // of a source
constexpr float UNIT = H > W ? H : W;
constexpr float DOWN = 8 * TILE_ROWS / UNIT;  // from a tile to the next one of the same thread

__device__ __forceinline__ void weights(float f, float* w, float* d) {
  if (MODE == 1) {
    const float a = -0.75f;
    float t = 1.0f + f;
    w[0] = a * (((t - 5.0f) * t + 8.0f) * t - 4.0f);
    d[0] = a * ((3.0f * t - 10.0f) * t + 8.0f);
    w[1] = ((a + 2.0f) * f - (a + 3.0f)) * f * f + 1.0f;
    d[1] = (3.0f * (a + 2.0f) * f - 2.0f * (a + 3.0f)) * f;
    t = 1.0f - f;
    w[2] = ((a + 2.0f) * t - (a + 3.0f)) * t * t + 1.0f;
    d[2] = -(3.0f * (a + 2.0f) * t - 2.0f * (a + 3.0f)) * t;
    t = 2.0f - f;
    w[3] = a * (((t - 5.0f) * t + 8.0f) * t - 4.0f);
    d[3] = -a * ((3.0f * t - 10.0f) * t + 8.0f);
  } else {
    const float t = 1.0f - f;
    w[0] = t * t * t * (1.0f / 6.0f);
    d[0] = -0.5f * t * t;
    w[1] = 2.0f / 3.0f - f * f * (2.0f - f) * 0.5f;
    d[1] = f * (1.5f * f - 2.0f);
    w[2] = 2.0f / 3.0f - t * t * (2.0f - t) * 0.5f;
    d[2] = -t * (1.5f * t - 2.0f);
    w[3] = f * f * f * (1.0f / 6.0f);
    d[3] = 0.5f * f * f;
  }
}

// The same weight as a function of the distance between point and tap.
__device__ __forceinline__ float bump(float distance) {
  const float a = fabsf(distance);
  const float near = __saturatef(1.0f - a);
  if (MODE == 0) return near;
  if (MODE == 2) {
    const float far = fmaxf(2.0f - a, 0.0f);
    return (1.0f / 6.0f) * (far * far * far) - (2.0f / 3.0f) * (near * near * near);
  }
  const float inner = (1.25f * a - 2.25f) * a * a + 1.0f;
  const float outer = -0.75f * (((a - 5.0f) * a + 8.0f) * a - 4.0f);
  return a < 1.0f ? inner : (a < 2.0f ? outer : 0.0f);
}

// Coefficients of the cubic B-spline through values (zero outside), in place.
__device__ __forceinline__ void filter(float* at, int step, int length) {
  const float z = -0.2679491924311227f;  // the pole
  float value = 0.0f;
#pragma unroll 4
  for (int k = 0; k < length; ++k) at[k * step] = value = 6.0f * at[k * step] + z * value;
  at[(length - 1) * step] = value *= z / (z * z - 1.0f);
#pragma unroll 4
  for (int k = length - 2; k >= 0; --k) at[k * step] = value = z * (value - at[k * step]);
}

// A picture with its border of zeros; `at` points behind the border.
__device__ __forceinline__ void copy_source(const float* __restrict__ picture, float* at) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int row = warp - BORDER, column = lane - BORDER;
  const float* from = picture + ((row - INSET) * IW + column - INSET);
  float* to = at + (row * PITCH + column);
#pragma unroll
  for (int r = 0; r < SH + 2 * BORDER; r += WARPS) {
#pragma unroll
    for (int c = 0; c < SW + 2 * BORDER; c += 32) {
      const bool inside = (unsigned)(row + r - INSET) < IH && (unsigned)(column + c - INSET) < IW;
      const float value = inside ? __ldg(from + (r * IW + c)) : 0.0f;
      const bool rows = r + WARPS <= SH + 2 * BORDER || row + r < SH + BORDER;
      const bool columns = c + 32 <= SW + 2 * BORDER || column + c < SW + BORDER;
      if (rows && columns) to[r * PITCH + c] = value;
    }
  }
  if (FILTER) {
    __syncthreads();
    for (int i = threadIdx.x; i < IW; i += THREADS) filter(at + INSET + i, PITCH, SH);
    __syncthreads();
    for (int i = threadIdx.x; i < SH; i += THREADS) filter(at + i * PITCH, 1, SW);
  }
}

struct Map {
  float c, cy, r, ry;  // of this thread's column: source column c + cy y, source row r + ry y
  __device__ __forceinline__ Map(const float* __restrict__ t, float x) {
    c = 0.5f * UNIT * (t[0] * x + t[2]) + (0.5f * (W - 1) + MARGIN);
    r = -0.5f * UNIT * (t[3] * x + t[5]) + (0.5f * (H - 1) + MARGIN);
    cy = 0.5f * UNIT * t[1];
    ry = -0.5f * UNIT * t[4];
  }
  // Whole and fractional part of the point that pixel y sees; points outside stay in the border.
  __device__ __forceinline__ int point(float y, float& fr, float& fc) const {
    const float beyond = 0.5f * TAPS + 0.5f;
    const float ca = fminf(fmaxf(cy * y + c, -beyond), SW - 1 + beyond);
    const float ra = fminf(fmaxf(ry * y + r, -beyond), SH - 1 + beyond);
    const float c0 = floorf(ca), r0 = floorf(ra);
    fc = ca - c0;
    fr = ra - r0;
    return __float2int_rn(r0 * PITCH + c0);
  }
};

__device__ __forceinline__ float height_of(int row) { return (H - 1 - 2 * row) * (1.0f / UNIT); }

extern "C" __global__ void __launch_bounds__(THREADS)
warp_forward(const float* __restrict__ images, const float* __restrict__ theta,
             float* __restrict__ out, int count, int image_step, int version_step) {
  extern __shared__ float memory[];
  float* source = memory + BORDER * PITCH + BORDER;
  const int channel = blockIdx.y;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int column = (warp % COLUMNS) * 8 + (lane & 7);
  const int first = (warp / COLUMNS) * 4 + (lane >> 3);
#pragma unroll
  for (int j = 0; j < PER; ++j) {
    const int picture = blockIdx.x * PER + j;
    if (PER > 1 && picture >= count) break;
    copy_source(images + ((long long)(picture / VERSIONS) * C + channel) * (IH * IW),
                source + j * ROOM);
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < PER; ++j) {
    const int picture = blockIdx.x * PER + j;
    if (PER > 1 && picture >= count) break;
    const int n = picture / VERSIONS, s = picture % VERSIONS;
    const Map map(theta + (long long)n * image_step + s * version_step,
                  (2 * column + 1 - W) * (1.0f / UNIT));
    float* target = out + ((long long)picture * C + channel) * (H * W) + (first * W + column);
    const float y = height_of(first);
#pragma unroll 8
    for (int k = 0; k < STEPS; ++k) {
      float fr, fc, value;
      const float* at = source + j * ROOM + map.point(y - k * DOWN, fr, fc);
      if (MODE == 0) {
        const float top = at[0] + fc * (at[1] - at[0]);
        const float bottom = at[PITCH] + fc * (at[PITCH + 1] - at[PITCH]);
        value = top + fr * (bottom - top);
      } else {
        float wr[4], wc[4], unused[4];
        weights(fr, wr, unused);
        weights(fc, wc, unused);
        value = 0.0f;
#pragma unroll
        for (int a = 0; a < 4; ++a) {
          const float* line = at + (a + LOW) * PITCH + LOW;
          value += wr[a] * (wc[0] * line[0] + wc[1] * line[1] + wc[2] * line[2] + wc[3] * line[3]);
        }
      }
      if (column < W && (EVEN || first + 4 * TILE_ROWS * k < H))
        target[4 * TILE_ROWS * k * W] = value;
    }
  }
}

// Eight sums over a warp: afterwards lane 4 j holds sum j.
__device__ __forceinline__ float eight_sums(float* v) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int count = 4, width = 16; count > 0; count >>= 1, width >>= 1) {
    const bool upper = lane & width;
#pragma unroll
    for (int j = 0; j < count; ++j) {
      const float given = upper ? v[j] : v[j + count];
      v[j] = (upper ? v[j + count] : v[j]) + __shfl_xor_sync(0xffffffffu, given, width);
    }
  }
  v[0] += __shfl_xor_sync(0xffffffffu, v[0], 2);
  return v[0] + __shfl_xor_sync(0xffffffffu, v[0], 1);
}

// Sum over a window of gradients, whose first pixel is (row_by, column_by) away from the source.
template <int ACROSS>
__device__ __forceinline__ float window(const float* __restrict__ g, int down, float row_by,
                                        float column_by, float p, float q, float u, float v) {
  float total = 0.0f;
#pragma unroll 4
  for (int a = 0; a < down; ++a) {
#pragma unroll
    for (int b = 0; b < ACROSS; ++b)
      total += bump(row_by - b * u) * bump(column_by + b * p) * g[a * PITCH_OUT + b];
    row_by += v;
    column_by -= q;
  }
  return total;
}

// Sums, over this thread's pixels, of the gradients to the source point, and of these times y.
struct Slopes {
  float column = 0.0f, column_y = 0.0f, row = 0.0f, row_y = 0.0f;
  template <bool SHARED>
  __device__ __forceinline__ void add(const Map& map, const float* source, const float* given,
                                      int stride, bool inside, int first) {
    const float y0 = height_of(first);
#pragma unroll 8
    for (int k = 0; k < STEPS; ++k) {
      const int down = 4 * TILE_ROWS * k;
      float g = 0.0f;
      if (inside && (EVEN || first + down < H))
        g = SHARED ? given[down * stride] : __ldg(given + down * stride);
      const float y = y0 - k * DOWN;
      float fr, fc, by_row, by_column;
      const float* at = source + map.point(y, fr, fc);
      if (MODE == 0) {
        const float along = at[1] - at[0], below = at[PITCH + 1] - at[PITCH];
        by_row = at[PITCH] + fc * below - (at[0] + fc * along);
        by_column = along + fr * (below - along);
      } else {
        float wr[4], wc[4], dr[4], dc[4];
        weights(fr, wr, dr);
        weights(fc, wc, dc);
        by_row = by_column = 0.0f;
#pragma unroll
        for (int a = 0; a < 4; ++a) {
          const float* l = at + (a + LOW) * PITCH + LOW;
          by_row += dr[a] * (wc[0] * l[0] + wc[1] * l[1] + wc[2] * l[2] + wc[3] * l[3]);
          by_column += wr[a] * (dc[0] * l[0] + dc[1] * l[1] + dc[2] * l[2] + dc[3] * l[3]);
        }
      }
      by_row *= g;
      by_column *= g;
      row += by_row;
      row_y += by_row * y;
      column += by_column;
      column_y += by_column * y;
    }
  }
  // The six sums of a block, for each warp in its place of `parts`.
  __device__ __forceinline__ void reduce(float x, float* parts) const {
    const float half = 0.5f * UNIT;
    float sums[8] = {half * x * column, half * column_y, half * column,
                     -half * x * row, -half * row_y, -half * row, 0.0f, 0.0f};
    const float sum = eight_sums(sums);
    const int lane = threadIdx.x & 31;
    if ((lane & 3) == 0) parts[(threadIdx.x >> 5) * 8 + (lane >> 2)] = sum;
  }
};

__device__ __forceinline__ void store_sums(const float* parts, float* target, int j) {
  float total = 0.0f;
#pragma unroll
  for (int w = 0; w < WARPS; ++w) total += parts[w * 8 + j];
  target[j] = total;
}

// The gradient to the maps alone, of several pictures of one channel.
extern "C" __global__ void __launch_bounds__(THREADS)
warp_slopes(const float* __restrict__ images, const float* __restrict__ theta,
            const float* __restrict__ grad_out, float* __restrict__ grad_theta, int count,
            int image_step, int version_step) {
  extern __shared__ float memory[];
  float* source = memory + BORDER * PITCH + BORDER;
  __shared__ float parts[PER][WARPS * 8];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int column = (warp % COLUMNS) * 8 + (lane & 7);
  const int first = (warp / COLUMNS) * 4 + (lane >> 3);
  const float x = (2 * column + 1 - W) * (1.0f / UNIT);
#pragma unroll
  for (int j = 0; j < PER; ++j) {
    const int picture = blockIdx.x * PER + j;
    if (PER > 1 && picture >= count) break;
    copy_source(images + (long long)(picture / VERSIONS) * (IH * IW), source + j * ROOM);
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < PER; ++j) {
    const int picture = blockIdx.x * PER + j;
    if (PER > 1 && picture >= count) break;
    const int n = picture / VERSIONS, s = picture % VERSIONS;
    const Map map(theta + (long long)n * image_step + s * version_step, x);
    Slopes slopes;
    slopes.add<false>(map, source + j * ROOM,
                      grad_out + (long long)picture * (H * W) + (first * W + column), W,
                      column < W, first);
    slopes.reduce(x, parts[j]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 8 * PER; i += THREADS) {
    const long long picture = blockIdx.x * PER + i / 8;
    if (i % 8 < 6 && picture < count) store_sums(parts[i / 8], grad_theta + picture * 6, i % 8);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
warp_backward(const float* __restrict__ images, const float* __restrict__ theta,
              const float* __restrict__ grad_out, float* __restrict__ grad_images,
              float* __restrict__ grad_theta, int image_step, int version_step) {
  extern __shared__ float memory[];
  float* source = memory + BORDER * PITCH + BORDER;
  float* grads = memory + (TO_MAP ? (SH + 2 * BORDER) * PITCH : 0);
  float* coefficients = grads + H * PITCH_OUT;  // gradients to them
  __shared__ float parts[WARPS * 8];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int column = (warp % COLUMNS) * 8 + (lane & 7);
  const int first = (warp / COLUMNS) * 4 + (lane >> 3);
  // With the map a block has all channels of one version; otherwise all versions of one channel.
  const long long n = TO_MAP ? blockIdx.x / VERSIONS : blockIdx.x / C;
  const int s0 = TO_MAP ? blockIdx.x % VERSIONS : 0, s1 = TO_MAP ? s0 + 1 : VERSIONS;
  const int c0 = TO_MAP ? 0 : blockIdx.x % C, c1 = TO_MAP ? C : c0 + 1;
  const float x = (2 * column + 1 - W) * (1.0f / UNIT);
  float* mine = grads + (first * PITCH_OUT + column);
  Slopes slopes;
  for (int channel = c0; channel < c1; ++channel) {
    for (int s = s0; s < s1; ++s) {
      const float* t = theta + n * image_step + s * version_step;
      const float* given = grad_out + ((n * VERSIONS + s) * C + channel) * (H * W) + (first * W + column);
      if (channel > c0 || s > s0) __syncthreads();
      if (TO_MAP) copy_source(images + (n * C + channel) * (IH * IW), source);
      if (TO_IMAGES) {
#pragma unroll 8
        for (int k = 0; k < STEPS; ++k) {
          const int row = 4 * TILE_ROWS * k;
          if (column < W && (EVEN || first + row < H)) mine[row * PITCH_OUT] = given[row * W];
        }
      }
      __syncthreads();
      if (TO_MAP && TO_IMAGES)
        slopes.add<true>(Map(t, x), source, mine, PITCH_OUT, column < W, first);
      else if (TO_MAP)
        slopes.add<false>(Map(t, x), source, given, W, column < W, first);
      if (TO_IMAGES) {
        // From pixel to pixel the map is (column, row) -> (p column - q row, -u column + v row)
        // and a shift; where it is singular, everything is looked at.
        const float p = t[0], q = t[1], u = t[3], v = t[4];
        const float det = p * v - q * u;
        const float scale = 1.0f / (fabsf(det) < 1e-12f ? 1e-12f : det);
        const float reach = 0.5f * TAPS * 1.0001f * fabsf(scale);
        const float wide = reach * (fabsf(v) + fabsf(q)) + 1e-3f;
        const float tall = reach * (fabsf(u) + fabsf(p)) + 1e-3f;
        const int across = (int)fminf(2.0f * wide, W - 1.0f) + 1;
        const int down = (int)fminf(2.0f * tall, H - 1.0f) + 1;
        const Map corner(t, (1 - W) * (1.0f / UNIT));
        const float far = 4.0f + 4.0f * (H + W);
        const float column_0 = fminf(fmaxf(corner.c + corner.cy * height_of(0), -far), far);
        const float row_0 = fminf(fmaxf(corner.r + corner.ry * height_of(0), -far), far);
        constexpr int SOURCE_COLUMNS = (SW + 7) / 8, TILES = SOURCE_COLUMNS * ((SH + 3) / 4);
        float* target = FILTER ? coefficients : grad_images + (n * C + channel) * (SH * SW);
        constexpr int STRIDE = FILTER ? PITCH : SW;
        for (int tile = warp; tile < TILES; tile += WARPS) {
          const int r = tile / SOURCE_COLUMNS * 4 + (lane >> 3);
          const int c = tile % SOURCE_COLUMNS * 8 + (lane & 7);
          const float dc = c - column_0, dr = r - row_0;
          // Where the map comes from this pixel of the source; the window around it stays inside.
          const float from_c = (v * dc + q * dr) * scale, from_r = (u * dc + p * dr) * scale;
          const bool seen = from_c + wide >= 0.0f && from_c - wide <= W - 1.0f &&
                            from_r + tall >= 0.0f && from_r - tall <= H - 1.0f;
          const float left = fmaxf(fminf(ceilf(from_c - wide), W - across), 0.0f);
          const float top = fmaxf(fminf(ceilf(from_r - tall), H - down), 0.0f);
          const float row_by = v * top - u * left - dr, column_by = p * left - q * top - dc;
          const float* g = grads + __float2int_rn(top * PITCH_OUT + left);
          float total = 0.0f;
          if (seen) {
            if (across == TAPS) total = window<TAPS>(g, down, row_by, column_by, p, q, u, v);
            else if (across == TAPS + 1)
              total = window<TAPS + 1>(g, down, row_by, column_by, p, q, u, v);
            else if (across == TAPS + 2)
              total = window<TAPS + 2>(g, down, row_by, column_by, p, q, u, v);
            else
              for (int b = 0; b < across; ++b)
                total += window<1>(g + b, down, row_by - b * u, column_by + b * p, p, q, u, v);
          }
          if (c < SW && r < SH) {
            if (s > s0) target[r * STRIDE + c] += total;
            else target[r * STRIDE + c] = total;
          }
        }
      }
    }
    if (TO_IMAGES && FILTER) {  // the transpose of the prefilter, which is symmetric
      float* target = grad_images + (n * C + channel) * (IH * IW);
      __syncthreads();
      for (int i = threadIdx.x; i < SH; i += THREADS) filter(coefficients + i * PITCH, 1, SW);
      __syncthreads();
      for (int i = threadIdx.x; i < IW; i += THREADS) filter(coefficients + INSET + i, PITCH, SH);
      __syncthreads();
      for (int r = warp; r < IH; r += WARPS)
        for (int c = lane; c < IW; c += 32)
          target[r * IW + c] = coefficients[(r + INSET) * PITCH + c + INSET];
    }
  }
  if (TO_MAP) {
    slopes.reduce(x, parts);
    __syncthreads();
    if (threadIdx.x < 6) store_sums(parts, grad_theta + (long long)blockIdx.x * 6, threadIdx.x);
  }
}
